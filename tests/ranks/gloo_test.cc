// The gloo backend: ranks as threads over a store in memory, and as processes where a rank has to die.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "common/files.h"
#include "common/text.h"
#include "runtime/bootstrap/file_store.h"
#include "runtime/bootstrap/memory_store.h"
#include "runtime/comm/make_communicator.h"
#include "tests/ranks/collective_checks.h"
#include "tests/ranks/on_threads.h"
#include "tests/temporary_directory.h"

namespace dlrun {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

std::vector<std::string> on_ranks(int size, const std::function<std::vector<std::string>(Communicator&)>& body) {
  return on_threads("gloo", size, body);
}

}  // namespace

TEST_CASE("gloo: every collective gives the closed form at 1, 2, 4 and 7 ranks") {
  for (const int size : {1, 2, 4, 7}) {
    CAPTURE(size);
    check_none(on_ranks(size, check_collectives));
  }
}

TEST_CASE("gloo: ranks that call something else are named on every rank") {
  for (const int size : {2, 4, 7}) {
    for (const Mismatch mismatch : kMismatches) {
      check_none(on_ranks(size, [&](Communicator& comm) { return check_mismatch(comm, mismatch); }));
    }
  }
}

TEST_CASE("gloo: two communicators over one store do not meet") {
  MemoryStore store;
  std::vector<std::thread> ranks;
  std::mutex mutex;
  std::vector<std::string> failures;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      auto options = options_of(rank, 2, store);
      auto first = make_communicator("gloo", options);
      options.prefix = "second";
      auto second = make_communicator("gloo", options);
      const std::lock_guard lock(mutex);
      if (!first) failures.push_back(first.error().message);
      if (!second) failures.push_back(second.error().message);
      // They are destroyed here, out of the lock's way only after both ranks have come this far.
    });
  }
  for (std::thread& rank : ranks) rank.join();
  check_none(failures);
}

TEST_CASE("gloo: a buffer that does not fit the world is an error of every rank") {
  check_none(on_ranks(2, [](Communicator& comm) -> std::vector<std::string> {
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

TEST_CASE("gloo: a rank that never comes is named within the timeout") {
  MemoryStore store;
  auto options = options_of(0, 2, store);
  options.timeout = milliseconds(300);
  const auto before = steady_clock::now();
  const auto comm = make_communicator("gloo", options);
  REQUIRE_FALSE(comm);
  CHECK(comm.error().code == Errc::kTimeout);
  CHECK(comm.error().message.find("gloo/world/1") != std::string::npos);
  CHECK(steady_clock::now() - before < std::chrono::seconds(5));
}

TEST_CASE("gloo: without a store the reason and the remedy are said") {
  CommunicatorOptions options;
  options.world = {.rank = 0, .size = 2};
  const auto comm = make_communicator("gloo", options);
  REQUIRE_FALSE(comm);
  CHECK(comm.error().message.find("DLRUN_STORE is not set") != std::string::npos);
}

TEST_CASE("gloo: an abandoned communicator ends the others' calls at once") {
  const auto before = steady_clock::now();
  const auto failures = on_ranks(3, [](Communicator& comm) -> std::vector<std::string> {
    if (auto reached = comm.barrier(); !reached) return {reached.error().message};
    if (comm.rank() == 1) {
      comm.abandon();
      return {};
    }
    const auto after = comm.barrier();
    if (after) return {"a barrier without rank 1 succeeded"};
    return {};
  });
  check_none(failures);
  CHECK(steady_clock::now() - before < std::chrono::seconds(10));
}

TEST_CASE("gloo: a killed rank is an error on all others in bounded time, and named") {
  constexpr int kSize = 4;
  constexpr int kVictim = 2;
  const TemporaryDirectory folder;
  std::vector<pid_t> children;
  const auto before = steady_clock::now();
  for (int rank = 0; rank < kSize; ++rank) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child > 0) {
      children.push_back(child);
      continue;
    }
    // In the child: no doctest, no return; the code says what happened.
    auto store = FileStore::open(folder.path() / "store");
    if (!store) ::_exit(10);
    auto comm = make_communicator("gloo", options_of(rank, kSize, **store));
    if (!comm || !(*comm)->barrier()) ::_exit(11);
    if (rank == kVictim) ::kill(::getpid(), SIGKILL);
    std::vector<float> values(100'000, 1.0F);
    Result<> result;
    for (int step = 0; step < 1000 && result; ++step) result = (*comm)->all_reduce(std::span(values), ReduceOp::kMax);
    if (result) ::_exit(12);
    (void)write_file_atomic(folder.path() / fmt::format("error-{}", rank), result.error().message);
    // Stay until all have noticed: a rank that leaves is a lost peer, too, and would be named in the victim's place.
    const auto all_have_noticed = [&] {
      for (int other = 0; other < kSize; ++other) {
        if (other != kVictim && !std::filesystem::exists(folder.path() / fmt::format("error-{}", other))) return false;
      }
      return true;
    };
    while (!all_have_noticed() && steady_clock::now() - before < std::chrono::seconds(15)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ::_exit(result.error().code == Errc::kPeer ? 0 : 13);
  }
  int named = 0;
  for (int rank = 0; rank < kSize; ++rank) {
    int status = 0;
    REQUIRE(::waitpid(children[static_cast<std::size_t>(rank)], &status, 0) > 0);
    CAPTURE(rank);
    if (rank == kVictim) {
      CHECK(WIFSIGNALED(status));
      continue;
    }
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
    const auto message = read_file(folder.path() / fmt::format("error-{}", rank), 4096);
    REQUIRE(message);
    CAPTURE(*message);
    CHECK(message->find("all_reduce(max, float32 x 100000)") != std::string::npos);
    CHECK(message->find(fmt::format("of rank {} of 4", rank)) != std::string::npos);
    CHECK(message->find("lost: rank") != std::string::npos);
    if (message->find(" 2", message->find("lost: rank")) != std::string::npos) ++named;
  }
  // Gloo closes all of a rank's connections at its first error, so a survivor may be the first that another one loses.
  CHECK(named >= 1);
  CHECK(steady_clock::now() - before < std::chrono::seconds(20));
}

}  // namespace dlrun
