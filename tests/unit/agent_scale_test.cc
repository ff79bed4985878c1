// Tests the parts of lead with ten thousand ranks: their cost must not grow with the square of the
// number of ranks, and their messages must stay short.

#include <signal.h>

#include <ctime>
#include <string>

#include <doctest/doctest.h>

#include "runtime/agent/node_fitness.h"
#include "runtime/agent/store_table.h"
#include "tests/time_bounds.h"
#include "tests/unit/attempt_scene.h"

namespace dlrun::agent {
namespace {

constexpr int kManyRanks = 10'000;

/// Returns the processor time of this process. Unlike the time by the clock, it does not depend on
/// other processes.
double processor_seconds() {
  struct timespec now {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

TEST_CASE("ten thousand ranks that wait for one key can all leave in a third of a second") {
  const StoreTable::Clock::time_point now{std::chrono::hours(1)};
  StoreTable store;
  for (int rank = 0; rank < kManyRanks; ++rank)
    REQUIRE(store.get(rank, 1, "address of rank 0", seconds(30), now).empty());
  const double began = processor_seconds();
  for (int rank = kManyRanks - 1; rank >= 0; --rank) store.drop_requests_of(rank);
  const double took = processor_seconds() - began;
  MESSAGE(took, " s");
  CHECK(took < cpu_limit_s(0.3));
  CHECK_FALSE(store.next_deadline());
  CHECK(store.put(0, 2, "address of rank 0", "00").size() == 1);
}

TEST_CASE("ten thousand ranks that wait for one key are answered in the order of their requests") {
  const StoreTable::Clock::time_point now{std::chrono::hours(1)};
  StoreTable store;
  for (int rank = 0; rank < kManyRanks; ++rank)
    REQUIRE(store.get(rank, 7, "key", seconds(30 + rank % 2), now).empty());
  store.drop_requests_of(1);
  const auto answers = store.put(kManyRanks, 8, "key", "00");
  REQUIRE(answers.size() == static_cast<std::size_t>(kManyRanks));
  CHECK(answers.front().rank == 0);
  CHECK(answers[1].rank == 2);
  CHECK(answers.back().rank == kManyRanks);
  CHECK_FALSE(store.next_deadline());
}

TEST_CASE(
    "ten thousand ranks leave in less than half a second, and the attempt is over when the last "
    "one has left") {
  Scene scene;
  scene.all_join(kManyRanks);
  scene.attempt.on_exit(0, {1, 0, {}}, scene.now);
  scene.attempt.on_lost(0, "", scene.now);
  scene.pass(seconds(2));  // the failure is announced
  scene.attempt.on_step_end(1, "", scene.now);
  const double began = processor_seconds();
  for (int rank = 1; rank < kManyRanks; ++rank) {
    CHECK_FALSE(scene.attempt.is_over());
    scene.attempt.on_exit(rank, {128 + SIGTERM, SIGTERM, {}}, scene.now);
    scene.attempt.on_lost(rank, "", scene.now);
  }
  const double took = processor_seconds() - began;
  MESSAGE(took, " s");
  CHECK(took < cpu_limit_s(0.5));
  CHECK(scene.attempt.is_over());
  CHECK(scene.attempt.end().code == 1);
}

TEST_CASE(
    "the verdicts after ten thousand failed checks take less than a tenth of a second together") {
  constexpr int kRanksPerNode = 8;
  constexpr int kNodes = kManyRanks / kRanksPerNode;
  const NodeFitness::Clock::time_point now{std::chrono::hours(1)};
  NodeFitness fitness;
  const double began = processor_seconds();
  for (int rank = 0; rank < kManyRanks; ++rank) {
    CHECK(fitness.verdict(kNodes, now) == NodeFitness::Verdict::kOpen);
    fitness.add_result(rank, "n" + std::to_string(rank % kNodes), kRanksPerNode, "/tmp is full",
                       now);
    if (rank + 1 >= kNodes) break;
  }
  for (int rank = kNodes; rank < kManyRanks; ++rank) {
    fitness.add_result(rank, "n" + std::to_string(rank % kNodes), kRanksPerNode, "/tmp is full",
                       now);
    CHECK(fitness.verdict(kNodes, now) == NodeFitness::Verdict::kEverywhere);
  }
  const double took = processor_seconds() - began;
  MESSAGE(took, " s");
  CHECK(took < cpu_limit_s(0.1));
}

TEST_CASE("the message about missing ranks lists sixteen nodes, and says how many more there are") {
  Scene scene({.join_timeout = seconds(5)});
  for (int rank = 0; rank < kManyRanks; rank += 2) scene.hello(rank, kManyRanks);
  scene.pass(seconds(5));
  REQUIRE(scene.actions.printed.size() == 1);
  const auto& message = scene.actions.printed[0];
  CHECK(message.starts_with("5000 of 10000 ranks did not connect to lead within 5 s: ranks 1, 3,"));
  CHECK(message.ends_with("n15 (1 of its 2), n16 (1 of its 2), 4984 more nodes"));
  CHECK(message.size() < 1000);
}

}  // namespace
}  // namespace dlrun::agent
