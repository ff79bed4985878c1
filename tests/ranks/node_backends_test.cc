// Tests the behaviour that the backends shm and gloo have in common. Neither needs a launcher, so
// the ranks are threads of one process.

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/bootstrap/memory_store.h"
#include "runtime/comm/make_communicator.h"
#include "tests/ranks/collective_checks.h"
#include "tests/ranks/run_ranks.h"
#include "tests/time_bounds.h"

namespace dlrun {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

struct Backend {
  std::string_view name;
  std::string_view missing_rank_error;  ///< a part of rank 0's error if rank 1 does not join
};
const std::vector<Backend> kBackends{
    {"shm", "rank 1 did not join"},
#ifdef DLRUN_TEST_GLOO
    {"gloo", "gloo/world/1"},
#endif
};

}  // namespace

// Numbers of ranks. Under a sanitizer, seven ranks that wait for each other on two processors would
// take a minute.
constexpr std::array kSizes = kWithSanitizer ? std::array{1, 2, 3, 4} : std::array{1, 2, 4, 7};

TEST_CASE("shm, gloo: every collective gives the expected values at several numbers of ranks") {
  for (const Backend& backend : kBackends) {
    for (const int size : kSizes) {
      CAPTURE(backend.name);
      CAPTURE(size);
      expect_no_failures(on_threads(backend.name, size, check_collectives));
    }
  }
}

TEST_CASE("shm, gloo: the error on every rank names the ranks that make a different call") {
  for (const Backend& backend : kBackends) {
    for (const int size : {2, 4, 7}) {
      for (const Mismatch mismatch : kMismatches) {
        CAPTURE(backend.name);
        expect_no_failures(on_threads(backend.name, size, [&](Communicator& comm) {
          return check_mismatch(comm, mismatch);
        }));
      }
    }
  }
}

TEST_CASE("shm, gloo: two communicators over one store do not disturb each other") {
  for (const Backend& backend : kBackends) {
    CAPTURE(backend.name);
    const auto store = std::make_shared<MemoryStore>();
    expect_no_failures(
        on_threads(backend.name, 2, [&](Communicator& first) -> std::vector<std::string> {
          auto options = options_of(first.rank(), 2, *store);
          options.prefix = "second";
          auto second = make_communicator(backend.name, options);
          if (!second) return {second.error().message};
          std::vector<float> one{1};
          std::vector<float> two{2};
          auto request = first.start_all_reduce(std::span(one), ReduceOp::kSum);
          if (!request) return {request.error().message};
          if (auto done = (*second)->all_reduce(std::span(two), ReduceOp::kSum); !done)
            return {done.error().message};
          if (auto done = request->wait(); !done) return {done.error().message};
          if (one[0] != 2 || two[0] != 4) return {"sums of 1 and 2 over two ranks are not 2 and 4"};
          return {};
        }));
  }
}

TEST_CASE(
    "shm, gloo: after the timeout the error names the rank that has not joined, and without a "
    "store the error has a remedy") {
  for (const Backend& backend : kBackends) {
    CAPTURE(backend.name);
    MemoryStore store;
    auto options = options_of(0, 2, store);
    options.timeout = milliseconds(300);
    const auto before = steady_clock::now();
    const auto without_rank_1 = make_communicator(backend.name, options);
    REQUIRE_FALSE(without_rank_1);
    CHECK(without_rank_1.error().code == Errc::kTimeout);
    CHECK(has(without_rank_1.error().message, backend.missing_rank_error));
    CHECK(steady_clock::now() - before < std::chrono::seconds(5));
    options.store = nullptr;
    const auto without_store = make_communicator(backend.name, options);
    REQUIRE_FALSE(without_store);
    // If the code were kInvalid, the trainer would end with the exit code of wrong data.
    CHECK(without_store.error().code == Errc::kUnavailable);
    CHECK(has(without_store.error().message, "DLRUN_STORE is not set"));
  }
}

TEST_CASE(
    "shm, gloo: if a rank abandons its communicator, the others' calls fail long before the "
    "timeout") {
  for (const Backend& backend : kBackends) {
    CAPTURE(backend.name);
    const auto before = steady_clock::now();
    expect_no_failures(
        on_threads(backend.name, 3, [&](Communicator& comm) -> std::vector<std::string> {
          if (auto reached = comm.barrier(); !reached) return {reached.error().message};
          if (comm.rank() == 1) {
            comm.abandon();
            return {};
          }
          const auto after = comm.barrier();
          if (after) return {"a barrier without rank 1 succeeded"};
          if (backend.name == "shm" && !has(after.error().message, "rank 1 has stopped"))
            return {after.error().message};
          return {};
        }));
    CHECK(steady_clock::now() - before < std::chrono::seconds(10));
  }
}

}  // namespace dlrun
