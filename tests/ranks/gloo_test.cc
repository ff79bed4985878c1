// Tests the behaviour that only the gloo backend has; node_backends_test.cc tests the behaviour
// that shm and gloo have in common.

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "common/files.h"
#include "runtime/comm/make_communicator.h"
#include "tests/ranks/run_ranks.h"
#include "tests/temporary_directory.h"

namespace dlrun {

using std::chrono::steady_clock;

TEST_CASE(
    "gloo: auto selects gloo for ranks on several nodes with a store and without an MPI "
    "launcher") {
  expect_no_failures(on_threads(
      "auto", 2,
      [](Communicator& comm) -> std::vector<std::string> {
        if (comm.name() != "gloo") return {fmt::format("auto chose {}", comm.name())};
        return {};
      },
      [](CommunicatorOptions& options) {
        options.world.nnodes = 2;
        options.world.node_rank = options.world.rank;
        options.world.local_rank = 0;
        options.world.local_size = 1;
      }));
}

TEST_CASE("gloo: a buffer that does not fit the world size is an error on every rank") {
  expect_no_failures(on_threads("gloo", 2, [](Communicator& comm) -> std::vector<std::string> {
    std::vector<float> mine(3);
    std::vector<float> all(7);
    const auto gathered = comm.all_gather(std::span(mine), std::span(all));
    if (gathered) return {"all_gather of 2 x 3 elements into 7 succeeded"};
    if (gathered.error().code != Errc::kShape) return {"not kShape: " + gathered.error().message};
    if (gathered.error().message.find("holds 7 elements, expected 2 x 3") == std::string::npos)
      return {gathered.error().message};
    return {};
  }));
}

TEST_CASE(
    "gloo: if a rank is killed, all others fail within 20 s, and at least one error names it") {
  constexpr int kSize = 4;
  constexpr int kVictim = 2;
  const TemporaryDirectory folder;
  const auto error_file_of = [&](int rank) { return folder / fmt::format("error-{}", rank); };
  const auto before = steady_clock::now();
  const auto codes = in_processes(kSize, folder.path(), [&](int rank, Store& store) {
    auto comm = make_communicator("gloo", options_of(rank, kSize, store));
    if (!comm || !(*comm)->barrier()) return 11;
    if (rank == kVictim) ::kill(::getpid(), SIGKILL);
    std::vector<float> values(100'000, 1.0F);
    Result<> result;
    for (int step = 0; step < 1000 && result; ++step)
      result = (*comm)->all_reduce(std::span(values), ReduceOp::kMax);
    if (result) return 12;
    (void)write_file_atomic(error_file_of(rank), result.error().message);
    // Each rank stays until all have noticed the loss: a rank that leaves earlier is a lost peer,
    // too, and could be named in place of the victim.
    const auto all_have_noticed = [&] {
      for (int other = 0; other < kSize; ++other) {
        if (other != kVictim && !std::filesystem::exists(error_file_of(other))) return false;
      }
      return true;
    };
    while (!all_have_noticed() && steady_clock::now() - before < std::chrono::seconds(15)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return result.error().code == Errc::kPeer ? 0 : 13;
  });
  CHECK(codes == std::vector<int>{0, 0, -1, 0});
  int messages_with_victim = 0;
  for (const int rank : {0, 1, 3}) {
    const auto message = read_file(error_file_of(rank), 4096);
    REQUIRE(message);
    CAPTURE(*message);
    CHECK(has(*message, "all_reduce(max, float32 x 100000)"));
    CHECK(has(*message, fmt::format("of rank {} of 4", rank)));
    CHECK(has(*message, "lost: rank"));
    if (message->find(" 2", message->find("lost: rank")) != std::string::npos)
      ++messages_with_victim;
  }
  // Gloo closes all connections of a rank at its first error. A rank may therefore lose another
  // survivor before it notices the victim.
  CHECK(messages_with_victim >= 1);
  CHECK(steady_clock::now() - before < std::chrono::seconds(20));
}

}  // namespace dlrun
