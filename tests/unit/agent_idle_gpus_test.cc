// Tests which GPUs lead reports as idle (health.idle_gpu_after), and when.
#include <doctest/doctest.h>

#include "runtime/agent/idle_gpus.h"
#include "tests/unit/attempt_scene.h"

namespace dlrun::agent {
namespace {

using Clock = IdleGpus::Clock;

to_lead::Beat beat(const char* key, std::vector<double> percents) {
  Json gpus = Json::array();
  for (const double percent : percents) gpus.push_back({percent, 1 << 20, 1 << 30});
  return to_lead::Beat::of({{"type", "beat"}, {key, gpus}});
}

constexpr Clock::time_point kStartTime{std::chrono::hours(1)};

}  // namespace

TEST_CASE("nodes that never used their GPUs are named, once") {
  IdleGpus gpus(seconds(600));
  gpus.on_start(kStartTime);
  for (int minute = 0; minute <= 10; ++minute) {
    const auto now = kStartTime + std::chrono::minutes(minute);
    gpus.add_beat(0, "n1", beat("node_gpus", {97, 80}), now);
    gpus.add_beat(4, "n2", beat("node_gpus", {0, 0}), now);
    gpus.add_beat(8, "n3", beat("node_gpus", {0, 0}), now);
    if (minute < 10) CHECK_FALSE(gpus.take_message(now));
  }
  CHECK(gpus.take_message(kStartTime + seconds(600)) ==
        "nodes n[2-3] never used their GPUs (health.idle_gpu_after)");
  CHECK_FALSE(gpus.take_message(kStartTime + seconds(601)));
}

TEST_CASE(
    "if a node uses only some of its GPUs, the idle ones are counted, and work on a GPU restarts "
    "its idle time") {
  IdleGpus gpus(seconds(90));
  gpus.on_start(kStartTime);
  const auto message_after_use = [&](int at_s, double gpu_0_percent, double gpu_1_percent) {
    const auto now = kStartTime + seconds(at_s);
    gpus.add_beat(0, "n1", beat("gpus", {gpu_0_percent}), now);
    gpus.add_beat(1, "n1", beat("gpus", {gpu_1_percent}), now);
    return gpus.take_message(now);
  };
  CHECK_FALSE(message_after_use(60, 50, 0));
  CHECK_FALSE(message_after_use(80, 50, 3));
  CHECK_FALSE(message_after_use(169, 50, 0));
  CHECK(message_after_use(170, 50, 0) ==
        "1 of the 2 GPUs of n1 has not worked for 90 s (health.idle_gpu_after)");
  CHECK_FALSE(message_after_use(180, 50, 0));
  CHECK_FALSE(message_after_use(190, 50, 20));
  CHECK(message_after_use(280, 50, 0) ==
        "1 of the 2 GPUs of n1 has not worked for 90 s (health.idle_gpu_after)");
}

TEST_CASE(
    "no idle GPU is reported without a limit, before the start, without new readings, or for time "
    "in which the job was suspended") {
  IdleGpus off(std::nullopt);
  off.on_start(kStartTime);
  off.add_beat(0, "n1", beat("gpus", {0}), kStartTime);
  CHECK_FALSE(off.take_message(kStartTime + std::chrono::hours(10)));
  IdleGpus early(seconds(60));
  early.add_beat(0, "n1", beat("gpus", {0}), kStartTime);
  CHECK_FALSE(early.take_message(kStartTime + std::chrono::hours(10)));
  IdleGpus silent(seconds(60));
  silent.on_start(kStartTime);
  silent.add_beat(0, "n1", beat("gpus", {0}), kStartTime);
  CHECK_FALSE(silent.take_message(kStartTime + std::chrono::hours(1)));
  IdleGpus suspended(seconds(60));
  suspended.on_start(kStartTime);
  suspended.add_beat(0, "n1", beat("gpus", {0}), kStartTime);
  suspended.on_lead_suspended(seconds(50));
  suspended.add_beat(0, "n1", beat("gpus", {0}), kStartTime + seconds(70));
  CHECK_FALSE(suspended.take_message(kStartTime + seconds(70)));
  for (const Json& malformed : {Json{{"gpus", 3}}, Json{{"gpus", {3, "x"}}},
                                Json{{"gpus", {{nullptr, 1, 2}}}}, Json::array()})
    suspended.add_beat(1, "n2", to_lead::Beat::of(malformed), kStartTime);
  CHECK(suspended.take_message(kStartTime + seconds(115)) ==
        "node n1 never used its GPUs (health.idle_gpu_after)");
}

}  // namespace dlrun::agent
