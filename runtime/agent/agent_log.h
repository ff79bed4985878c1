#pragma once
// The log of lead or of a rank's agent, in RUN/debug. A separate thread writes it, so that a
// stalled file system blocks neither heartbeats nor decisions.

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "common/env.h"
#include "common/result.h"

namespace dlrun::agent {

class BackgroundFile;

/// Owns the log of this process. Create it after the last fork() without exec(): the child of such
/// a fork has no writer thread.
class AgentLog {
 public:
  /// Opens the log if DLRUN_LOG enables it: the file in DLRUN_LOG (only if the job itself sets one:
  /// submit and run pass on the level alone), else run/debug/`file_name`, else (without a run)
  /// standard error. program: the name that each line shows, such as "rank 3". If DLRUN_LOG has a
  /// wrong value, or the log cannot be opened, prints the reason on standard error and continues
  /// without a log.
  AgentLog(const Env& env, const std::filesystem::path& run, std::string program,
           std::string_view file_name);
  AgentLog(const AgentLog&) = delete;
  AgentLog& operator=(const AgentLog&) = delete;
  /// Calls flush() and closes the log.
  ~AgentLog();

  /// Waits at most one second until all lines are written.
  void flush() const;

 private:
  [[nodiscard]] Result<> open(const Env& env, const std::filesystem::path& run, std::string program,
                              std::string_view file_name);

  /// nullptr: the log is off, or goes to standard error. The function that writes the log's lines
  /// shares the ownership.
  std::shared_ptr<BackgroundFile> file_;
};

}  // namespace dlrun::agent
