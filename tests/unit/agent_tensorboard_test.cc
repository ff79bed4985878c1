// Tests the event files for TensorBoard. They are decoded by tests/tensorboard_reader.py, which
// shares no code with dlrun.

#include <chrono>
#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>

#include "common/bounded_json.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "runtime/agent/progress_values.h"
#include "runtime/agent/tensorboard_event.h"
#include "runtime/agent/tensorboard_log.h"
#include "tests/contains.h"
#include "tests/temporary_directory.h"

namespace dlrun::agent {
namespace {

using namespace std::chrono_literals;

/// Runs the decoder on the files.
FinishedCommand decode(const std::vector<std::string>& files) {
  Command command;
  command.argv = {"python3", DLRUN_SOURCE_DIR "/tests/tensorboard_reader.py"};
  command.argv.insert(command.argv.end(), files.begin(), files.end());
  command.env = Env::of_process();
  auto finished = run_command(command);
  REQUIRE(finished.has_value());
  return *finished;
}

std::vector<Json> events_of(const std::filesystem::path& file) {
  const auto finished = decode({file.string()});
  CAPTURE(finished.err);
  REQUIRE(finished.exit_code == 0);
  std::vector<Json> events;
  for (const auto line : split(finished.out, '\n')) {
    if (!line.empty()) events.push_back(parse_json<Json>(line));
  }
  return events;
}

Json report_of(std::string_view text) {
  return parse_json<Json>(text);
}

/// A run with an event file, and a clock that the test moves.
struct EventFileFixture {
  TemporaryDirectory run;
  std::chrono::system_clock::time_point wall{std::chrono::seconds(1'700'000'000)};
  TensorboardLog::Clock::time_point now{};
  std::unique_ptr<TensorboardLog> log;

  void open(int attempt = 0, ValueSource source = ValueSource::kReports) {
    auto opened = TensorboardLog::open(run.path(), attempt, "n1", wall, now, source);
    REQUIRE(opened.has_value());
    log = std::move(*opened);
  }
  void report(std::string_view text) { log->on_report(report_of(text), wall, now); }
  /// Appends a line to metrics.jsonl. Its time is `second` seconds after 12:30.
  void append_metrics_line(int attempt, int second, int step, double loss) const {
    std::ofstream(run / "metrics.jsonl", std::ios::app)
        << fmt::format(
               R"({{"time":"2026-11-21T12:30:{:02}.250Z","attempt":{},"epoch":1,"step":{},"loss":{}}})",
               second, attempt, step, loss)
        << "\n";
  }
  void pass(std::chrono::seconds time) {
    wall += time;
    now += time;
  }
  /// Waits until all is written, closes the log, and returns what the decoder reads from the file.
  std::vector<Json> close_and_decode() {
    REQUIRE(log->drain(20s));
    log.reset();
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(run / "tensorboard"))
      files.push_back(entry.path());
    REQUIRE(files.size() == 1);
    CHECK(files[0].filename().string().starts_with("events.out.tfevents.1700000000.n1."));
    return events_of(files[0]);
  }
};

}  // namespace

TEST_CASE("CRC32C has the values of RFC 3720") {
  CHECK(crc32c("") == 0U);
  CHECK(crc32c("123456789") == 0xe3069283U);
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aaU);
  CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43U);
}

TEST_CASE_FIXTURE(EventFileFixture, "an independent decoder reads every number of a file") {
  open();
  report(R"({"step": 300, "steps": 5000, "epoch": 2, "loss": 0.5, "lr": 1e-3, "note": "x"})");
  pass(5s);
  log->on_statistics({.ranks = 2,
                      .cpu = events::Spread<double>{1, 2, 3},
                      .rss_bytes = events::Spread<std::int64_t>{1, std::int64_t{3} << 30, 5},
                      .gpu = events::Spread<double>{0, 75, 100}},
                     wall);
  pass(5s);
  report(R"({"final": true, "test_accuracy": 0.9375})");
  const auto events = close_and_decode();
  REQUIRE(events.size() == 4);
  CHECK(events[0]["file_version"] == "brain.Event:2");
  CHECK(events[0]["wall_time"] == 1.7e9);
  CHECK(events[1]["step"] == 300);
  CHECK(events[1]["wall_time"] == 1.7e9);
  CHECK(events[1]["scalars"].size() == 3);
  CHECK(events[1]["scalars"]["epoch"] == 2);
  CHECK(events[1]["scalars"]["loss"] == 0.5);
  CHECK(events[1]["scalars"]["lr"].get<double>() == doctest::Approx(1e-3).epsilon(1e-6));
  CHECK(events[2]["step"] == 300);
  CHECK(events[2]["wall_time"] == 1.7e9 + 5);
  CHECK(events[2]["scalars"] ==
        Json{{"system/cpu_cores", 2.0}, {"system/memory_gib", 3.0}, {"system/gpu_percent", 75.0}});
  CHECK(events[3]["step"] == 300);
  CHECK(events[3]["scalars"]["test_accuracy"] == 0.9375);
}

