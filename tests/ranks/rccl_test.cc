// Tests the rccl backend with a stand-in for librccl.so.1. The ranks are threads of this process.

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "runtime/bootstrap/memory_store.h"
#include "runtime/comm/make_communicator.h"
#include "tests/ranks/collective_checks.h"
#include "tests/ranks/run_ranks.h"
#include "tests/ranks/stand_in_rccl.h"
#include "tests/time_bounds.h"

namespace dlrun {
namespace {

using std::chrono::steady_clock;

constexpr int kLostRank = 1;

/// Checks the errors of a rank that has lost a peer. Each error must contain `cause`.
class LostPeerChecker {
 public:
  LostPeerChecker(Communicator& comm, std::string cause) : comm_(comm), cause_(std::move(cause)) {}

  void expect_cause(std::string_view what, const Result<>& result) {
    if (result) {
      failures.push_back(fmt::format("rank {}: {} succeeded", comm_.rank(), what));
    } else if (result.error().code != Errc::kPeer || !has(result.error().message, cause_)) {
      failures.push_back(
          fmt::format("rank {}: {}: {}", comm_.rank(), what, result.error().message));
    }
  }

  /// Starts two all-reduces of device memory. A rank is already lost, so neither sum can end. The
  /// wait() for the first succeeds all the same: for device memory it returns immediately. Then
  /// calls after_start(). Checks that check_results() and all later calls fail with the cause.
  void check_loss_with_device_memory(const StandIn& stand_in,
                                     const std::function<void()>& after_start) {
    const DeviceMemory memory(stand_in, 2 * sizeof(float));
    auto* const values = static_cast<float*>(memory.data());
    const auto own = static_cast<float>(comm_.rank() + 1);
    values[0] = values[1] = own;
    auto first = comm_.start_all_reduce(Buffer(values, 1, DataType::kFloat32), ReduceOp::kSum);
    auto second = comm_.start_all_reduce(Buffer(values + 1, 1, DataType::kFloat32), ReduceOp::kSum);
    if (!first || !second) return failures.push_back((first ? second : first).error().message);
    if (auto done = first->wait(); !done)
      return failures.push_back("wait() for the first all-reduce: " + done.error().message);
    after_start();
    expect_cause("check_results()", comm_.check_results());
    if (values[0] != own) failures.push_back("the stand-in has summed without the lost rank");
    expect_cause("wait() after the abort", second->wait());
    expect_cause("a second check_results()", comm_.check_results());
    expect_cause("a later collective", comm_.barrier());
  }

  std::vector<std::string> failures;

