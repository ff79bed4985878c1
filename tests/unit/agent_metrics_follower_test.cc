// Tests how lead reads metrics.jsonl, which any program of the user may write, and how its lines
// are copied for an MLflow server.

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/files.h"
#include "common/text.h"
#include "runtime/agent/metrics_copy.h"
#include "runtime/agent/metrics_follower.h"
#include "tests/contains.h"
#include "tests/temporary_directory.h"
#include "tests/time_bounds.h"

namespace dlrun::agent {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::ordered_json;

std::string metrics_text(int step, int attempt = 1) {
  return fmt::format(
      R"({{"time":"2026-11-21T12:30:00.250Z","attempt":{},"epoch":1,"step":{},"loss":0.5}})",
      attempt, step);
}

/// Returns the lines that a run has recorded for an MLflow server.
std::vector<Json> recorded_lines(const TemporaryDirectory& run) {
  const auto text = read_file(run / "track/mlflow.jsonl", 1U << 20U).value_or("");
  std::vector<Json> lines;
  for (const auto line : split(text, '\n')) {
    if (!line.empty()) lines.push_back(Json::parse(line));
  }
  return lines;
}

/// A run with a file of metrics, and what its reader has returned.
struct MetricsRun {
  TemporaryDirectory run;
  std::filesystem::path file = run / "metrics.jsonl";
  std::vector<std::int64_t> steps;
  std::size_t part_count = 0;

  void append(const std::string& text) const { std::ofstream(file, std::ios::app) << text; }
  /// Reads to the end of the file. Returns the message of the failure, or an empty text.
  std::string read(MetricsReader& reader) {
    for (;;) {
      const auto part = reader.read_part();
      if (!part) return part.error().message;
      ++part_count;
      for (const MetricsLine& line : part->lines) steps.push_back(line.step);
      if (!part->has_more) return {};
    }
  }
};

using Steps = std::vector<std::int64_t>;

}  // namespace

TEST_CASE(
    "a line of metrics gives its time, its step, and its other numbers except that of the "
    "attempt") {
  const auto line = metrics_line_of(
      R"({"time":"2026-11-21T12:30:00.250Z","attempt":2,"epoch":3,"step":30,"loss":0.5,)"
      R"("lr":null,"precision":"bf16","test_classes":[{"f1":1}]})",
      2);
  REQUIRE(line.has_value());
  CHECK(line->wall_s == 1795264200.25);
  CHECK(line->step == 30);
  REQUIRE(line->scalars.size() == 2);
  CHECK(line->scalars[0].tag == "epoch");
  CHECK(line->scalars[0].value == 3);
  CHECK(line->scalars[1].tag == "loss");
  CHECK(line->scalars[1].value == 0.5);
}