TEST_CASE("the decoder refuses a file with a changed byte or without its last byte") {
  const TemporaryDirectory folder;
  const std::vector<Scalar> scalars{{"loss", 0.25}};
  const auto good = version_record(1) + scalars_record(2, 3, scalars);
  const auto path = (folder / "events").string();
  const auto decoder_exit_code = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    return decode({path}).exit_code;
  };
  CHECK(decoder_exit_code(good) == 0);
  for (std::size_t at = 0; at < good.size(); at += 7) {
    CAPTURE(at);
    auto damaged = good;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    CHECK(decoder_exit_code(damaged) == 1);
  }
  CHECK(decoder_exit_code(good.substr(0, good.size() - 1)) == 1);
}

TEST_CASE_FIXTURE(EventFileFixture,
                  "a later attempt replaces the values of earlier attempts, beginning with the "
                  "first step that it reports") {
  open(1);
  report(R"({"step": 200, "loss": 1})");
  pass(5s);
  report(R"({"step": 201, "loss": 2})");
  const auto events = close_and_decode();
  REQUIRE(events.size() == 4);
  CHECK(events[1]["session"] == "start");
  CHECK(events[1]["step"] == 200);
  CHECK(events[2]["scalars"]["loss"] == 1);
  CHECK(events[3]["step"] == 201);
}

TEST_CASE_FIXTURE(EventFileFixture,
                  "a later attempt that reports only its result keeps the steps of earlier ones") {
  open(1);
  report(R"({"final": true, "test_accuracy": 0.5})");
  const auto events = close_and_decode();
  REQUIRE(events.size() == 2);
  CHECK(events[1]["scalars"]["test_accuracy"] == 0.5);
}

TEST_CASE_FIXTURE(EventFileFixture,
                  "at most one report a second is written, fewer in a long attempt, and always the "
                  "final one") {
  open();
  for (int step = 1; step <= 10; ++step)
    log->on_report(Json{{"step", step}, {"loss", step}}, wall, now);
  report(R"({"final": true, "loss": 99})");
  pass(100'000s);
  report(R"({"step": 11, "loss": 11})");
  pass(10s);
  report(R"({"step": 12, "loss": 12})");  // not written: 20 s, a 5000th of the attempt, must pass
  pass(11s);
  report(R"({"step": 13, "loss": 13})");
  const auto events = close_and_decode();
  std::vector<double> losses;
  for (std::size_t i = 1; i < events.size(); ++i)
    losses.push_back(events[i]["scalars"]["loss"].get<double>());
  CHECK(losses == std::vector<double>{1, 99, 11, 13});
}

TEST_CASE_FIXTURE(EventFileFixture,
                  "a checkpoint in a report is not a value, and a report with only a checkpoint "
                  "delays no other report") {
  open();
  report(R"({"checkpoint": 256})");
  report(R"({"step": 260, "loss": 0.5, "checkpoint": 256})");
  const auto events = close_and_decode();
  REQUIRE(events.size() == 2);
  CHECK(events[1]["scalars"] == Json{{"loss", 0.5}});
}

TEST_CASE_FIXTURE(
    EventFileFixture,
    "the values of the trainer are taken from metrics.jsonl, and its reports are left out") {
  append_metrics_line(0, 1, 10, 4);
  open(1, ValueSource::kMetricsFile);
  report(R"({"step": 10, "loss": 99})");
  append_metrics_line(1, 2, 8, 2);
  append_metrics_line(0, 3, 20, 99);
  append_metrics_line(1, 3, 16, 0.5);
  std::ofstream(run / "metrics.jsonl", std::ios::app) << R"({"time":"2026-11-21T12)";
  report(R"({"final": true, "test_accuracy": 0.5})");
  const auto events = close_and_decode();
  REQUIRE(events.size() == 4);
  CHECK(events[1]["session"] == "start");
  CHECK(events[1]["step"] == 8);
  CHECK(events[2]["step"] == 8);
  CHECK(events[2]["wall_time"] == 1795264202.25);
  CHECK(events[2]["scalars"] == Json{{"epoch", 1.0}, {"loss", 2.0}});
  CHECK(events[3]["step"] == 16);
  CHECK(events[3]["wall_time"] == 1795264203.25);
  CHECK(events[3]["scalars"] == Json{{"epoch", 1.0}, {"loss", 0.5}});
}

