// Tests the predictions from the record of a rehearsal.

#include <string>
#include <utility>
#include <vector>

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

/// The record of a rehearsal that did 40 steps in 20 seconds after its slow first steps.
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

TEST_CASE("the time of a step leaves out the first steps of a rehearsal") {
  const auto figures = figures_in(rehearsed_record("rehearsed", "completed"));
  CHECK(figures.state == "passed");
  REQUIRE(figures.seconds_per_step);
  CHECK(*figures.seconds_per_step == doctest::Approx(0.5));
  CHECK(figures.steps == 10'000);
  CHECK(figures.rss_bytes == 3.0 * (1 << 30));
}

TEST_CASE("a prediction compares memory and time with the requests of the run") {
  RehearsalFigures figures;
  figures.state = "passed";
  figures.rss_bytes = 3.0 * (1 << 30);
  figures.gpu_used_bytes = 30.0 * (1 << 30);
  figures.gpu_total_bytes = 80.0 * (1 << 30);
  figures.seconds_per_step = 0.5;
  figures.steps = 10'000;
  const auto small = predictions({"x-rehearsal", 4, 8192, 3600}, figures);
  REQUIRE(small.size() == 4);
  CHECK(small[0] == std::pair<std::string, std::string>{"rehearsal", "x-rehearsal: passed"});
  CHECK(has(small[1].second, "for the 4 ranks of a node"));
  CHECK(has(small[1].second, "which is too little"));
  CHECK(has(small[2].second, " of "));
  CHECK(has(small[3].second, "too short for one job"));
  const auto large = predictions({"x-rehearsal", 4, 65536, 86400}, figures);
  CHECK_FALSE(has(large[1].second, "too little"));
  CHECK_FALSE(has(large[3].second, "too short"));
  figures.steps.reset();
  CHECK(has(predictions({"x", 4, {}, {}}, figures)[3].second, "does not report how many steps"));
  figures.seconds_per_step.reset();
  CHECK(has(predictions({"x", 4, {}, {}}, figures)[3].second,
            "fewer than three reports with a new step"));
}

TEST_CASE("a failed rehearsal is named with its reason, and one without a record has not started") {
  CHECK(figures_in(rehearsed_record("rank_failed", "failed")).state == "failed: out of memory");
  CHECK(figures_in("").state == "it has not started");
}

TEST_CASE("the note about a rehearsal names a run of the same folder only") {
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
    CHECK(predictions_for(run.path()).size() == 1);
  }
}
