// Tests the rccl backend with a stand-in for librccl.so.1, whose ranks are threads.

#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <doctest/doctest.h>

#include "runtime/bootstrap/memory_store.h"
#include "runtime/comm/make_communicator.h"
#include "tests/ranks/collective_checks.h"
#include "tests/ranks/run_ranks.h"

namespace dlrun {
namespace {

/// Loads the stand-in. The loader then uses it for every request for librccl.so.1.
struct StandIn {
  void* const library = ::dlopen(DLRUN_STAND_IN_RCCL, RTLD_NOW | RTLD_GLOBAL);
  StandIn() {
    const char* const why = library == nullptr ? ::dlerror() : "";
    REQUIRE_MESSAGE(library != nullptr, why);
    ::unsetenv("DLRUN_STAND_IN_GPUS");
  }
  template <typename Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(::dlsym(library, name));
  }
};

}  // namespace

TEST_CASE_FIXTURE(StandIn, "rccl: every collective gives the closed form, from host memory") {
  for (const int size : {1, 2, 4, 7}) {
    CAPTURE(size);
    check_none(on_threads("rccl", size, check_collectives));
  }
}

TEST_CASE_FIXTURE(StandIn,
                  "rccl: the error on every rank names the ranks that call another operation") {
  for (const Mismatch mismatch : kMismatches)
    check_none(
        on_threads("rccl", 2, [&](Communicator& comm) { return check_mismatch(comm, mismatch); }));
}

TEST_CASE_FIXTURE(StandIn,
                  "rccl: an all-reduce of device memory changes it in place, as a request") {
  auto* const allocate = function<int(void**, std::size_t)>("hipMalloc");
  auto* const release = function<int(void*)>("hipFree");
  const bool has_functions = allocate != nullptr && release != nullptr;
  REQUIRE(has_functions);
  check_none(on_threads("rccl", 3, [&](Communicator& comm) -> std::vector<std::string> {
    if (comm.name() != "rccl") return {"the communicator is " + std::string(comm.name())};
    void* memory = nullptr;
    if (allocate(&memory, 4 * sizeof(float)) != 0) return {"no memory"};
    auto* const values = static_cast<float*>(memory);
    for (int i = 0; i < 4; ++i) values[i] = static_cast<float>(comm.rank() + i);
    auto request = comm.start_all_reduce(Buffer(values, 4, DataType::kFloat32), ReduceOp::kSum);
    if (!request) return {request.error().message};
    if (auto done = request->wait(); !done) return {done.error().message};
    std::vector<std::string> failures;
    for (int i = 0; i < 4; ++i) {
      if (values[i] != static_cast<float>(3 + 3 * i)) failures.push_back("a sum is wrong");
    }
    release(memory);
    return failures;
  }));
}

TEST_CASE_FIXTURE(StandIn, "rccl: a rank that does not arrive is an error after the timeout") {
  MemoryStore store;
  auto options = options_of(0, 2, store);
  options.timeout = std::chrono::milliseconds(300);
  const auto alone = make_communicator("rccl", options);
  REQUIRE_FALSE(alone);
  CHECK(alone.error().code == Errc::kTimeout);
  CHECK(has(alone.error().message, "a rank is missing"));
}

TEST_CASE_FIXTURE(StandIn, "rccl: without a GPU the error names HIP's function and the remedy") {
  ::setenv("DLRUN_STAND_IN_GPUS", "0", 1);
  MemoryStore store;
  const auto none = make_communicator("rccl", options_of(0, 2, store));
  REQUIRE_FALSE(none);
  CHECK(none.error().code == Errc::kUnavailable);
  CHECK(has(none.error().message, "no GPU: hipGetDeviceCount"));
  ::setenv("DLRUN_STAND_IN_GPUS", "2", 1);
  const auto few = make_communicator("rccl", options_of(3, 4, store));
  REQUIRE_FALSE(few);
  CHECK(has(few.error().message, "local rank 3 has no GPU: this process sees 2; rccl needs one"));
}

}  // namespace dlrun