TEST_CASE_FIXTURE(
    EventFileFixture,
    "three thousand lines of metrics.jsonl are all written to the event file, in their order") {
  open(0, ValueSource::kMetricsFile);
  constexpr int kLines = 3000;
  for (int step = 1; step <= kLines; ++step) append_metrics_line(0, step / 60, step, step);
  const auto events = close_and_decode();
  REQUIRE(events.size() == kLines + 1);
  for (int step = 1; step <= kLines; ++step) {
    CAPTURE(step);
    const Json& event = events[static_cast<std::size_t>(step)];
    REQUIRE(event["step"] == step);
    REQUIRE(event["scalars"]["loss"] == step);
  }
}

TEST_CASE_FIXTURE(
    EventFileFixture,
    "the measured use of the hardware is recorded at the step of the trainer's last line") {
  open(0, ValueSource::kMetricsFile);
  const events::RankStatistics statistics{.ranks = 1, .cpu = events::Spread<double>{1, 1, 1}};
  log->on_statistics(statistics, wall);
  append_metrics_line(0, 1, 30, 1);
  REQUIRE(log->drain(20s));
  log->on_statistics(statistics, wall);
  const auto events = close_and_decode();
  REQUIRE(events.size() == 3);
  CHECK(events[1]["scalars"]["loss"] == 1);
  CHECK(events[2]["step"] == 30);
  CHECK(events[2]["scalars"] == Json{{"system/cpu_cores", 1.0}});
}

TEST_CASE_FIXTURE(
    EventFileFixture,
    "the message about a metrics.jsonl that cannot be read has the name of the file") {
  std::filesystem::create_symlink("/dev/zero", run / "metrics.jsonl");
  open(0, ValueSource::kMetricsFile);
  CHECK_FALSE(log->drain(20s));
  const auto failure = log->take_failure();
  REQUIRE(failure.has_value());
  CHECK(has(failure->message, "metrics.jsonl: is a symbolic link"));
}

TEST_CASE_FIXTURE(EventFileFixture,
                  "the measured use of the hardware is not recorded before the first step") {
  open();
  log->on_statistics({.ranks = 1, .cpu = events::Spread<double>{1, 1, 1}}, wall);
  CHECK(close_and_decode().size() == 1);
}

TEST_CASE(
    "the tags of a report are limited in number and length, and values that are no numbers are "
    "left out") {
  Json many = Json::object();
  for (int i = 0; i < 200; ++i) many["n" + std::to_string(i)] = i;
  CHECK(scalars_of(many).size() == 64);
  const auto scalars = scalars_of(
      Json{{"step", 1}, {std::string(500, 'x'), 2}, {"a b\n\"", 3}, {"t", "4"}, {"", 5}});
  REQUIRE(scalars.size() == 3);
  CHECK(scalars[0].tag == std::string(64, 'x'));
  CHECK(scalars[1].tag == "a_b__");
  CHECK(scalars[2].tag == "_");
  CHECK(scalars_of(Json::array({1})).empty());
  CHECK(scalars_of(Json{{"checkpoint", 256}}).empty());
}

TEST_CASE_FIXTURE(EventFileFixture, "a file has a limited number of tags over all its reports") {
  open();
  for (int i = 0; i < 10; ++i) {
    Json body{{"step", i}};
    for (int k = 0; k < 50; ++k) body[fmt::format("t{}-{}", i, k)] = k;
    log->on_report(body, wall, now);
    pass(2s);
  }
  std::size_t tag_count = 0;
  for (const Json& event : close_and_decode())
    tag_count += event.value("scalars", Json::object()).size();
  CHECK(tag_count == TensorboardLog::kMostTags);
}

}  // namespace dlrun::agent
