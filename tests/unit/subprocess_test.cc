#include "common/subprocess.h"

#include <atomic>
#include <csignal>
#include <filesystem>
#include <thread>

#include <doctest/doctest.h>

namespace dlrun {
namespace {

Command shell(std::string script) {
  Command command;
  command.argv = {"sh", "-c", std::move(script)};
  command.env = Env::of_process();
  return command;
}

}  // namespace

TEST_CASE("a program is found in the first folder of PATH that contains it") {
  Env env;
  // The PATH is longer than the small-string buffer, so that the address sanitizer notices reads of
  // freed memory.
  env.set("PATH", "/usr/share/some/folder/that/is/not/there:/usr/bin:/bin");
  CHECK(find_program("sh", env) == "/usr/bin/sh");
  env.set("PATH", "/bin:/usr/share/some/folder/that/is/not/there:/usr/bin");
  CHECK(find_program("sh", env) == "/bin/sh");
  CHECK_FALSE(find_program("no-such-program", env).has_value());
}

TEST_CASE(
    "a program's relative path becomes absolute, so that it means the same file in any working "
    "directory") {
  const auto relative = std::filesystem::relative("/bin/sh").string();
  REQUIRE(relative.find('/') != std::string::npos);
  const auto found = find_program(relative, {});
  REQUIRE(found);
  CHECK(found->starts_with('/'));
  auto command = shell("pwd");
  command.argv.front() = relative;
  command.directory = "/usr";
  const auto finished = run_command(command);
  REQUIRE(finished);
  CHECK(finished->out == "/usr\n");
}

TEST_CASE("the outputs, exit code and signal of a command are returned") {
  const auto finished = run_command(shell("echo out; echo err >&2; exit 3"));
  REQUIRE(finished.has_value());
  CHECK(finished->out == "out\n");
  CHECK(finished->err == "err\n");
  CHECK(finished->exit_code == 3);
  const auto killed = run_command(shell("kill -9 $$"));
  REQUIRE(killed.has_value());
  CHECK(killed->signal == SIGKILL);
  CHECK(killed->exit_code == 137);
}

TEST_CASE("arguments reach the program unchanged, without a shell") {
  Command command;
  command.argv = {"printf", "%s|", "a b", "$HOME", ""};
  command.env = Env::of_process();
  CHECK(run_command(command)->out == "a b|$HOME||");
}

TEST_CASE("a large input and a large output do not block each other") {
  Command command;
  command.argv = {"cat"};
  command.env = Env::of_process();
  command.stdin_text = std::string(4U << 20U, 'x');
  CHECK(run_command(command)->out == command.stdin_text);
}

TEST_CASE(
    "run_command() sends one SIGTERM to an interrupted command, and waits until the command ends") {
  Command command =
      shell("trap 'echo told; exit 7' TERM; echo started; while :; do sleep 0.05; done");
  int call_count = 0;
  // The first call is before the program's first line has arrived, the second call after it.
  command.is_interrupted = [&call_count] { return ++call_count > 1; };
  const auto finished = run_command(command);
  REQUIRE(finished.has_value());
  CHECK(finished->out == "started\ntold\n");
  CHECK(finished->exit_code == 7);
}

TEST_CASE("a command gets exactly the given environment") {
  Command command;
  command.argv = {"/usr/bin/env"};
  command.env.set("ONLY", "this");
  CHECK(run_command(command)->out == "ONLY=this\n");
}

TEST_CASE("a program that does not exist or is not executable is an error") {
  Command command;
  command.argv = {"no-such-program-here"};
  CHECK(run_command(command).error().code == Errc::kNotFound);
  command.argv = {"/etc/passwd"};
  const auto refused = run_command(command);
  CHECK(refused.error().code == Errc::kNotFound);
  CHECK(refused.error().message == "/etc/passwd: is not an executable file");
}

TEST_CASE("the error for a missing working directory is about the directory, not the program") {
  Command command;
  command.argv = {"true"};
  command.directory = "/no/such/folder";
  CHECK(run_command(command).error().message ==
        "/no/such/folder, where true is to run: No such file or directory (ENOENT)");
}

TEST_CASE("a command is killed after its time limit") {
  Command command = shell("exec sleep 100");
  command.timeout = std::chrono::milliseconds(100);
  CHECK(run_command(command).error().code == Errc::kTimeout);
}

TEST_CASE("a command's output above its limit is an error") {
  Command command = shell("yes");
  command.output_limit_bytes = 1000;
  CHECK(run_command(command).error().code == Errc::kInvalid);
}

TEST_CASE(
    "a command that does not read its input is no error, and the handling of SIGPIPE stays "
    "unchanged") {
  const auto handler = [] {
    struct sigaction action {};
    REQUIRE(::sigaction(SIGPIPE, nullptr, &action) == 0);
    return action.sa_handler;
  };
  const auto before = handler();
  std::atomic<bool> is_done = false;
  std::thread runner([&] {
    Command command = shell("exec 0<&-; sleep 0.3");
    command.stdin_text = std::string(1U << 20U, 'x');
    CHECK(run_command(command).has_value());
    is_done = true;
  });
  // The handler belongs to the whole process, so this thread would see a change.
  int change_count = 0;
  while (!is_done) change_count += handler() == before ? 0 : 1;
  runner.join();
  CHECK(change_count == 0);
}

TEST_CASE("signal_name() returns the name of a signal, or its number if it has no name") {
  CHECK(signal_name(SIGKILL) == "SIGKILL");
  CHECK(signal_name(SIGRTMIN + 2) == "SIGRTMIN+2");
  CHECK(signal_name(99) == "signal 99");
}

}  // namespace dlrun
