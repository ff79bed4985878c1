#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "common/env.h"
#include "common/files.h"
#include "launcher/executors/detached.h"
#include "launcher/executors/executor.h"
#include "launcher/executors/foreground.h"
#include "tests/temporary_directory.h"

using namespace dlrun;

TEST_CASE(
    "a foreground child on which neither let_run() nor wait() is called does nothing and ends") {
  pid_t pid = 0;
  {
    auto child = ForegroundProcess::start({"sh", "-c", "exit 3"}, Env::of_process(), "",
                                          OnSignal::kTermThenKill);
    REQUIRE(child.has_value());
    pid = child->pid();
    CHECK(process_start_ticks(pid).has_value());
  }
  CHECK_FALSE(process_start_ticks(pid).has_value());
}

TEST_CASE("a foreground child's exit code and signal are distinguished") {
  auto exiting_child = ForegroundProcess::start({"sh", "-c", "exit 3"}, Env::of_process(), "",
                                                OnSignal::kTermThenKill);
  const auto exited = exiting_child->wait();
  CHECK(exited->exit_code == 3);
  CHECK(exited->signal == 0);
  auto killed_child = ForegroundProcess::start({"sh", "-c", "kill -KILL $$"}, Env::of_process(), "",
                                               OnSignal::kTermThenKill);
  const auto killed = killed_child->wait();
  CHECK(killed->exit_code == 137);
  CHECK(killed->signal == SIGKILL);
}

TEST_CASE("wait() reports the signal of a foreground child that was killed before let_run()") {
  auto child = ForegroundProcess::start({"sh", "-c", "exit 3"}, Env::of_process(), "",
                                        OnSignal::kTermThenKill);
  REQUIRE(child.has_value());
  REQUIRE(::kill(child->pid(), SIGKILL) == 0);
  siginfo_t info{};
  const auto pid = static_cast<id_t>(child->pid());
  REQUIRE(::waitid(P_PID, pid, &info, WEXITED | WNOWAIT) == 0);
  const auto end = child->wait();
  REQUIRE(end.has_value());
  CHECK(end->signal == SIGKILL);
  CHECK(end->exit_code == 137);
}

TEST_CASE("a signal to the parent reaches a foreground child as SIGTERM, and is reported") {
  // The child signals this process as soon as it runs. wait() installs the handler before it lets
  // the child run.
  auto child = ForegroundProcess::start(
      {"bash", "-c", "trap 'exit 9' TERM; kill -INT $PPID; while :; do sleep 0.05; done"},
      Env::of_process(), "", OnSignal::kTermThenKill);
  REQUIRE(child.has_value());
  const auto end = child->wait();
  CHECK(end->exit_code == 9);
  CHECK(end->first_signal == SIGINT);
}

TEST_CASE("a detached program writes into its log, and does nothing before let_run()") {
  const TemporaryDirectory folder;
  const auto log = folder / "log";
  Env env = Env::of_process();
  env.set("WORD", "hello");
  auto process = DetachedProcess::start({"sh", "-c", "echo $WORD; pwd; echo wrong >&2"}, env,
                                        folder.path(), log);
  REQUIRE(process.has_value());
  CHECK(local_job_id(process->pid()).has_value());
  CHECK(read_file(log, 1000).value_or("?").empty());
  REQUIRE(process->let_run().has_value());
  CHECK(::waitpid(process->pid(), nullptr, 0) == process->pid());
  CHECK(read_file(log, 1000).value_or("?") ==
        fmt::format("hello\n{}\nwrong\n", folder.path().string()));
}

TEST_CASE(
    "a detached process whose caller never calls let_run() ends without running the program") {
  const TemporaryDirectory folder;
  pid_t pid = -1;
  {
    auto process = DetachedProcess::start({"sh", "-c", "touch ran"}, Env::of_process(),
                                          folder.path(), folder / "log");
    REQUIRE(process.has_value());
    pid = process->pid();
  }
  int status = 0;
  CHECK(::waitpid(pid, &status, 0) == pid);
  CHECK(WEXITSTATUS(status) == 143);
  CHECK_FALSE(std::filesystem::exists(folder / "ran"));
}

TEST_CASE(
    "if a detached program cannot be started, the error names the file that could not be opened") {
  const TemporaryDirectory folder;
  const auto start = [&] {
    return DetachedProcess::start({"sh", "-c", "true"}, Env::of_process(), folder.path(),
                                  folder / "missing" / "log");
  };
  const auto without_folder = start();
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit no_files{0, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &no_files) == 0);
  const auto without_files = start();
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  REQUIRE_FALSE(without_folder.has_value());
  CHECK(without_folder.error().message ==
        fmt::format("cannot open {}: No such file or directory (ENOENT)",
                    (folder / "missing" / "log").string()));
  REQUIRE_FALSE(without_files.has_value());
  CHECK(without_files.error().message == "cannot open /dev/null: Too many open files (EMFILE)");
}

