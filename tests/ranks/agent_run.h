#pragma once
// Runs the real dlrun-agent on this machine: lead with --local, its ranks, and shell commands as
// their programs.

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "common/env.h"
#include "common/files.h"
#include "common/json_lines.h"
#include "common/text.h"

namespace dlrun::agent {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;
using std::chrono::milliseconds;
using std::chrono::seconds;

inline const std::string kAgent = DLRUN_AGENT;

/// Waits until the condition holds, at most `limit`. Returns the condition's last value.
inline bool comes_true(const std::function<bool()>& condition, milliseconds limit = seconds(20)) {
  for (const auto until = Clock::now() + limit; Clock::now() < until;) {
    if (condition()) return true;
    ::usleep(5'000);
  }
  return condition();
}

/// Returns the processes with DLRUN_RUN=`run` in their environment: lead and its descendants.
inline std::vector<pid_t> processes_of(const fs::path& run) {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const auto pid = parse_int(entry.path().filename().string());
    if (!pid) continue;
    const auto environment = read_file(entry.path() / "environ", 1U << 20U);
    if (environment && environment->find("DLRUN_RUN=" + run.string() + '\0') != std::string::npos) {
      found.push_back(static_cast<pid_t>(*pid));
    }
  }
  return found;
}

/// A run whose lead runs in the background. The destructor ends lead and all processes of the run,
/// and removes `test_folder`.
class Run {
 public:
  /// Holds the run directory, lead's output and other files of the test.
  fs::path test_folder = fs::temp_directory_path() / ("dlrun-ranks-" + random_hex(6));
  fs::path directory = test_folder / "run";  ///< the run directory
  std::string agent = kAgent;                ///< the dlrun-agent to run, or a wrapper of it
  std::vector<std::string> prefix{};         ///< the command in front of lead, such as strace
  /// Runs in lead's process, for example to set limits or to ignore signals.
  std::function<void()> before_exec{};

  Run() { fs::create_directories(directory); }
  ~Run() {
    if (lead_ > 0) {
      ::kill(lead_, SIGTERM);
      std::ignore = wait();
    }
    for (const auto pid : processes_of(directory)) ::kill(pid, SIGKILL);
    std::error_code ignored;
    fs::remove_all(test_folder, ignored);
  }

  /// Starts: lead --local RANKS OPTIONS -- dlrun-agent rank RANK_OPTIONS -- bash -c SCRIPT
  void start(int ranks, const std::string& script, const std::vector<std::string>& options = {},
             const std::vector<std::string>& rank_options = {}) {
    start_program(ranks, {"bash", "-c", script}, options, rank_options);
  }

  /// Starts lead like start(), but with any program instead of bash -c SCRIPT.
  void start_program(int ranks, const std::vector<std::string>& program,
                     const std::vector<std::string>& options = {},
                     const std::vector<std::string>& rank_options = {}) {
    auto argv = prefix;
    argv.insert(argv.end(), {agent, "lead", "--local", std::to_string(ranks)});
    argv.insert(argv.end(), options.begin(), options.end());
    argv.insert(argv.end(), {"--", agent, "rank"});
    argv.insert(argv.end(), rank_options.begin(), rank_options.end());
    argv.emplace_back("--");
    argv.insert(argv.end(), program.begin(), program.end());
    launch(argv);
  }

