// Tests sweep.stop_early, which ends bad points of a sweep.

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include <doctest/doctest.h>

#include "runtime/agent/stop_early.h"
#include "tests/temporary_directory.h"

namespace dlrun::agent {
namespace {

using Json = nlohmann::ordered_json;

const StopRule kLossRule{"loss", true, 5};

/// Returns the trajectory of a point that reports `value` after each epoch from 1 to last_epoch.
Trajectory flat(std::int64_t last_epoch, double value) {
  Trajectory trajectory;
  for (std::int64_t at = 1; at <= last_epoch; ++at) add_report(kLossRule, trajectory, {at, value});
  return trajectory;
}

}  // namespace

TEST_CASE(
    "a point must end if its best value is worse than the median of the others at the same epoch") {
  const std::vector<Trajectory> others{flat(9, 0.1), flat(9, 0.2), flat(9, 0.3)};
  const auto why = why_stop(kLossRule, flat(6, 0.25), others);
  REQUIRE(why.has_value());
  CHECK(*why ==
        "stopped early: the best loss at epoch 6 is 0.25, and the median of 3 other points is 0.2 "
        "(sweep.stop_early)");
  Trajectory without_epochs;
  add_report(kLossRule, without_epochs, *read_report(kLossRule, Json{{"step", 9}, {"loss", 7}}));
  CHECK(why_stop(kLossRule, without_epochs, others)
            ->starts_with("stopped early: the best loss at step 9 is"));
  CHECK_FALSE(why_stop(kLossRule, flat(6, 0.2), others).has_value());
  CHECK_FALSE(why_stop(kLossRule, flat(6, 0.15), others).has_value());
}

TEST_CASE(
    "no point ends before epoch stop_early.after, or if fewer than three others have reached the "
    "point's epoch") {
  const std::vector<Trajectory> others{flat(9, 0.1), flat(9, 0.1), flat(9, 0.1)};
  CHECK_FALSE(why_stop(kLossRule, flat(4, 9), others).has_value());
  CHECK(why_stop(kLossRule, flat(5, 9), others).has_value());
  CHECK_FALSE(why_stop(kLossRule, flat(6, 9), {flat(9, 0.1), flat(9, 0.1)}).has_value());
  // The third of the others has not reached epoch 6.
  CHECK_FALSE(
      why_stop(kLossRule, flat(6, 9), {flat(9, 0.1), flat(9, 0.1), flat(5, 0.1)}).has_value());
  CHECK_FALSE(why_stop(kLossRule, {}, others).has_value());
}

TEST_CASE(
    "values that the other points reported after the epoch of the compared point do not count") {
  Trajectory late = flat(6, 1.0);
  add_report(kLossRule, late, {20, 0.01});
  CHECK_FALSE(why_stop(kLossRule, flat(6, 0.5), {late, late, late}).has_value());
  CHECK(why_stop(kLossRule, flat(20, 0.5), {late, late, late}).has_value());
}

TEST_CASE("a larger accuracy is better if the goal is max") {
  const StopRule rule{"accuracy", false, 1};
  Trajectory own;
  add_report(rule, own, {1, 0.8});
  add_report(rule, own, {2, 0.1});
  CHECK(own.back().value == 0.8);
  const auto other = [&](double value) { return Trajectory{{2, value}}; };
  CHECK_FALSE(why_stop(rule, own, {other(0.6), other(0.7), other(0.8), other(0.9)}).has_value());
  CHECK(why_stop(rule, own, {other(0.7), other(0.81), other(0.83), other(0.9)}).has_value());
}

TEST_CASE("a report counts by its epoch, else by its step, and needs a number as value") {
  CHECK(read_report(kLossRule, Json{{"epoch", 3}, {"step", 900}, {"loss", 1}})->at == 3);
  CHECK(read_report(kLossRule, Json{{"step", 900}, {"loss", 0.5}})->value == 0.5);
  CHECK_FALSE(read_report(kLossRule, Json{{"loss", 0.5}}).has_value());
  CHECK_FALSE(read_report(kLossRule, Json{{"step", 1}}).has_value());
  CHECK_FALSE(read_report(kLossRule, Json{{"step", 1}, {"loss", "low"}}).has_value());
  CHECK_FALSE(read_report(kLossRule, Json{{"step", -1}, {"loss", 1}}).has_value());
  CHECK_FALSE(read_report(kLossRule, Json::array()).has_value());
}

TEST_CASE("a trajectory of a million steps has fewer than 1500 entries") {
  Trajectory trajectory;
  for (std::int64_t at = 0; at < 1'000'000; ++at) add_report(kLossRule, trajectory, {at, 1.0});
  CHECK(trajectory.size() < 1'500);
}

TEST_CASE(
    "a report that follows the newest entry too closely adds no entry, but counts in the next "
    "one") {
  Trajectory trajectory;
  REQUIRE(add_report(kLossRule, trajectory, {1000, 5.0}));
  CHECK_FALSE(add_report(kLossRule, trajectory, {1005, 3.0}));
  CHECK_FALSE(add_report(kLossRule, trajectory, {1006, 4.5}));
  CHECK(trajectory.back().value == 5.0);
  REQUIRE(add_report(kLossRule, trajectory, {1010, 4.0}));
  CHECK(trajectory.back().at == 1010);
  CHECK(trajectory.back().value == 3.0);
  REQUIRE(add_report(kLossRule, trajectory, {1020, 6.0}));
  CHECK(trajectory.back().value == 3.0);
}

TEST_CASE("damaged lines of reports.jsonl are skipped") {
  const auto read = read_trajectory(
      "{\"at\":1,\"value\":0.5}\nnonsense\n{\"at\":1,\"value\":9}\n{\"at\":7,\"value\":0.25}\n{"
      "\"at\":9,\"val");
  REQUIRE(read.size() == 2);
  CHECK(read[1].at == 7);
  CHECK(read[1].value == 0.25);
}

TEST_CASE("--stop-early needs a goal, min or max, and a metric") {
  CHECK(parse_stop_rule("max:val_accuracy")->metric == "val_accuracy");
  CHECK_FALSE(parse_stop_rule("max:val_accuracy")->is_smaller_better);
  for (const char* wrong : {"", "loss", "low:loss", "min:"})
    CHECK_FALSE(parse_stop_rule(wrong).has_value());
}

TEST_CASE("a point is compared with the reports in the folders of the other points") {
  const TemporaryDirectory folder;
  const auto point = [&](int number) {
    const auto path = folder.path() / "array-0" / std::to_string(number);
    std::filesystem::create_directories(path);
    return path;
  };
  for (int number = 1; number <= 3; ++number) {
    StopEarly good(kLossRule, point(number));
    for (int epoch = 1; epoch <= 8; ++epoch)
      good.on_progress(Json{{"epoch", epoch}, {"loss", 0.1 * number}});
    CHECK_FALSE(good.take_verdict().has_value());
  }
  std::ofstream(point(4) / "reports.jsonl") << "{\"at\":8,";  // torn
  StopEarly bad(kLossRule, point(0));
  for (int epoch = 1; epoch <= 6; ++epoch) bad.on_progress(Json{{"epoch", epoch}, {"loss", 7}});
  std::optional<std::string> verdict;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!verdict && std::chrono::steady_clock::now() < until) {
    verdict = bad.take_verdict();
    std::this_thread::yield();
  }
  REQUIRE(verdict.has_value());
  CHECK(verdict->find("the best loss at epoch 6 is 7") != std::string::npos);
}

}  // namespace dlrun::agent