 private:
  Communicator& comm_;
  std::string cause_;
};

}  // namespace

TEST_CASE_FIXTURE(StandIn, "rccl: every collective on host memory gives the expected values") {
  for (const int size : {1, 2, 4, 7}) {
    CAPTURE(size);
    expect_no_failures(on_threads("rccl", size, check_collectives));
  }
}

TEST_CASE_FIXTURE(StandIn,
                  "rccl: the error on every rank names the ranks that make a different call") {
  for (const Mismatch mismatch : kMismatches)
    expect_no_failures(
        on_threads("rccl", 2, [&](Communicator& comm) { return check_mismatch(comm, mismatch); }));
}

TEST_CASE_FIXTURE(
    StandIn, "rccl: an all-reduce that is started as a request changes device memory in place") {
  expect_no_failures(on_threads("rccl", 3, [&](Communicator& comm) -> std::vector<std::string> {
    if (comm.name() != "rccl") return {"the communicator is " + std::string(comm.name())};
    const DeviceMemory memory(*this, 4 * sizeof(float));
    auto* const values = static_cast<float*>(memory.data());
    for (int i = 0; i < 4; ++i) values[i] = static_cast<float>(comm.rank() + i);
    auto request = comm.start_all_reduce(Buffer(values, 4, DataType::kFloat32), ReduceOp::kSum);
    if (!request) return {request.error().message};
    if (auto done = request->wait(); !done) return {done.error().message};
    std::vector<std::string> failures;
    for (int i = 0; i < 4; ++i) {
      if (values[i] != static_cast<float>(3 + 3 * i)) failures.push_back("a sum is wrong");
    }
    return failures;
  }));
}

TEST_CASE_FIXTURE(StandIn, "rccl: a rank that does not join is an error after the timeout") {
  MemoryStore store;
  auto options = options_of(0, 2, store);
  options.timeout = std::chrono::milliseconds(300);
  const auto alone = make_communicator("rccl", options);
  REQUIRE_FALSE(alone);
  CHECK(alone.error().code == Errc::kTimeout);
  CHECK(has(alone.error().message, "a rank is missing"));
}

TEST_CASE_FIXTURE(StandIn,
                  "rccl: without a GPU the error names HIP's function, and with too few GPUs the "
                  "local rank") {
  ::setenv("DLRUN_STAND_IN_GPUS", "0", 1);
  MemoryStore store;
  const auto none = make_communicator("rccl", options_of(0, 2, store));
  REQUIRE_FALSE(none);
  CHECK(none.error().code == Errc::kUnavailable);
  CHECK(has(none.error().message, "no GPU: hipGetDeviceCount"));
  ::setenv("DLRUN_STAND_IN_GPUS", "2", 1);
  const auto few = make_communicator("rccl", options_of(3, 4, store));
  REQUIRE_FALSE(few);
  CHECK(has(few.error().message,
            "local rank 3 has no GPU: this process sees 2 GPUs; rccl needs one"));
}

TEST_CASE_FIXTURE(StandIn,
                  "rccl: if a rank hangs, check_results() fails after the timeout, although a "
                  "wait() has succeeded") {
  const auto before = steady_clock::now();
  expect_no_failures(on_threads(
      "rccl", 3,
      [&](Communicator& comm) -> std::vector<std::string> {
        if (auto met = comm.barrier(); !met) return {met.error().message};
        if (auto settled = comm.check_results(); !settled) return {settled.error().message};
        if (comm.rank() == kLostRank) {
          hang_this_rank();
          return {};
        }
        LostPeerChecker checker(comm, lost_or_stuck_message());
        checker.check_loss_with_device_memory(*this, [] {});
        return checker.failures;
      },
      set_options_for_lost_rank));
  CHECK(steady_clock::now() - before < 3 * kLostRankTimeout);
}

TEST_CASE_FIXTURE(StandIn,
                  "rccl: after the process of a rank has ended, check_results() fails with the "
                  "error of the library, long before the timeout") {
  constexpr auto kLongTimeout = wall_limit(std::chrono::seconds(60));
  const auto before = steady_clock::now();
  std::atomic<int> started_count{0};
  expect_no_failures(on_threads(
      "rccl", 3,
      [&](Communicator& comm) -> std::vector<std::string> {
        if (auto met = comm.barrier(); !met) return {met.error().message};
        if (comm.rank() == kLostRank) {
          hang_this_rank();
          while (started_count < 2 && steady_clock::now() - before < kLongTimeout / 3)
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
          end_this_rank();
          return {};
        }
        LostPeerChecker checker(
            comm,
            "a collective failed on the device: remote process exited or there was "
            "a network error");
        checker.check_loss_with_device_memory(*this, [&] { ++started_count; });
        return checker.failures;
      },
      [&](CommunicatorOptions& options) {
        set_options_for_lost_rank(options);
        options.timeout = kLongTimeout;
      }));
  CHECK(steady_clock::now() - before < kLongTimeout / 3);
}

TEST_CASE_FIXTURE(StandIn,
                  "rccl: a collective on host memory fails after the timeout if a rank hangs") {
  const auto before = steady_clock::now();
  expect_no_failures(on_threads(
      "rccl", 2,
      [&](Communicator& comm) -> std::vector<std::string> {
        if (auto met = comm.barrier(); !met) return {met.error().message};
        if (comm.rank() == kLostRank) {
          hang_this_rank();
          return {};
        }
        std::vector<float> values{1, 2};
        LostPeerChecker checker(comm, lost_or_stuck_message());
        checker.expect_cause("all_reduce()", comm.all_reduce(std::span(values), ReduceOp::kSum));
        checker.expect_cause("check_results()", comm.check_results());
        return checker.failures;
      },
      set_options_for_lost_rank));
  CHECK(steady_clock::now() - before < 3 * kLostRankTimeout);
}

}  // namespace dlrun
