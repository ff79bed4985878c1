// Tests the sentences that say what a rehearsal predicts about its run.

#include <string>

#include <doctest/doctest.h>

#include "common/files.h"
#include "launcher/view/rehearsal_text.h"
#include "tests/contains.h"
#include "tests/temporary_directory.h"

using namespace dlrun;

namespace {

std::string text_in_state(RehearsalState state, const std::string& failure = "") {
  Rehearsal rehearsal;
  rehearsal.note.id = "x";
  rehearsal.figures.state = state;
  rehearsal.figures.failure = failure;
  return predictions(rehearsal).rehearsal;
}

}  // namespace

TEST_CASE("a rehearsal's prediction compares memory and time with the requests of the run") {
  Rehearsal rehearsal;
  rehearsal.note = {"x-rehearsal", 4, 8192, 3600};
  RehearsalFigures& figures = rehearsal.figures;
  figures.state = RehearsalState::kPassed;
  figures.rss_bytes = 3.0 * (1 << 30);
  figures.gpu_used_bytes = 30.0 * (1 << 30);
  figures.gpu_total_bytes = 80.0 * (1 << 30);
  figures.seconds_per_step = 0.5;
  figures.total_steps = 10'000;
  const auto small = predictions(rehearsal);
  CHECK(small.rehearsal == "x-rehearsal: passed");
  CHECK(has(small.memory, "for the 4 ranks of a node"));
  CHECK(has(small.memory, "which is too little"));
  CHECK(has(small.gpu, " of "));
  CHECK(has(small.time, "too short for one job"));
  rehearsal.note = {"x-rehearsal", 4, 65536, 86400};
  const auto large = predictions(rehearsal);
  CHECK_FALSE(has(large.memory, "too little"));
  CHECK_FALSE(has(large.time, "too short"));
  figures.total_steps.reset();
  CHECK(has(predictions(rehearsal).time, "does not report how many steps"));
  figures.seconds_per_step.reset();
  CHECK(has(predictions(rehearsal).time, "fewer than three reports with a new step"));
  figures.rss_bytes.reset();
  figures.gpu_used_bytes.reset();
  const auto none = predictions(rehearsal);
  CHECK(none.memory.empty());
  CHECK(none.gpu.empty());
  CHECK(none.time.empty());
}

TEST_CASE("a rehearsal's text shows its state, and the reason if it has failed") {
  CHECK(text_in_state(RehearsalState::kFailed, "out of memory") == "x: failed: out of memory");
  CHECK(text_in_state(RehearsalState::kNotStarted) == "x: it has not started");
  CHECK(text_in_state(RehearsalState::kRunning) == "x: it runs");
  CHECK(text_in_state(RehearsalState::kEndedByItself) == "x: passed; the program ended by itself");
}

TEST_CASE(
    "there is no prediction without rehearsal.json, and if the file is damaged, the prediction "
    "says so") {
  const TemporaryDirectory run;
  CHECK_FALSE(predictions_for(run.path()));
  REQUIRE(write_file_atomic(run.path() / "rehearsal.json", "{"));
  const auto texts = predictions_for(run.path());
  REQUIRE(texts);
  CHECK(has(texts->rehearsal, "is damaged"));
  CHECK(texts->memory.empty());
}