TEST_CASE("let_run() fails if the detached program was killed") {
  const TemporaryDirectory folder;
  auto process = DetachedProcess::start({"sh", "-c", "touch ran"}, Env::of_process(), folder.path(),
                                        folder / "log");
  REQUIRE(process.has_value());
  REQUIRE(::kill(process->pid(), SIGKILL) == 0);
  REQUIRE(::waitpid(process->pid(), nullptr, 0) == process->pid());
  const auto result = process->let_run();
  REQUIRE_FALSE(result.has_value());
  CHECK(result.error().code == Errc::kIo);
}

TEST_CASE("a missing program is an error before anything is started") {
  const auto child =
      ForegroundProcess::start({"no-such-program"}, Env::of_process(), "", OnSignal::kTermOnly);
  REQUIRE_FALSE(child.has_value());
  CHECK(child.error().code == Errc::kNotFound);
  const TemporaryDirectory folder;
  CHECK_FALSE(
      DetachedProcess::start({"/no/such/program"}, Env::of_process(), folder.path(), folder / "log")
          .has_value());
}

namespace {

/// Returns this process's environment with DLRUN_TOKEN, as `dlrun run` sets it for a local job.
Env environment_with(const char* token) {
  Env env = Env::of_process();
  env.set("DLRUN_TOKEN", token);
  return env;
}

JobId local_job(const ForegroundProcess& child) {
  return {std::string(kLocalCluster), local_job_id(child.pid()).value()};
}

/// Waits until the child has called exec(). Before that, /proc shows this process's environment as
/// the child's. The child's environment must have DLRUN_TOKEN, and this process's must not. Fails
/// the test if the child has ended.
void wait_for_program(const ForegroundProcess& child) {
  const auto file = "/proc/" + std::to_string(child.pid()) + "/environ";
  std::string text;
  while (text.find("DLRUN_TOKEN=") == std::string::npos) {
    REQUIRE(process_start_ticks(child.pid()).has_value());
    std::this_thread::yield();
    std::ifstream stream(file);
    text.assign(std::istreambuf_iterator<char>(stream), {});
  }
}

}  // namespace

TEST_CASE(
    "a local job is the process with the recorded pid and start time, not a later process with the "
    "same pid") {
  auto child = ForegroundProcess::start({"sleep", "60"}, environment_with("a1"), "",
                                        OnSignal::kTermThenKill);
  REQUIRE(child.has_value());
  const JobId job = local_job(*child);
  const auto local = make_local(Env::of_process());
  const JobId with_other_start_time{std::string(kLocalCluster), job.id + "1"};
  CHECK(local->query({{job}}, {})->reports.size() == 1);
  CHECK(local->query({{with_other_start_time}}, {})->reports.empty());
  CHECK(local->cancel(with_other_start_time, "a1").error().code == Errc::kNotFound);
  CHECK(process_start_ticks(child->pid()).has_value());
  child->let_run();
  wait_for_program(*child);
  CHECK(local->cancel(job, "a1").has_value());
  CHECK(child->wait()->signal == SIGTERM);
}

TEST_CASE(
    "a process without the run's token is not signalled, even if host, pid and start time match") {
  auto child = ForegroundProcess::start({"sleep", "60"}, environment_with("a1"), "",
                                        OnSignal::kTermThenKill);
  REQUIRE(child.has_value());
  const JobId job = local_job(*child);
  const auto local = make_local(Env::of_process());
  child->let_run();
  wait_for_program(*child);
  for (const char* token : {"", "a", "a11", "b2"}) {
    const auto refused = local->cancel(job, token);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == Errc::kNotFound);
    CHECK(refused.error().message.find("left alone") != std::string::npos);
  }
  CHECK(process_start_ticks(child->pid()).has_value());
  CHECK(local->cancel(job, "a1").has_value());
  CHECK(child->wait()->signal == SIGTERM);
}

TEST_CASE("a local job of another host is not looked up among this host's processes") {
  const auto local = make_local(Env::of_process());
  const JobId elsewhere{std::string(kLocalCluster),
                        "some-other-host:" + std::to_string(::getpid()) + ":1"};
  CHECK(local->query({{elsewhere}}, {})->reports.empty());
  const auto refused = local->cancel(elsewhere, "a1");
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message.find("some-other-host") != std::string::npos);
}
