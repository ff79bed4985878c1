// Tests that runs which stage data to the same folder neither harm nor block each other.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include "common/files.h"
#include "runtime/agent/leftovers.h"
#include "runtime/agent/staging.h"
#include "tests/contains.h"
#include "tests/unit/node_scene.h"

namespace dlrun::agent {
namespace {

namespace fs = std::filesystem;

/// A node to which runs stage the folder `source` as $NODE/data.
struct StagingScene : NodeScene {
  fs::path source = top / "source";

  StagingScene() { fs::create_directory(source); }
  static void put(const fs::path& path) { write(path, "x"); }
  [[nodiscard]] StageOptions options(bool is_shared, int nnodes = 1) const {
    return {.items = {{source.string(), "$NODE/data"}},
            .nnodes = nnodes,
            .leftover_age = std::chrono::seconds(0),
            .is_shared = [is_shared](const fs::path&) { return is_shared; }};
  }
  [[nodiscard]] std::string error_of_staging(bool is_shared = false, int nnodes = 1) const {
    return stage_data(options(is_shared, nnodes), env).error;
  }
};

TEST_CASE("staging to a shared file system keeps the unfinished copies of other hosts") {
  const StagingScene scene;
  scene.put(scene.source / "a");
  // Another host writes these files. The locks of that host are not visible on this node.
  const auto unfinished = scene.node / ".other.dlrun-part/half";
  const auto broadcast_file = scene.node / ".dlrun-sbcast-0123456789abcdef";
  for (const auto& path : {unfinished, scene.node / ".other.dlrun-lock", broadcast_file})
    scene.put(path);
  CHECK(scene.error_of_staging(true) == "");
  CHECK(fs::exists(scene.node / "data/a"));
  CHECK(fs::exists(unfinished));
  CHECK(fs::exists(broadcast_file));
  CHECK(has(scene.error_of_staging(true, 2), "is on a file system that all nodes share"));
  CHECK(scene.error_of_staging(false) == "");
  CHECK_FALSE(fs::exists(unfinished));
  CHECK_FALSE(fs::exists(broadcast_file));
}

/// Stages in a child process, and removes the first file of the copy while the child is stopped in
/// the middle. Returns the child's exit code, which is 0 if staging reported the change; -1 if the
/// child was not stopped in the middle of the copy.
int exit_code_of_disturbed_copy(const StagingScene& scene) {
  const auto unfinished = scene.node / ".data.dlrun-part";
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(has(scene.error_of_staging(), "another process has changed") ? 0 : 1);
  int status = 0;
  while (!fs::exists(unfinished / "first")) {
    if (::waitpid(child, &status, WNOHANG) == child) return -1;
  }
  ::kill(child, SIGSTOP);
  REQUIRE(::waitpid(child, &status, WUNTRACED) == child);
  if (!WIFSTOPPED(status)) return -1;
  const bool is_in_the_middle =
      fs::exists(unfinished / "first") && !fs::exists(unfinished / "last");
  if (is_in_the_middle) fs::remove(unfinished / "first");
  ::kill(child, SIGCONT);
  REQUIRE(::waitpid(child, &status, 0) == child);
  return is_in_the_middle && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_CASE("a copy that loses a file while it is made is not used") {
  constexpr int kFiles = 1000, kTries = 50;
  const StagingScene scene;
  scene.put(scene.source / "first");
  for (int i = 0; i < kFiles; ++i) scene.put(scene.source / "folder" / std::to_string(i));
  scene.put(scene.source / "last");
  int exit_code = -1;
  for (int i = 0; i < kTries && exit_code == -1; ++i) {
    for (const auto& entry : fs::directory_iterator(scene.node)) fs::remove_all(entry.path());
    exit_code = exit_code_of_disturbed_copy(scene);
  }
  REQUIRE(exit_code != -1);  // the copy was stopped in the middle
  CHECK(exit_code == 0);
  CHECK_FALSE(fs::exists(scene.node / "data"));
  CHECK_FALSE(fs::exists(scene.node / ".data.dlrun-part"));
  CHECK(scene.error_of_staging() == "");
  CHECK(fs::exists(scene.node / "data/first"));
}

TEST_CASE(
    "a run that waits for another run's copy releases the lock .dlrun-turn between its tries") {
  const StagingScene scene;
  scene.put(scene.source / "a");
  const auto open = [&](const char* name) {
    return UniqueFd(::open((scene.node / name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  };
  // The future's destructor waits for a thread that needs the locks. The locks are declared after
  // the future, so they are released first.
  std::future<std::string> waiting;
  const UniqueFd turn = open(".data.dlrun-turn"), lock = open(".data.dlrun-lock");
  REQUIRE(::flock(lock.get(), LOCK_EX | LOCK_NB) == 0);  // another run copies
  waiting = std::async(std::launch::async, [&] { return scene.error_of_staging(); });
  // In this time the run tries more than once to get the lock.
  CHECK(waiting.wait_for(std::chrono::milliseconds(1200)) == std::future_status::timeout);
  bool is_free = false;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!is_free && std::chrono::steady_clock::now() < end) {
    is_free = ::flock(turn.get(), LOCK_EX | LOCK_NB) == 0;
    if (!is_free) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(is_free);
  REQUIRE(::flock(turn.get(), LOCK_UN) == 0);
  REQUIRE(::flock(lock.get(), LOCK_UN) == 0);
  CHECK(waiting.get() == "");
  CHECK(fs::exists(scene.node / "data/a"));
}

}  // namespace
}  // namespace dlrun::agent
