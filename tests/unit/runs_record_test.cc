#include <doctest/doctest.h>

#include "common/files.h"
#include "common/json_lines.h"
#include "launcher/runs/run_record.h"
#include "tests/temporary_directory.h"

using namespace dlrun;
using Json = nlohmann::ordered_json;

namespace {

std::string line(Json event) {
  return to_checked_line(event);
}

std::string start_lines() {
  return line({{"t", "2026-11-21T12:00:00.000Z"},
               {"event", "claimed"},
               {"attempt", 0},
               {"job", "42"},
               {"host", "n1"}}) +
         line({{"t", "2026-11-21T12:00:01.000Z"},
               {"event", "joined"},
               {"attempt", 0},
               {"ranks", 8},
               {"hosts", "n[1-4]"}});
}

std::string end_line(const char* state, int code) {
  return line({{"t", "2026-11-21T12:01:00.000Z"},
               {"event", "ended"},
               {"attempt", 0},
               {"state", state},
               {"code", code},
               {"message", "done"}});
}

}  // namespace

TEST_CASE("the summary of a record has the ranks, the hosts and the latest progress") {
  const auto record = sum_up_events(start_lines() +
                                    line({{"t", "2026-11-21T12:00:09.000Z"},
                                          {"event", "progress"},
                                          {"attempt", 0},
                                          {"epoch", 1},
                                          {"epochs", 4},
                                          {"loss", 0.5}}) +
                                    line({{"t", "2026-11-21T12:00:10.000Z"},
                                          {"event", "progress"},
                                          {"attempt", 0},
                                          {"step", 7},
                                          {"loss", 0.25}}));
  CHECK(record.ranks == 8);
  CHECK(record.hosts == "n[1-4]");
  CHECK(record.claimed_by == "42");
  REQUIRE(record.progress.has_value());
  CHECK(record.progress->epoch == 1);
  CHECK(record.progress->step == 7);
  CHECK(record.progress->loss == doctest::Approx(0.25));
  CHECK_FALSE(record.ended);
}

TEST_CASE("the first failed rank of a record is the rank in the event attempt_end") {
  const auto record =
      sum_up_events(start_lines() +
                    line({{"event", "rank_failed"},
                          {"attempt", 0},
                          {"rank", 1},
                          {"host", "n1"},
                          {"code", 143},
                          {"signal", "SIGTERM"}}) +
                    line({{"event", "rank_failed"},
                          {"attempt", 0},
                          {"rank", 3},
                          {"host", "n2"},
                          {"code", 137},
                          {"signal", "SIGKILL"}}) +
                    line({{"event", "attempt_end"},
                          {"attempt", 0},
                          {"code", 137},
                          {"reason", "rank_failed"},
                          {"first_failed",
                           {{"rank", 3}, {"host", "n2"}, {"code", 137}, {"signal", "SIGKILL"}}}}) +
                    end_line("failed", 137));
  REQUIRE(record.first_failed.has_value());
  CHECK(record.first_failed->rank == 3);
  CHECK(record.first_failed->signal == "SIGKILL");
  CHECK(record.failures.size() == 2);
  CHECK(record.ended);
  CHECK(record.end_code == 137);
}

TEST_CASE("a claim after an end means that the run continues, without its earlier failures") {
  const auto text = start_lines() +
                    line({{"event", "rank_failed"}, {"attempt", 0}, {"rank", 3}, {"code", 1}}) +
                    end_line("failed", 1) +
                    line({{"event", "claimed"}, {"attempt", 1}, {"job", "42"}, {"again", true}});
  const auto record = sum_up_events(text);
  CHECK_FALSE(record.ended);
  CHECK(record.attempt == 1);
  CHECK_FALSE(record.first_failed.has_value());
}

TEST_CASE(
    "the record of a restarted run has the causes of its restarts and how many more may follow") {
  const auto restarting = line(
      {{"event", "restarting"}, {"attempt", 0}, {"cause", "hang"}, {"left", 2}, {"by", "lead"}});
  const auto first_attempt =
      start_lines() + line({{"event", "rank_failed"}, {"attempt", 0}, {"rank", 3}, {"code", 79}}) +
      line({{"event", "attempt_end"}, {"attempt", 0}, {"code", 79}, {"reason", "hang"}}) +
      restarting;
  auto record = sum_up_events(first_attempt);
  CHECK_FALSE(record.ended);
  CHECK(record.first_failed);
  record =
      sum_up_events(first_attempt + line({{"event", "started"}, {"attempt", 1}, {"ranks", 0}}));
  CHECK(record.attempt == 1);
  CHECK(record.attempt_end_reason.empty());
  CHECK_FALSE(record.first_failed);
  REQUIRE(record.restarts.size() == 1);
  CHECK(record.restarts[0].attempt == 0);
  CHECK(record.restarts[0].cause == "hang");
  CHECK(record.restarts[0].restarts_left == 2);
}

