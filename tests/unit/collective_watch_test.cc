// Tests how CollectiveWatch notices failed and stuck collectives of a device, and aborts them.

#include "runtime/comm/collective_watch.h"

#include <atomic>
#include <thread>

#include <doctest/doctest.h>

namespace dlrun {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// A simulated device that the test controls.
struct SimulatedDevice final : WatchedCollectives {
  std::atomic<bool> is_stuck{false};
  std::atomic<int> busy_polls_left{0};
  std::atomic<bool> is_broken{false};
  std::atomic<int> abort_count{0};

  Result<> check_device() override {
    if (is_broken) return fail(Errc::kPeer, "NCCL: remote process exited");
    return {};
  }
  bool is_busy() override {
    if (is_stuck) return true;
    return busy_polls_left-- > 0;
  }
  void abort_all() override {
    ++abort_count;
    is_stuck = false;  // the waiting operation ends, with partial sums
  }
};

Result<> successful_start() {
  return {};
}

}  // namespace

TEST_CASE(
    "wait_until_settled() waits for running collectives and succeeds if they ended without an "
    "error") {
  SimulatedDevice device;
  CollectiveWatch watch(device, milliseconds(10'000));
  CHECK(watch.wait_until_settled(milliseconds(0)));
  device.busy_polls_left = 20;
  REQUIRE(watch.start_collective(successful_start));
  CHECK(watch.wait_until_settled(milliseconds(10'000)));
  CHECK(device.busy_polls_left < 0);
  CHECK(device.abort_count == 0);
}

TEST_CASE(
    "wait_until_settled() fails after a collective was cut off, even if none is running any more") {
  SimulatedDevice device;
  CollectiveWatch watch(device, milliseconds(5));
  device.is_stuck = true;
  REQUIRE(watch.start_collective(successful_start));
  // Request::wait() makes only this check, so it would succeed now although the collective is
  // stuck.
  REQUIRE(watch.check_not_aborted());
  while (device.abort_count == 0) watch.abort_if_failed_or_late();
  CHECK_FALSE(device.is_busy());
  const auto settled = watch.wait_until_settled(milliseconds(10'000));
  REQUIRE_FALSE(settled);
  CHECK(settled.error().code == Errc::kPeer);
  CHECK(settled.error().message ==
        "a collective did not end within 0.005 s; a rank is lost or stuck");
}

TEST_CASE(
    "wait_until_settled() fails after an error of the library, even before the watchdog has seen "
    "it") {
  SimulatedDevice device;
  CollectiveWatch watch(device, milliseconds(10'000));
  REQUIRE(watch.start_collective(successful_start));
  device.is_broken = true;  // is_busy() is false: the collective's kernel has ended
  const auto settled = watch.wait_until_settled(milliseconds(10'000));
  REQUIRE_FALSE(settled);
  CHECK(settled.error().message == "NCCL: remote process exited");
  CHECK(device.abort_count == 1);
  device.is_broken = false;
  CHECK_FALSE(watch.wait_until_settled(milliseconds(0)));  // the failure is permanent
  CHECK_FALSE(watch.start_collective(successful_start));
}

TEST_CASE("wait_until_settled() waits for a limited time, and then cuts off the collectives") {
  SimulatedDevice device;
  CollectiveWatch watch(device, milliseconds(60'000));
  device.is_stuck = true;
  REQUIRE(watch.start_collective(successful_start));
  const auto before = steady_clock::now();
  CHECK_FALSE(watch.wait_until_settled(milliseconds(20)));
  CHECK(steady_clock::now() - before < std::chrono::seconds(20));
  CHECK(device.abort_count == 1);
}

TEST_CASE("wait_until_settled() fails after abandon(), with the first reason") {
  SimulatedDevice device;
  CollectiveWatch watch(device, milliseconds(60'000));
  watch.abandon("the communicator was abandoned");
  watch.abandon("another reason");
  const auto settled = watch.wait_until_settled(milliseconds(0));
  REQUIRE_FALSE(settled);
  CHECK(settled.error().message == "the communicator was abandoned");
  CHECK(device.abort_count == 1);
}

TEST_CASE(
    "a watchdog on another thread and a waiting caller cut off a stuck collective only once") {
  SimulatedDevice device;
  CollectiveWatch watch(device, milliseconds(5));
  device.is_stuck = true;
  REQUIRE(watch.start_collective(successful_start));
  std::thread watchdog([&] {
    while (watch.check_not_aborted()) watch.abort_if_failed_or_late();
  });
  CHECK_FALSE(watch.wait_until_settled(milliseconds(60'000)));
  watchdog.join();
  CHECK(device.abort_count == 1);
}

}  // namespace dlrun
