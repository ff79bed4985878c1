// One rank of the tests of the store over PMIx, started by mpirun or `srun --mpi=pmix` without any
// DLRUN_ variable:
//
//   pmix_ranks SIZE store|missing|with_mpi|no_server
//   pmix_ranks SIZE collectives BACKEND
//
// SIZE is the world size requested from the launcher. The test fails if the launcher starts a world
// of another size, such as one rank, because the test would then check less. no_server runs with
// the variables of a launcher that does not exist, and expects an error.

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/env.h"
#include "common/text.h"
#include "runtime/bootstrap/store.h"
#include "runtime/comm/make_communicator.h"
#include "tests/ranks/collective_checks.h"

namespace {

using namespace dlrun;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kWaitLimit{60'000};

/// Prints the failures. Returns the exit code.
int report(const std::vector<std::string>& failures) {
  for (const std::string& failure : failures) std::fputs((failure + "\n").c_str(), stderr);
  return failures.empty() ? 0 : 1;
}

/// Returns bytes that differ between ranks and between positions.
std::string value_of(int rank, std::size_t size) {
  std::string value(size, '\0');
  for (std::size_t i = 0; i < size; ++i)
    value[i] = static_cast<char>((i * 7 + static_cast<std::size_t>(rank)) % 256);
  return value;
}

/// Waits until all ranks are done, because a rank's values may be lost when the rank ends. Reports
/// the failures, and returns the exit code.
int wait_for_all_and_report(Store& store, const World& world, std::vector<std::string> failures) {
  CommunicatorOptions options;
  options.world = world;
  options.store = &store;
  options.prefix = "leave";
  options.timeout = kWaitLimit;
  auto gloo = make_communicator("gloo", options);
  auto waited = gloo ? (*gloo)->barrier() : Result<>(tl::unexpected(gloo.error()));
  if (!waited) failures.push_back(waited.error().message);
  return report(failures);
}

/// Checks the contract of a store: values of any bytes and any size, written once. A key may be put
/// after other ranks began to wait for it, and after other keys of the same rank were read. Other
/// values for a key, values that are too large, and keys of other ranks are refused.
std::vector<std::string> check_store(Store& store, const World& world) {
  std::vector<std::string> failures;
  const auto must_be = [&](const std::string& key, const std::string& expected) {
    const auto got = store.get(key, kWaitLimit);
    if (!got) failures.push_back(fmt::format("rank {}: {}", world.rank, got.error().message));
    if (got && *got != expected) {
      failures.push_back(
          fmt::format("rank {}: the value of '{}' ({} bytes) differs from the value that was put",
                      world.rank, key, got->size()));
    }
  };
  const auto must_put = [&](const std::string& key, const std::string& value) {
    if (auto put = store.put(key, value); !put) failures.push_back(put.error().message);
  };
  int round = 0;
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{4096}, kStoreValueLimitBytes}) {
    // Each rank puts its value some time after the other ranks have begun to wait.
    std::this_thread::sleep_for(milliseconds(20 * world.rank));
    must_put(fmt::format("round{}/{}", round, world.rank), value_of(world.rank, size));
    for (int other = 0; other < world.size; ++other)
      must_be(fmt::format("round{}/{}", round, other), value_of(other, size));
    ++round;
  }
  const std::string unusual_key("a\0=/\xff id", 8);
  if (world.rank == 0) must_put(unusual_key, "one of rank 0");
  must_be(unusual_key, "one of rank 0");

  const auto expect = [&](const Result<>& result, Errc code, std::string_view part) {
    if (result) {
      failures.push_back(fmt::format("rank {}: expected an error with '{}'", world.rank, part));
    } else if (result.error().code != code ||
               result.error().message.find(part) == std::string::npos) {
      failures.push_back(result.error().message);
    }
  };
  const std::string own = fmt::format("round0/{}", world.rank);
  must_put(own, "");  // the same value again
  expect(store.put(own, "other"), Errc::kRefused, "holds another value already");
  expect(
      store.put("large/" + std::to_string(world.rank), std::string(kStoreValueLimitBytes + 1, 'x')),
      Errc::kInvalid, "at most 500000");
  const int other = (world.rank + 1) % world.size;
  if (other != world.rank) {
    expect(
        store.put(fmt::format("theirs/{}", other), "x"), Errc::kInvalid,
        fmt::format("only rank {0} may put the key 'theirs/{0}', not rank {1}", other, world.rank));
  }
  expect(store.put(fmt::format("nobody/{}", world.size), "x"), Errc::kInvalid,
         "ends in a number that is not a rank");
  return failures;
}

/// Checks that opening a store fails for a world with one rank more than the launcher has started.
/// world: the world that the launcher has started.
void check_wrong_world_size(World world, const Env& env, std::vector<std::string>& failures) {
  ++world.size;
  ++world.local_size;
  for (const std::string_view backend : {"gloo", "shm"}) {
    const auto store = open_store_for(backend, world, env);
    if (store) {
      failures.push_back(fmt::format("{}: a world of {} got a store", backend, world.size));
    } else if (store.error().code != Errc::kInvalid ||
               store.error().message.find(fmt::format("expected rank {} of {}", world.rank,
                                                      world.size)) == std::string::npos) {
      failures.push_back(store.error().message);
    }
  }
}

