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

/// Owns the log of this process. Open it after the last fork() that is not followed by exec().
class AgentLog {
 public:
  /// Opens the log if DLRUN_LOG asks for one: in the file that DLRUN_LOG names, else in
  /// run/debug/`file_name`. program: the start of each line, such as "rank 3". If the log cannot be
  /// opened, prints the reason on standard error and stays off: a run does not end because of it.
  AgentLog(const Env& env, const std::filesystem::path& run, std::string program,
           std::string_view file_name);
  AgentLog(const AgentLog&) = delete;
  AgentLog& operator=(const AgentLog&) = delete;
  /// Turns the log off, after flush().
  ~AgentLog();

  /// Waits until all lines are written, for at most a second.
  void flush() const;

 private:
  [[nodiscard]] Result<> open(const Env& env, const std::filesystem::path& run, std::string program,
                              std::string_view file_name);

  /// nullptr: the log is off, or goes to standard error. The log's writer owns the file, too.
  std::shared_ptr<BackgroundFile> file_;
};

/// Returns the name of a rank's log, "rank-0003.log".
[[nodiscard]] std::string rank_log_name(int rank);

}  // namespace dlrun::agent
