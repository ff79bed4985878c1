// Tests the figures that are computed from the record of a rehearsal, and rehearsal.json,
// which has the id of a run's rehearsal.

#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include "common/files.h"
#include "common/json_lines.h"
#include "launcher/runs/rehearsal.h"
#include "tests/contains.h"
#include "tests/temporary_directory.h"

using namespace dlrun;
using Json = nlohmann::ordered_json;

namespace {

Json event_at(int second, const char* name, Json fields) {
  Json event{
      {"t", fmt::format("2026-11-26T10:00:{:02}.000Z", second)}, {"event", name}, {"attempt", 0}};
  event.update(fields);
  return event;
}

/// Returns the record of a rehearsal that did 40 steps in 20 seconds after its slow first steps.
/// Its attempt ended for `reason`, and the rehearsal ended in `state`.
std::string rehearsed_record(const char* reason, const char* state) {
  std::string text;
  const auto add = [&](const Json& event) { text += to_checked_line(event); };
  constexpr std::int64_t kGibi = std::int64_t{1} << 30;
  const Json memory = Json::array({kGibi, 2 * kGibi, 3 * kGibi});
  add(event_at(0, "claimed", {{"job", "7"}}));
  add(event_at(2, "progress", {{"step", 1}, {"steps", 10'000}}));
  add(event_at(20, "progress", {{"step", 10}}));
  add(event_at(25, "samples", {{"ranks", 2}, {"rss_bytes", memory}}));
  add(event_at(30, "progress", {{"step", 30}}));
  add(event_at(40, "progress", {{"step", 50}}));
  add(event_at(50, "attempt_end", {{"code", 0}, {"reason", reason}}));
  add(event_at(51, "ended", {{"state", state}, {"code", 0}, {"message", "out of memory"}}));
  return text;
}

RehearsalFigures figures_in(const std::string& record) {
  RunHistory history;
  history.add(record);
  return rehearsal_figures(history, std::nullopt);
}

}  // namespace

TEST_CASE(
    "a passed rehearsal's figures are the time of a step after the first ones, the number of "
    "steps, and the memory") {
  const auto figures = figures_in(rehearsed_record("rehearsed", "completed"));
  CHECK(figures.state == RehearsalState::kPassed);
  REQUIRE(figures.seconds_per_step);
  CHECK(*figures.seconds_per_step == doctest::Approx(0.5));
  CHECK(figures.total_steps == 10'000);
  CHECK(figures.rss_bytes == 3.0 * (1 << 30));
}

TEST_CASE("the figures of a rehearsal have its state, and the reason if it failed") {
  const auto failed = figures_in(rehearsed_record("rank_failed", "failed"));
  CHECK(failed.state == RehearsalState::kFailed);
  CHECK(failed.failure == "out of memory");
  const auto ended = figures_in(rehearsed_record("ok", "completed"));
  CHECK(ended.state == RehearsalState::kEndedByItself);
  CHECK(ended.failure.empty());
  CHECK(figures_in(to_checked_line(event_at(0, "claimed", {{"job", "7"}}))).state ==
        RehearsalState::kRunning);
  CHECK(figures_in("").state == RehearsalState::kNotStarted);
}

TEST_CASE(
    "read_rehearsal() of a run returns the figures of the rehearsal whose id is in "
    "rehearsal.json") {
  const TemporaryDirectory runs;
  const auto run = runs.path() / "x-1", rehearsal = runs.path() / "x-rehearsal-1";
  REQUIRE(std::filesystem::create_directory(run));
  REQUIRE(std::filesystem::create_directory(rehearsal));
  CHECK_FALSE(*read_rehearsal(run));
  REQUIRE(write_rehearsal_note(run, {"x-rehearsal-1", 2, {}, {}}));
  REQUIRE(
      write_file_atomic(rehearsal / "events.jsonl", rehearsed_record("rehearsed", "completed")));
  const auto found = read_rehearsal(run);
  REQUIRE(found.has_value());
  REQUIRE(*found);
  CHECK((*found)->note.id == "x-rehearsal-1");
  CHECK((*found)->figures.state == RehearsalState::kPassed);
  CHECK((*found)->figures.total_steps == 10'000);
}

TEST_CASE(
    "rehearsal.json is read back, and refused if it is damaged or has the path of a run in another "
    "folder") {
  const TemporaryDirectory run;
  CHECK_FALSE(*read_rehearsal_note(run.path()));
  REQUIRE(write_rehearsal_note(run.path(), {"x-rehearsal-1", 8, {}, 60}));
  const auto note = read_rehearsal_note(run.path());
  REQUIRE(note.has_value());
  CHECK((*note)->id == "x-rehearsal-1");
  CHECK((*note)->ranks_per_node == 8);
  CHECK_FALSE((*note)->mem_mib);
  for (const char* wrong :
       {"{", R"({"run":"../other"})", R"({"run":""})", R"({"run":".."})", R"({"run":5})"}) {
    CAPTURE(wrong);
    REQUIRE(write_file_atomic(run.path() / "rehearsal.json", wrong));
    CHECK(read_rehearsal_note(run.path()).error().code == Errc::kInvalid);
    CHECK(read_rehearsal(run.path()).error().code == Errc::kInvalid);
  }
}