/// Checks that a wait for a key that no rank puts ends in time, that the error has the key and the
/// rank, and that the store then works as before. Also calls check_wrong_world_size().
std::vector<std::string> check_missing(Store& store, const World& world, const Env& env) {
  std::vector<std::string> failures;
  check_wrong_world_size(world, env, failures);
  for (int rank = 0; rank < world.size; ++rank) {
    const std::string key = fmt::format("never/{}", rank);
    const auto before = steady_clock::now();
    const auto got = store.get(key, milliseconds(700));
    const auto waited = steady_clock::now() - before;
    if (got) {
      failures.push_back(fmt::format("'{}' is there", key));
    } else if (got.error().code != Errc::kTimeout ||
               got.error().message !=
                   fmt::format("store: rank {} has not put '{}' within 700 ms", rank, key)) {
      failures.push_back(got.error().message);
    }
    if (waited < milliseconds(700)) failures.emplace_back("the wait took less than 700 ms");
    if (waited > milliseconds(10'000)) failures.emplace_back("the wait took more than 10 s");
  }
  // A get() that timed out does not disturb later calls.
  if (auto put = store.put(fmt::format("after/{}", world.rank), "x"); !put)
    failures.push_back(put.error().message);
  for (int rank = 0; rank < world.size; ++rank) {
    if (const auto got = store.get(fmt::format("after/{}", rank), kWaitLimit); !got)
      failures.push_back(got.error().message);
  }
  return failures;
}

/// Checks the collectives of `backend` over the store, and that a second communicator works.
std::vector<std::string> check_backend(std::string_view backend,
                                       const CommunicatorOptions& options) {
  auto comm = make_communicator(backend, options);
  if (!comm) return {comm.error().message};
  if (backend != "auto" && (*comm)->name() != backend)
    return {fmt::format("expected the backend {}, got {}", backend, (*comm)->name())};
  if (backend == "auto" && (*comm)->name() != "shm")
    return {fmt::format("expected auto to choose the backend shm, got {}", (*comm)->name())};
  auto failures = check_collectives(**comm);
  auto second = options;
  second.prefix = "second";
  auto again = make_communicator(backend, second);
  if (!again) return {again.error().message};
  if (auto met = (*again)->barrier(); !met) failures.push_back(met.error().message);
  return failures;
}

/// Checks that MPI and the store, which both use PMIx, work side by side: after either has
/// finalized PMIx, the other can still use PMIx.
std::vector<std::string> check_with_mpi(std::unique_ptr<Store> store, const World& world,
                                        const Env& env) {
  CommunicatorOptions options;
  options.world = world;
  options.timeout = kWaitLimit;
  options.store = store.get();
  auto mpi = make_communicator("mpi", options);
  if (!mpi) return {mpi.error().message};
  std::vector<std::string> failures;
  {
    auto gloo = make_communicator("gloo", options);
    if (!gloo) return {gloo.error().message};
    if (auto met = (*gloo)->barrier(); !met) failures.push_back(met.error().message);
  }
  store.reset();
  if (auto met = (*mpi)->barrier(); !met) failures.push_back(met.error().message);
  auto again = open_store_for("gloo", world, env);
  if (!again) return {again.error().message};
  mpi->reset();  // calls MPI_Finalize
  options.store = again->get();
  options.prefix = "second";
  auto gloo = make_communicator("gloo", options);
  if (!gloo) return {gloo.error().message};
  if (auto met = (*gloo)->barrier(); !met) failures.push_back(met.error().message);
  return failures;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> arguments(argv + 1, argv + argc);
  if (arguments.size() < 2)
    return report({"usage: pmix_ranks SIZE store|missing|with_mpi|no_server",
                   "       pmix_ranks SIZE collectives BACKEND"});
  const Env env = Env::of_process();
  for (const char* name : {"DLRUN_RANK", "DLRUN_STORE", "DLRUN_ADDR"}) {
    if (env.has(name))
      return report({fmt::format("{} is set, so the store would not use PMIx", name)});
  }
  const auto world = read_world(env, ProcessKind::kProgram);
  if (!world) return report({world.error().message});
  if (world->size != parse_int(arguments[0])) {
    return report(
        {fmt::format("the launcher made a world of {}, not of {}", world->size, arguments[0])});
  }
  const bool is_collectives = arguments[1] == "collectives" && arguments.size() == 3;
  const std::string_view backend = is_collectives ? arguments[2] : "gloo";
  auto store = open_store_for(backend, *world, env);
  if (arguments[1] == "no_server") {
    // The environment names a launcher that does not exist, so PMIx_Init must fail.
    const bool is_expected_error =
        !store && store.error().code == Errc::kUnavailable &&
        store.error().message.starts_with("store over PMIx: PMIx_Init: ");
    return report(is_expected_error
                      ? std::vector<std::string>{}
                      : std::vector{store ? "expected an error of PMIx_Init, but a store was opened"
                                          : store.error().message});
  }
  if (!store) return report({store.error().message});
  if (*store == nullptr) return report({"there is no store"});
  if (arguments[1] == "store")
    return wait_for_all_and_report(**store, *world, check_store(**store, *world));
  if (arguments[1] == "missing")
    return wait_for_all_and_report(**store, *world, check_missing(**store, *world, env));
  if (arguments[1] == "with_mpi") return report(check_with_mpi(std::move(*store), *world, env));
  if (!is_collectives) return report({"unknown test, or collectives without BACKEND"});
  CommunicatorOptions options;
  options.world = *world;
  options.is_under_mpi_launcher = is_under_mpi_launcher(env);
  options.store = store->get();
  options.timeout = kWaitLimit;
  return report(check_backend(backend, options));
}