namespace {

/// Returns the line of an event of a component, or of the whole run if component is empty.
std::string component_line(const char* event, const char* component, Json fields) {
  Json object{{"t", "2026-11-21T12:00:02.000Z"}, {"event", event}, {"attempt", 0}};
  if (*component != '\0') object["component"] = component;
  object.update(fields);
  return line(object);
}

/// Returns the record of a server on n1 and a trainer on n2 and n3, up to the time when both run.
std::string component_start_lines() {
  return component_line("components", "",
                        {{"components",
                          {{{"name", "server"}, {"role", "service"}, {"ranks", 1}},
                           {{"name", "trainer"}, {"role", "main"}, {"ranks", 4}}}}}) +
         component_line("started", "server", {{"ranks", 1}}) +
         component_line("joined", "server", {{"ranks", 1}, {"hosts", "n1"}}) +
         component_line("component_ready", "server", {{"addr", "10.0.0.1:80"}}) +
         component_line("started", "trainer", {{"ranks", 4}}) +
         component_line("joined", "trainer", {{"ranks", 4}, {"hosts", "n[2-3]"}});
}

}  // namespace

TEST_CASE(
    "a record with components has the state of each component, and the progress of the first main "
    "component") {
  const auto record =
      sum_up_events(component_start_lines() + component_line("progress", "trainer", {{"step", 5}}) +
                    component_line("progress", "server", {{"step", 99}}));
  REQUIRE(record.components.size() == 2);
  CHECK(record.components[0].state == ComponentState::kReady);
  CHECK(record.components[0].addr == "10.0.0.1:80");
  CHECK(record.components[1].state == ComponentState::kJoined);
  CHECK(record.leading_component == "trainer");
  CHECK(record.ranks == 5);
  CHECK(record.hosts == "n[1-3]");
  CHECK(record.have_ranks_joined);
  REQUIRE(record.progress);
  CHECK(record.progress->step == 5);
}

TEST_CASE("the first failed rank of a record has its component") {
  const auto record = sum_up_events(
      component_start_lines() +
      component_line("rank_failed", "trainer", {{"rank", 2}, {"host", "n3"}, {"code", 7}}) +
      component_line("component_end", "trainer", {{"code", 7}, {"reason", "rank_failed"}}) +
      component_line("component_end", "server", {{"code", 0}, {"reason", "stopped"}}) +
      component_line("attempt_end", "trainer",
                     {{"code", 7},
                      {"reason", "rank_failed"},
                      {"first_failed", {{"rank", 2}, {"host", "n3"}, {"code", 7}}}}));
  REQUIRE(record.first_failed);
  CHECK(record.first_failed->component == "trainer");
  CHECK(record.first_failed->rank == 2);
  CHECK(record.components[0].state == ComponentState::kStopped);
  CHECK(record.components[1].state == ComponentState::kFailed);
  CHECK(record.components[1].code == 7);
}

TEST_CASE("a failed rank of a component that restarts alone is not the failure of the run") {
  const auto record = sum_up_events(
      component_start_lines() +
      component_line("rank_failed", "server", {{"rank", 0}, {"code", 137}}) +
      component_line("component_end", "server", {{"code", 137}, {"reason", "rank_failed"}}) +
      component_line("component_restart", "server", {{"code", 137}, {"left", 0}}));
  CHECK_FALSE(record.first_failed);
  CHECK(record.components[0].state == ComponentState::kRestarting);
  CHECK(record.components[0].restarts == 1);
}

TEST_CASE("a rank failure of an earlier attempt that is recorded after the next claim is ignored") {
  const auto record =
      sum_up_events(start_lines() + line({{"event", "claimed"}, {"attempt", 1}, {"job", "42"}}) +
                    line({{"event", "rank_failed"}, {"attempt", 0}, {"rank", 3}, {"code", 1}}));
  CHECK_FALSE(record.first_failed.has_value());
}

TEST_CASE("the results of several `result` events are merged") {
  const auto record =
      sum_up_events(start_lines() +
                    line({{"t", "x"},
                          {"event", "result"},
                          {"attempt", 0},
                          {"test_accuracy", 0.98},
                          {"final", true}}) +
                    line({{"event", "result"}, {"attempt", 0}, {"parameters", "3f2a"}}));
  CHECK(Json::parse(record.result) == Json({{"test_accuracy", 0.98}, {"parameters", "3f2a"}}));
}

TEST_CASE(
    "incomplete or damaged lines, unknown events and wrong types are skipped, and damaged lines "
    "are counted") {
  std::string damaged = start_lines();
  damaged[10] ^= 1;
  const auto record = sum_up_events(
      damaged + line({{"event", "of a later version"}, {"attempt", 0}}) +
      line({{"event", "joined"}, {"attempt", "zero"}, {"ranks", "many"}}) + "{\"event\":\"ended\"");
  CHECK(record.damaged_lines == 1);
  CHECK(record.has_incomplete_end);
  CHECK_FALSE(record.ended);
}

TEST_CASE("has_end() is true if the record has an end and no later claim") {
  const TemporaryDirectory run;
  CHECK_FALSE(has_end(run.path()));
  std::string text = start_lines();
  for (int i = 0; i < 2000; ++i) text += line({{"event", "progress"}, {"attempt", 0}, {"step", i}});
  REQUIRE(write_file_atomic(run.path() / "events.jsonl", text).has_value());
  CHECK_FALSE(has_end(run.path()));
  REQUIRE(
      write_file_atomic(run.path() / "events.jsonl", text + end_line("completed", 0)).has_value());
  CHECK(has_end(run.path()));
  REQUIRE(
      write_file_atomic(run.path() / "events.jsonl",
                        text + end_line("failed", 1) + line({{"event", "claimed"}, {"attempt", 1}}))
          .has_value());
  CHECK_FALSE(has_end(run.path()));
}