TEST_CASE("a line of another attempt, or without time, step or values, is skipped") {
  CHECK(metrics_line_of(metrics_text(7, 2), 2).has_value());
  CHECK_FALSE(metrics_line_of(metrics_text(7, 2), 1).has_value());
  for (const char* text : {"", "{}", "[]", "{\"time\":", R"({"attempt":2,"step":1,"loss":1})",
                           R"({"time":"2026-11-21T12:30:00Z","step":1,"loss":1})",
                           R"({"time":"2026-11-21T12:30:00Z","attempt":"2","step":1,"loss":1})",
                           R"({"time":"2026-11-21T12:30:00Z","attempt":2,"loss":1})",
                           R"({"time":"2026-11-21T12:30:00Z","attempt":2,"step":-1,"loss":1})",
                           R"({"time":"2026-11-21T12:30:00Z","attempt":2,"step":1})",
                           R"({"time":"yesterday","attempt":2,"step":1,"loss":1})"}) {
    CAPTURE(text);
    CHECK_FALSE(metrics_line_of(text, 2).has_value());
  }
  CHECK_FALSE(metrics_line_of(std::string(100'000, '['), 2).has_value());
}

TEST_CASE_FIXTURE(MetricsRun, "each line of the attempt is read once, as soon as it is complete") {
  append(metrics_text(1, 0) + "\n" + metrics_text(2, 0).substr(0, 20));
  MetricsReader reader(file, 1);
  CHECK(read(reader).empty());
  CHECK(steps.empty());
  append("\n" + metrics_text(3) + "\n" + metrics_text(4, 0) + "\nnoise\n\n" +
         metrics_text(5).substr(0, 30));
  CHECK(read(reader).empty());
  CHECK(steps == Steps{3});
  CHECK(read(reader).empty());
  append(metrics_text(5).substr(30));
  CHECK(read(reader).empty());
  CHECK(steps == Steps{3});
  append("\n" + metrics_text(6) + "\n");
  CHECK(read(reader).empty());
  CHECK(steps == Steps{3, 5, 6});
}

TEST_CASE_FIXTURE(MetricsRun,
                  "lines that were in the file before the reader was made are not read") {
  append(metrics_text(1) + "\n");
  MetricsReader reader(file, 1);
  append(metrics_text(2) + "\n");
  CHECK(read(reader).empty());
  CHECK(steps == Steps{2});
}

TEST_CASE_FIXTURE(MetricsRun, "a file that does not exist yet has no lines") {
  MetricsReader reader(file, 1);
  CHECK(read(reader).empty());
  append(metrics_text(1) + "\n");
  CHECK(read(reader).empty());
  CHECK(steps == Steps{1});
}

TEST_CASE_FIXTURE(
    MetricsRun,
    "a hole of 1 GiB is read in small parts, and the lines before and after the hole are found") {
  MetricsReader reader(file, 1);
  append(metrics_text(1) + "\n");
  std::filesystem::resize_file(file, std::uintmax_t{1} << 30U);
  append("\n" + metrics_text(2) + "\n");
  CHECK(read(reader).empty());
  CHECK(steps == Steps{1, 2});
  CHECK(part_count >= 4096);  // at most 256 KiB in each part
}

TEST_CASE_FIXTURE(MetricsRun, "lines that cross the border of two parts are read whole") {
  MetricsReader reader(file, 1);
  std::string text;
  Steps expected;
  for (int step = 0; step < 10'000; ++step) {
    text += metrics_text(step) + "\n";
    expected.push_back(step);
  }
  append(text);
  CHECK(read(reader).empty());
  CHECK(part_count > 2);
  CHECK(steps == expected);
}

TEST_CASE_FIXTURE(MetricsRun, "a FIFO, a link and a folder are refused without waiting") {
  MetricsReader reader(file, 1);
  REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
  CHECK(has(read(reader), "is not a regular file"));
  std::filesystem::remove(file);
  std::ofstream(run / "target") << metrics_text(1) << "\n";
  std::filesystem::create_symlink(run / "target", file);
  CHECK(has(read(reader), "is a symbolic link"));
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);
  CHECK(has(read(reader), "is not a regular file"));
  std::filesystem::remove(file);
  append(metrics_text(2) + "\n");
  CHECK(read(reader).empty());
  CHECK(steps == Steps{2});
}

TEST_CASE_FIXTURE(MetricsRun, "a file of another user is refused") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root can give a file to another user");
    return;
  }
  MetricsReader reader(file, 1);
  append(metrics_text(1) + "\n");
  REQUIRE(::chown(file.c_str(), 65534, 65534) == 0);
  CHECK(has(read(reader), "belongs to another user"));
  CHECK(steps.empty());
}

TEST_CASE_FIXTURE(MetricsRun,
                  "a file that was cut or replaced is an error, and no line is read twice") {
  MetricsReader reader(file, 1);
  append(metrics_text(1) + "\n");
  CHECK(read(reader).empty());
  const auto old = run / "old";
  std::filesystem::rename(file, old);
  append(metrics_text(1) + "\n");
  CHECK(has(read(reader), "has cut or replaced it"));
  std::filesystem::remove(file);
  CHECK_FALSE(read(reader).empty());
  std::filesystem::rename(old, file);
  CHECK(read(reader).empty());
  std::filesystem::resize_file(file, 3);
  CHECK(has(read(reader), "has cut or replaced it"));
  CHECK(steps == Steps{1});
}

TEST_CASE_FIXTURE(MetricsRun,
                  "the follower returns lines while the program runs, and the rest at the end") {
  MetricsFollower follower(file, 1);
  append(metrics_text(1) + "\n");
  const auto take = [&] {
    for (const MetricsLine& line : follower.take(64)) steps.push_back(line.step);
  };
  const auto until = MetricsFollower::Clock::now() + wall_limit(20s);
  while (steps.empty() && MetricsFollower::Clock::now() < until) {
    std::this_thread::sleep_for(10ms);
    take();
  }
  CHECK(steps == Steps{1});
  Steps expected{1};
  std::string text;
  for (int step = 2; step <= 5000; ++step) {
    text += metrics_text(step) + "\n";
    expected.push_back(step);
  }
  append(text + metrics_text(9999));
  follower.finish();
  while (follower.wait(until)) take();
  CHECK(follower.is_complete());
  CHECK_FALSE(follower.failure().has_value());
  CHECK(steps == expected);
}

TEST_CASE_FIXTURE(
    MetricsRun, "the wait for the rest of a file ends at its time limit, even if lines are left") {
  MetricsFollower follower(file, 1);
  append(metrics_text(1) + "\n");
  std::filesystem::resize_file(file, std::uintmax_t{1} << 36U);
  follower.finish();
  const auto begin = MetricsFollower::Clock::now();
  while (follower.wait(begin + 100ms)) std::ignore = follower.take(64);
  CHECK(MetricsFollower::Clock::now() - begin < wall_limit(10s));
  CHECK_FALSE(follower.is_complete());
}

TEST_CASE_FIXTURE(MetricsRun, "a file that still cannot be read after finish() is a failure") {
  std::filesystem::create_symlink(run / "target", file);
  MetricsFollower follower(file, 1);
  follower.finish();
  CHECK_FALSE(follower.wait(MetricsFollower::Clock::now() + wall_limit(20s)));
  CHECK_FALSE(follower.is_complete());
  REQUIRE(follower.failure().has_value());
  CHECK(has(follower.failure()->message, "is a symbolic link"));
}

TEST_CASE_FIXTURE(MetricsRun,
                  "all values of the trainer are recorded for an MLflow server, even if many have "
                  "the same time") {
  const MlflowRecord record(run.path());
  REQUIRE(record.create({.url = "http://h", .experiment = "e", .run = "r"}).has_value());
  MetricsCopier copier(run.path());
  const Json report{{"t", 5}, {"step", 3}, {"m", {{"loss", 0.5}}}};
  for (int step = 1; step <= 40; ++step) append(metrics_text(step, 2) + "\n");
  REQUIRE(add_to_mlflow_record(record, report, &copier).has_value());
  for (int step = 41; step <= 50; ++step) append(metrics_text(step, 3) + "\n");
  auto last = report;
  last["m"] = {{"test_accuracy", 0.75}};
  last["final"] = true;
  REQUIRE(add_to_mlflow_record(record, last, &copier).has_value());
  REQUIRE(add_to_mlflow_record(record, {{"t", 9}, {"status", "FINISHED"}}, &copier).has_value());
  const auto lines = recorded_lines(run);
  REQUIRE(lines.size() == 52);
  for (std::size_t i = 0; i < 50; ++i) CHECK(lines[i]["step"] == i + 1);
  CHECK(lines[0] == Json{{"t", 1795264200250}, {"step", 1}, {"m", {{"epoch", 1}, {"loss", 0.5}}}});
  // Lead knows only step 3. The final values belong to the last step of the file.
  CHECK(lines[50] == Json{{"t", 5}, {"step", 50}, {"m", {{"test_accuracy", 0.75}}}});
  CHECK(lines[51]["status"] == "FINISHED");
}

TEST_CASE_FIXTURE(MetricsRun,
                  "lines that cannot be written to the record are copied later, in order") {
  const MlflowRecord record(run.path());
  REQUIRE(record.create({.url = "http://h", .experiment = "e", .run = "r"}).has_value());
  MetricsCopier copier(run.path());
  for (int step = 1; step <= 3; ++step) append(metrics_text(step) + "\n");
  std::filesystem::create_directory(run / "track/mlflow.jsonl");
  CHECK_FALSE(copier.copy_new_lines(record).has_value());
  CHECK_FALSE(copier.last_step().has_value());
  std::filesystem::remove(run / "track/mlflow.jsonl");
  append(metrics_text(4) + "\n");
  REQUIRE(copier.copy_new_lines(record).has_value());
  const auto lines = recorded_lines(run);
  REQUIRE(lines.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(lines[i]["step"] == i + 1);
  CHECK(copier.last_step() == 4);
}

TEST_CASE_FIXTURE(
    MetricsRun,
    "the values that lead reports are recorded even if the file of metrics cannot be read") {
  const MlflowRecord record(run.path());
  REQUIRE(record.create({.url = "http://h", .experiment = "e", .run = "r"}).has_value());
  std::filesystem::create_symlink(run / "target", file);
  MetricsCopier copier(run.path());
  const Json report{{"t", 5}, {"step", 3}, {"m", {{"loss", 0.5}}}};
  const auto copied = add_to_mlflow_record(record, report, &copier);
  REQUIRE_FALSE(copied.has_value());
  CHECK(has(copied.error().message, "is a symbolic link"));
  auto last = report;
  last["final"] = true;
  CHECK_FALSE(add_to_mlflow_record(record, last, &copier).has_value());
  CHECK(recorded_lines(run) == std::vector<Json>{report, report});
}

TEST_CASE_FIXTURE(
    MetricsRun,
    "a later job copies the lines that a killed job has not copied, and no line twice") {
  const MlflowRecord record(run.path());
  REQUIRE(record.create({.url = "http://h", .experiment = "e", .run = "r"}).has_value());
  append(metrics_text(1, 0) + "\n" + metrics_text(2, 0) + "\n" + metrics_text(3, 0).substr(0, 30));
  REQUIRE(MetricsCopier(run.path()).copy_new_lines(record).has_value());
  // Now Slurm kills lead and its helper, so the first job does not copy the lines that follow.
  append(metrics_text(3, 0).substr(30) + "\n" + metrics_text(4, 0) + "\n");
  append(metrics_text(5, 1) + "\n");
  REQUIRE(MetricsCopier(run.path()).copy_new_lines(record).has_value());
  auto lines = recorded_lines(run);
  REQUIRE(lines.size() == 5);
  for (std::size_t i = 0; i < 5; ++i) CHECK(lines[i]["step"] == i + 1);
  // A job whose training was already complete appends no line. Its final values get the step of the
  // last line.
  MetricsCopier copier(run.path());
  const Json message{{"t", 5}, {"step", 0}, {"m", {{"test_accuracy", 1}}}, {"final", true}};
  REQUIRE(add_to_mlflow_record(record, message, &copier).has_value());
  lines = recorded_lines(run);
  REQUIRE(lines.size() == 6);
  CHECK(lines[5]["step"] == 5);
}

TEST_CASE_FIXTURE(MetricsRun,
                  "if the stored position does not fit the file, or is damaged, the file is copied "
                  "from its beginning") {
  const MlflowRecord record(run.path());
  REQUIRE(record.create({.url = "http://h", .experiment = "e", .run = "r"}).has_value());
  const auto position_file = run / "track/mlflow.copied";
  append(metrics_text(1) + "\n");
  REQUIRE(MetricsCopier(run.path()).copy_new_lines(record).has_value());
  Steps expected{1, 1, 3};  // MLflow ignores a value that it already has
  SUBCASE("the file is another one") {
    std::filesystem::rename(file, run / "old");
    append(metrics_text(1) + "\n" + metrics_text(2) + "\n");
    expected = {1, 1, 2, 3};
  }
  SUBCASE("the file is shorter") {
    std::filesystem::resize_file(file, 3);
    expected = {1, 3};
  }
  SUBCASE("the position is damaged") {
    std::ofstream(position_file) << "{\"inode\": 1";
  }
  SUBCASE("the position is negative") {
    auto object = Json::parse(read_file(position_file, 4096).value_or(""));
    object["offset"] = -1;
    std::ofstream(position_file) << object;
  }
  MetricsCopier copier(run.path());
  append("\n" + metrics_text(3) + "\n");
  REQUIRE(copier.copy_new_lines(record).has_value());
  for (const Json& line : recorded_lines(run)) steps.push_back(line["step"].get<std::int64_t>());
  CHECK(steps == expected);
}

TEST_CASE_FIXTURE(MetricsRun, "the position of a reader is the end of the last complete line") {
  MetricsReader reader(file, std::nullopt);
  CHECK_FALSE(reader.position().has_value());
  append(metrics_text(1) + "\n");
  CHECK(read(reader).empty());
  const auto size = std::filesystem::file_size(file);
  append(metrics_text(2).substr(0, 20));
  CHECK(read(reader).empty());
  REQUIRE(reader.position().has_value());
  CHECK(reader.position()->offset == static_cast<off_t>(size));
  // A line that is too long is skipped whole, also by a reader that starts at this position.
  append(std::string(3U << 20U, ' '));
  CHECK(read(reader).empty());
  CHECK(reader.position()->offset == static_cast<off_t>(size));
  append("\n" + metrics_text(3) + "\n");
  CHECK(read(reader).empty());
  CHECK(reader.position()->offset == static_cast<off_t>(std::filesystem::file_size(file)));
  CHECK(steps == Steps{1, 3});
}

TEST_CASE_FIXTURE(MetricsRun, "without a file of metrics an MLflow server gets every report") {
  const MlflowRecord record(run.path());
  REQUIRE(record.create({.url = "http://h", .experiment = "e", .run = "r"}).has_value());
  const Json report{{"t", 5}, {"step", 3}, {"m", {{"loss", 0.5}}}};
  REQUIRE(add_to_mlflow_record(record, report, nullptr).has_value());
  CHECK(read_file(run / "track/mlflow.jsonl", 1U << 20U).value_or("") == report.dump() + "\n");
}

TEST_CASE("only the trainer writes metrics.jsonl, and only if its command line has no --metrics") {
  CHECK(program_writes_metrics(true, {"srun", "dlrun-agent", "rank", "--bundled"}));
  CHECK_FALSE(program_writes_metrics(false, {"srun", "dlrun-agent", "rank"}));
  CHECK_FALSE(program_writes_metrics(true, {"srun", "--metrics", "x"}));
  CHECK_FALSE(program_writes_metrics(true, {"srun", "--metrics=x"}));
}

}  // namespace dlrun::agent
