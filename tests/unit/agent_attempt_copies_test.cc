// Tests how an attempt waits for data that agents copy to and from the nodes.
#include <signal.h>

#include <doctest/doctest.h>

#include "runtime/agent/exit_codes.h"
#include "runtime/agent/intervals.h"
#include "tests/unit/attempt_scene.h"

namespace dlrun::agent {
namespace {

/// Two nodes with two ranks each; the first rank of each node stages data or collects outputs.
struct CopyScene : Scene {
  using Scene::Scene;

  void join(int rank, bool stages, std::chrono::seconds collect_limit = {}) {
    Hello hello{{rank, 4, rank % 2, 2, rank / 2, 2, WorldSource::kSlurm}};
    hello.host = "n" + std::to_string(rank / 2 + 1);
    hello.addr = "10.0.0." + std::to_string(rank / 2 + 1);
    hello.stages = stages && rank % 2 == 0;
    hello.collect_limit = rank % 2 == 0 ? collect_limit : seconds(0);
    attempt.on_hello(rank, hello, now);
  }
  void all_join_with(bool stages, std::chrono::seconds collect_limit = {}) {
    for (int rank = 0; rank < 4; ++rank) join(rank, stages, collect_limit);
  }
  /// Returns the number of messages of this type that lead has sent to ranks. A message "noted"
  /// confirms that lead has the exit record of a rank.
  [[nodiscard]] int sent_count(std::string_view type) const {
    int found = 0;
    for (const auto& [rank, message] : actions.sent) found += message["type"] == type ? 1 : 0;
    return found;
  }
  /// Returns the ranks that have received a message of this type.
  [[nodiscard]] std::vector<int> receivers(std::string_view type) const {
    std::vector<int> ranks;
    for (const auto& [rank, message] : actions.sent) {
      if (message["type"] == type) ranks.push_back(rank);
    }
    return ranks;
  }
};

TEST_CASE("the programs start when all ranks have joined and all nodes have their data") {
  CopyScene scene;
  scene.all_join_with(true);
  CHECK(scene.receivers("stage") == std::vector<int>{0, 2});
  CHECK(scene.sent_count("start") == 0);
  CHECK(scene.actions.last("staging") == Json{{"nodes", 2}});
  CHECK(scene.actions.count("joined") == 0);
  scene.attempt.on_staged(2, 3, 100, scene.now);
  scene.attempt.on_staged(2, 3, 100, scene.now);  // a repeated message counts once
  CHECK(scene.sent_count("start") == 0);
  scene.pass(seconds(2));
  scene.attempt.on_staged(0, 0, 0, scene.now);
  CHECK(scene.sent_count("start") == 4);
  CHECK(scene.actions.last("staged") ==
        Json{{"nodes", 2}, {"files", 3}, {"bytes", 100}, {"seconds", 2.0}});
  CHECK(scene.actions.count("staging") == 1);
  CHECK(scene.actions.count("joined") == 1);
}

TEST_CASE("data may be copied for longer than the time limit for joining") {
  CopyScene scene({.join_timeout = seconds(10)});
  scene.all_join_with(true);
  scene.pass(seconds(3600));
  CHECK_FALSE(scene.attempt.is_over());
  CHECK(scene.actions.broadcast_count("end") == 0);
  SUBCASE("a rank that does not join in time is still a failure") {
    CopyScene other({.join_timeout = seconds(10)});
    other.join(0, true);
    other.pass(seconds(10));
    CHECK(other.actions.broadcast_count("end") == 1);
    CHECK(other.attempt.end().reason == EndReason::kJoinTimeout);
  }
}

TEST_CASE("a node that cannot stage its data is named, and no program starts") {
  CopyScene scene;
  scene.all_join_with(true, seconds(60));
  scene.attempt.on_exit(2, {kExitStaging, 0, "cannot stage /d to $TMPDIR/d: full"}, scene.now);
  scene.pass(Attempt::kCulpritWait);
  CHECK(scene.sent_count("start") == 0);
  CHECK(scene.actions.last("rank_failed")["host"] == "n2");
  CHECK(scene.actions.last("rank_failed")["code"] == kExitStaging);
  // No program has started, so there are no outputs to wait for.
  CHECK(scene.sent_count("collect") == 0);
  CHECK(scene.sent_count("noted") == 1);
}

TEST_CASE("nodes wait while sbcast sends the large files, and then copy their data") {
  struct RecordingOutlet final : AttemptOutlet {
    int file_broadcasts_begun = 0;
    std::vector<Json> sent;
    void send(int, const MessageToRank& message) override { sent.push_back(json_of(message)); }
    void send_text(int, std::string_view) override {}
    void broadcast(const MessageToRank&) override {}
    void record(const RunEvent&) override {}
    void say(std::string_view) override {}
    void stop_step(bool) override {}
    void begin_file_broadcast() override { ++file_broadcasts_begun; }
  } outlet;
  const Attempt::Clock::time_point now{std::chrono::hours(1)};
  AttemptOptions options;
  options.broadcasts_files = true;
  Attempt attempt(options, outlet, now);
  for (int rank = 0; rank < 2; ++rank) {
    Hello hello{{rank, 2, 0, 1, rank, 2, WorldSource::kSlurm}};
    hello.host = "n" + std::to_string(rank);
    hello.stages = true;
    attempt.on_hello(rank, hello, now);
  }
  CHECK(outlet.file_broadcasts_begun == 1);
  CHECK(outlet.sent.empty());
  attempt.on_file_broadcast_end({"/tmp/.dlrun-sbcast-1"});
  REQUIRE(outlet.sent.size() == 2);
  CHECK(outlet.sent[1] == Json{{"type", "stage"}, {"broadcast", {"/tmp/.dlrun-sbcast-1"}}});
}

TEST_CASE(
    "outputs are copied from a node after all its ranks have ended and before the attempt ends") {
  CopyScene scene;
  scene.all_join_with(false, seconds(60));
  scene.attempt.on_exit(0, {}, scene.now);
  scene.pass(OutputCopyBoard::kLookEvery);
  CHECK(scene.sent_count("collect") == 0);
  scene.attempt.on_exit(1, {}, scene.now);
  scene.pass(OutputCopyBoard::kLookEvery);
  CHECK(scene.receivers("collect") == std::vector<int>{0});
  CHECK(scene.sent_count("noted") == 0);
  for (const int rank : {2, 3}) scene.attempt.on_exit(rank, {}, scene.now);
  scene.pass(OutputCopyBoard::kLookEvery);
  CHECK(scene.receivers("collect") == std::vector<int>{0, 2});
  scene.attempt.on_collected(0, 2, 10, scene.now);
  scene.pass(seconds(5));
  CHECK_FALSE(scene.attempt.is_over());
  CHECK(scene.sent_count("noted") == 0);
  scene.attempt.on_collected(2, 1, 5, scene.now);
  CHECK(scene.sent_count("noted") == 4);
  CHECK(scene.actions.last("outputs")["files"] == 3);
  CHECK(scene.actions.last("outputs")["bytes"] == 15);
  scene.attempt.on_step_end(0, "", scene.now);
  REQUIRE(scene.attempt.is_over());
  CHECK(scene.attempt.end().code == 0);
}

TEST_CASE("the step is not stopped while outputs are copied, and is stopped afterwards") {
  CopyScene scene;
  scene.all_join_with(false, seconds(60));
  scene.attempt.on_exit(3, {1, 0, ""}, scene.now);
  for (int rank = 0; rank < 3; ++rank)
    scene.attempt.on_exit(rank, {128 + SIGTERM, SIGTERM, ""}, scene.now);
  for (int second = 0; second < 20; ++second) {
    for (int rank = 0; rank < 4; ++rank) scene.attempt.on_heard(rank, scene.now);
    scene.pass(seconds(1));
  }
  CHECK(scene.receivers("collect") == std::vector<int>{0, 2});
  CHECK(scene.actions.stop_step_calls.empty());
  for (const auto& [rank, message] : scene.actions.sent) {
    if (message["type"] == "collect") CHECK(message.contains("since_end"));
  }
  for (const int rank : {0, 2}) scene.attempt.on_collected(rank, 0, 0, scene.now);
  CHECK(scene.sent_count("noted") == 4);
  scene.pass(kStepStoppedAfter);
  CHECK(scene.actions.stop_step_calls == std::vector<bool>{false});
}

TEST_CASE(
    "an attempt waits for outputs until the copy time is up, the job's limit is near, or agents "
    "are silent or gone") {
  CopyScene scene;
  scene.all_join_with(false, seconds(60));
  for (int rank = 0; rank < 4; ++rank) scene.attempt.on_exit(rank, {}, scene.now);
  const auto hear_all_for = [&](int time_s) {
    for (int second = 0; second < time_s; ++second) {
      for (int rank = 0; rank < 4; ++rank) scene.attempt.on_heard(rank, scene.now);
      scene.pass(seconds(1));
    }
  };
  hear_all_for(60);
  CHECK(scene.sent_count("noted") == 0);
  SUBCASE("the time for the copy is over") {
    hear_all_for(20);
  }
  SUBCASE("the time limit is near") {
    scene.attempt.end_output_copies_by(scene.now + seconds(2));
    hear_all_for(2);
  }
  SUBCASE("all agents are silent") {
    scene.pass(kLease + seconds(1));
  }
  SUBCASE("the agents that copy are gone") {
    scene.attempt.on_lost(0, "closed", scene.now);
    scene.attempt.on_lost(2, "closed", scene.now);
    scene.pass(seconds(1));
  }
  CHECK(scene.sent_count("noted") == 4);
}

TEST_CASE("a rank whose program cannot be ended does not keep the step alive") {
  CopyScene scene;
  scene.all_join_with(false, seconds(60));
  scene.attempt.on_exit(3, {1, 0, ""}, scene.now);
  for (int second = 0; second < 8; ++second) {
    for (int rank = 0; rank < 4; ++rank) scene.attempt.on_heard(rank, scene.now);
    scene.pass(seconds(1));
  }
  CHECK(scene.sent_count("collect") == 0);
  CHECK(scene.actions.stop_step_calls == std::vector<bool>{false, true});
}

}  // namespace
}  // namespace dlrun::agent