  /// Starts this command line of lead in the background, in a process group of its own. Sets
  /// DLRUN_RUN.
  void launch(const std::vector<std::string>& argv) {
    auto lead_env = env;
    lead_env.set("DLRUN_RUN", directory.string());
    const auto entries = lead_env.entries();
    std::vector<char*> words;
    for (const auto& word : argv) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    std::vector<char*> variables;
    for (const auto& entry : entries) variables.push_back(const_cast<char*>(entry.c_str()));
    variables.push_back(nullptr);
    const auto out = (test_folder / "out").string();
    const auto err = (test_folder / "err").string();
    lead_ = ::fork();
    REQUIRE(lead_ >= 0);
    if (lead_ == 0) {
      ::setpgid(0, 0);
      if (before_exec) before_exec();
      ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), 1);
      ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), 2);
      ::execvpe(words[0], words.data(), variables.data());
      ::_exit(99);
    }
  }

  [[nodiscard]] pid_t lead_pid() const { return lead_; }
  void signal(int number) const { ::kill(lead_, number); }
  /// Signals lead's process group, as a terminal does.
  void signal_group(int number) const { ::kill(-lead_, number); }

  /// Waits until lead ends. Returns lead's exit code, or 128 + the signal that ended lead. If lead
  /// does not end within 60 s, kills lead and fails the test.
  int wait() {
    int status = 0;
    const bool has_ended =
        comes_true([&] { return ::waitpid(lead_, &status, WNOHANG) == lead_; }, seconds(60));
    if (!has_ended) ::kill(lead_, SIGKILL);
    REQUIRE(has_ended);
    lead_ = -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

  /// Returns lead's standard output.
  [[nodiscard]] std::string out() const {
    return read_file(test_folder / "out", 1U << 28U).value_or("");
  }
  /// Returns lead's standard error.
  [[nodiscard]] std::string err() const {
    return read_file(test_folder / "err", 1U << 28U).value_or("");
  }
  /// Returns the content of this file in the run directory; "" if the file is missing.
  [[nodiscard]] std::string content_of(const std::string& name) const {
    return read_file(directory / name, 1U << 28U).value_or("");
  }
  /// Returns the run's events, or only those of one kind.
  [[nodiscard]] std::vector<Json> events(const std::string& kind = "") const {
    std::vector<Json> found;
    for (const auto& event : parse_checked_lines(content_of("events.jsonl")).objects) {
      if (kind.empty() || event["event"] == kind) found.push_back(event);
    }
    return found;
  }
  /// Returns the pid of a rank's program. Waits for the program to write it to RUN/pid-RANK
  /// (kReportPid); fails the test after 20 s.
  [[nodiscard]] pid_t pid_of_program(int rank) const {
    pid_t pid = 0;
    REQUIRE(comes_true([&] {
      pid = static_cast<pid_t>(
          parse_int(trim(content_of("pid-" + std::to_string(rank)))).value_or(0));
      return pid > 0;
    }));
    return pid;
  }
  /// Waits until the programs of ranks 0 to `ranks` - 1 have written their pids (kReportPid).
  void wait_for_programs(int ranks) const {
    for (int rank = 0; rank < ranks; ++rank) std::ignore = pid_of_program(rank);
  }

  Env env = Env::of_process();

 private:
  pid_t lead_ = -1;
};

/// Returns the parent's pid; 0 if the process has ended.
inline pid_t parent_of(pid_t pid) {
  const auto status = read_file("/proc/" + std::to_string(pid) + "/status", 1U << 16U).value_or("");
  const auto at = status.find("PPid:\t");
  return at == std::string::npos
             ? 0
             : static_cast<pid_t>(std::strtol(status.c_str() + at + 6, nullptr, 10));
}

// Pieces of the shell script of a rank's program.

// Writes the program's pid to RUN/pid-RANK. mv puts the complete file in place atomically.
inline const std::string kReportPid =
    "printf $$ > $DLRUN_RUN/.pid-$DLRUN_RANK; mv $DLRUN_RUN/.pid-$DLRUN_RANK "
    "$DLRUN_RUN/pid-$DLRUN_RANK; ";
inline const std::string kForever = "while :; do sleep 0.2; done";
// A program that reports its pid and ignores TERM. It starts a child in a new session that ignores
// TERM, too.
inline const std::string kForeverIgnoringTerm =
    "trap '' TERM; setsid bash -c 'trap \"\" TERM; " + kForever + "' & " + kReportPid + kForever;

}  // namespace dlrun::agent
