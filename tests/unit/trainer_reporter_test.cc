#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "common/files.h"
#include "common/text.h"
#include "runtime/bootstrap/store.h"
#include "runtime/trainer/loop/training_reporter.h"
#include "tests/temporary_directory.h"

namespace dlrun::trainer {
namespace {

namespace fs = std::filesystem;

/// Stores the reports. If is_broken is true, report_progress() still stores the report, but fails.
class RecordingStore final : public Store {
 public:
  Result<> put(std::string_view, std::string_view) override { return {}; }
  Result<std::string> get(std::string_view, std::chrono::milliseconds) override {
    return std::string();
  }
  Result<> report_progress(std::string_view json) override {
    reports.emplace_back(json);
    if (is_broken) return fail(Errc::kUnavailable, "the agent is gone");
    return {};
  }

  std::vector<std::string> reports;
  bool is_broken = false;
};

TrainingReporter::Options options_of(const TemporaryDirectory& folder, Store& store) {
  TrainingReporter::Options options;
  options.metrics = folder / "metrics.jsonl";
  options.store = &store;
  options.attempt = 2;
  options.epochs = 3;
  options.precision = "bf16";
  return options;
}

}  // namespace

TEST_CASE("each epoch writes a line of metrics, and the end sends a final report to the store") {
  const TemporaryDirectory folder;
  RecordingStore store;
  auto reporter = TrainingReporter::open(options_of(folder, store));
  REQUIRE(reporter.has_value());
  reporter->report_epoch({1, 10, 0.5, 0.75, 0.25, 0.875, 1000});
  reporter->report_result({0.25, 0.875, 100, "0123456789abcdef", 4, 10, 1.5, 1000});
  CHECK(reporter->status().has_value());

  const auto line = nlohmann::json::parse(*read_file(folder / "metrics.jsonl", 1000));
  CHECK(line["attempt"] == 2);
  CHECK(line["epoch"] == 1);
  CHECK(line["step"] == 10);
  CHECK(line["loss"] == 0.5);
  CHECK(line["test_accuracy"] == 0.875);
  CHECK(line["precision"] == "bf16");
  CHECK(line["time"].get<std::string>().ends_with("Z"));
  REQUIRE(store.reports.size() == 1);
  const auto final_report = nlohmann::json::parse(store.reports[0]);
  CHECK(final_report["final"] == true);
  CHECK(final_report["test_accuracy"] == 0.875);
  CHECK(final_report["precision"] == "bf16");
  CHECK(final_report["parameters"] == "0123456789abcdef");
}

TEST_CASE(
    "if samples have several labels, F1 and each class's scores are reported beside the accuracy") {
  const TemporaryDirectory folder;
  RecordingStore store;
  auto reporter = TrainingReporter::open(options_of(folder, store));
  REQUIRE(reporter.has_value());
  const LabelScores scores{0.75, 0.5, {{1, 0.5, 2.0 / 3, 40}, {0.25, 1, 0.4, 2}}};
  reporter->report_epoch({1, 10, 0.5, 0.75, 0.25, 0.875, 1000, scores});
  reporter->report_result({0.25, 0.875, 100, "0123456789abcdef", 4, 10, 1.5, 1000, scores});
  const auto line = nlohmann::json::parse(*read_file(folder / "metrics.jsonl", 1000));
  CHECK(line["test_f1_micro"] == 0.75);
  CHECK(line["test_f1_macro"] == 0.5);
  CHECK(line["test_classes"][0]["recall"] == 0.5);
  CHECK(line["test_classes"][1]["samples"] == 2);
  REQUIRE(store.reports.size() == 1);
  const auto final_report = nlohmann::json::parse(store.reports[0]);
  CHECK(final_report["test_f1_micro"] == 0.75);
  CHECK(final_report["class_precision"] == "1.000 0.250");
  CHECK(final_report["class_recall"] == "0.500 1.000");
  CHECK(final_report["class_f1"] == "0.667 0.400");
}

TEST_CASE(
    "the incomplete last line of a killed attempt gets a line end before the next attempt's line") {
  const TemporaryDirectory folder;
  RecordingStore store;
  std::ofstream(folder / "metrics.jsonl") << "{\"epoch\":1}\n{\"epo";
  auto reporter = TrainingReporter::open(options_of(folder, store));
  REQUIRE(reporter.has_value());
  reporter->report_epoch({2, 20, 0.5, 0.75, 0.25, 0.875, 1000});
  const std::string text = *read_file(folder / "metrics.jsonl", 1000);
  CHECK(text.starts_with("{\"epoch\":1}\n{\"epo\n{\"time\":"));
}

TEST_CASE("if metrics cannot be written or a report cannot be sent, the error says why") {
  const TemporaryDirectory folder;
  RecordingStore store;
  auto options = options_of(folder, store);
  options.metrics = "/dev/full";
  auto reporter = TrainingReporter::open(options);
  REQUIRE(reporter.has_value());
  reporter->report_epoch({1, 10, 0.5, 0.75, 0.25, 0.875, 1000});
  REQUIRE_FALSE(reporter->status().has_value());
  CHECK(reporter->status().error().message ==
        "cannot record progress: /dev/full: No space left on device (ENOSPC)");

  store.is_broken = true;
  auto second = TrainingReporter::open(options_of(folder, store));
  second->report_result({});
  REQUIRE_FALSE(second->status().has_value());
  CHECK(second->status().error().message == "cannot record progress: the agent is gone");
  options.metrics = folder / "metrics.jsonl" / "below";
  CHECK(TrainingReporter::open(options).error().code == Errc::kIo);
}

TEST_CASE("a rank other than 0 writes no metrics, and reports neither epochs nor the end") {
  const TemporaryDirectory folder;
  RecordingStore store;
  auto options = options_of(folder, store);
  options.is_main = false;
  auto reporter = TrainingReporter::open(options);
  reporter->report_epoch({1, 10, 0.5, 0.75, 0.25, 0.875, 1000});
  reporter->report_result({});
  CHECK_FALSE(fs::exists(folder / "metrics.jsonl"));
  CHECK(store.reports.empty());
}

TEST_CASE("a rank other than 0 reports its step and its work time, and nothing else") {
  const TemporaryDirectory folder;
  RecordingStore store;
  auto options = options_of(folder, store);
  options.is_main = false;
  auto reporter = TrainingReporter::open(options);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  StepReport report;
  report.work = std::chrono::milliseconds(7);
  do {
    ++report.step;
    reporter->report_step(report);
  } while (store.reports.empty() && std::chrono::steady_clock::now() < deadline);
  REQUIRE(store.reports.size() == 1);
  const auto sent = nlohmann::json::parse(store.reports.front());
  CHECK(sent.size() == 2);
  CHECK(sent["step"] == report.step);
  // The mean over all steps since the start.
  CHECK(sent["work_ms"].get<double>() == doctest::Approx(7));
  CHECK_FALSE(fs::exists(folder / "metrics.jsonl"));
}

}  // namespace dlrun::trainer
