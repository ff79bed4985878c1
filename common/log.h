#pragma once
// The log of dlrun, dlrun-agent and dlrun-trainer. Its lines are about commands, HTTP requests,
// waits for locks, files that are read, and decisions of lead.
//
// People read the log to find the cause of a problem. The log is off by default; a call then costs
// one comparison. Results, errors and warnings on stdout and stderr do not use the log.
//
// A process has one log. The state of the log is global, because low-level functions such as
// run_command() also write to the log. All functions may be called from any thread. Only log.cc
// includes spdlog.

#include <atomic>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "common/env.h"
#include "common/result.h"

namespace dlrun {

enum class LogLevel {
  kOff,
  kInfo,   ///< commands, requests, waits for locks, decisions
  kDebug,  ///< also the files that are read, the programs that are started, and details
};

/// The level and the file of a log.
struct LogSetting {
  LogLevel level = LogLevel::kOff;
  /// Empty: standard error. If DLRUN_LOG has no file, prepare_job_log() sets a file of the run.
  std::string file{};
};

/// Parses the value of DLRUN_LOG: a level ("off", "info" or "debug"), or a level, a colon and a
/// file, as in "debug:/tmp/dlrun.log". An empty text means "off". Fails with kUsage otherwise.
[[nodiscard]] Result<LogSetting> parse_log_setting(std::string_view text);

/// Returns the log's setting for a program of a job: the level and the file of DLRUN_LOG. If
/// DLRUN_LOG has a level other than off but no file, sets the file run/debug/`file_name` and makes
/// the folder run/debug. run: the run's directory; if it is empty, sets no file, and the log goes
/// to standard error. Fails as parse_log_setting() does, and with kIo if the folder cannot be made.
[[nodiscard]] Result<LogSetting> prepare_job_log(const Env& env, const std::filesystem::path& run,
                                                 std::string_view file_name);

/// Returns the name of the file in run/debug to which a process of a rank logs: "trainer-0003.log",
/// or "server-trainer-0003.log" in a component. component: empty if the job has one program. A
/// component with characters other than letters, digits, '-' and '_' counts as empty, because it
/// may come from an environment variable.
[[nodiscard]] std::string rank_debug_log_name(std::string_view component, std::string_view program,
                                              int rank);

/// Returns the name of a level as DLRUN_LOG spells it.
[[nodiscard]] std::string_view word_of(LogLevel level);

/// Writes one whole line, which ends in a newline.
using LogWriter = std::function<void(std::string line)>;

/// Opens the log of this process. Each line contains `program` ("dlrun", "lead", "rank 3"). Without
/// a file the lines go to standard error. Appends to the file, or creates the file with mode 0600.
/// Each line is one write, so several processes may use one file. Hides the value of each variable
/// of `env` if is_secret_name() accepts the variable's name. Does not hide values of less than four
/// bytes, because they may be parts of other words. Fails with kIo, or with kInvalid if the file is
/// a symbolic link or not a regular file, belongs to another user, or is open to other users. Does
/// nothing if the level is kOff.
[[nodiscard]] Result<> open_log(std::string program, const LogSetting& setting, const Env& env);

/// Opens the log like open_log(), but passes the lines to `write`. Any thread may call `write`.
void open_log_to(std::string program, LogLevel level, const Env& env, LogWriter write);

/// Turns the log off for the rest of the process. A child after fork() calls this if the log's
/// writer needs a thread of the parent.
void close_log();

/// Replaces this value by *** in all later lines. Does nothing for an empty value, or while the log
/// is off.
void hide_in_log(std::string_view secret);

/// Returns a command line for the log, with *** in place of secrets: all values of --env and
/// --export, and the values of options, variables and headers whose names is_secret_name() accepts.
[[nodiscard]] std::vector<std::string> mask_arguments(std::span<const std::string> argv);

/// Returns the text with *** in place of the user, the password and the query of each URL. A query
/// can be a signature that grants access.
[[nodiscard]] std::string mask_urls(std::string_view text);

/// A named value of a line, `name=value`. Holds a view of the value, which must live until the call
/// returns.
struct LogField {
  std::string_view name;
  std::variant<std::string_view, std::span<const std::string>, std::int64_t, double, bool> value;

  LogField(std::string_view field, std::string_view text) : name(field), value(text) {}
  LogField(std::string_view field, const char* text) : LogField(field, std::string_view(text)) {}
  LogField(std::string_view field, const std::string& text)
      : LogField(field, std::string_view(text)) {}
  LogField(std::string_view field, const std::filesystem::path& path)
      : LogField(field, std::string_view(path.native())) {}
  /// argv: a command line; see mask_arguments().
  LogField(std::string_view field, const std::vector<std::string>& argv)
      : name(field), value(std::span<const std::string>(argv)) {}
  LogField(std::string_view field, bool is_true) : name(field), value(is_true) {}
  template <std::integral Number>
  requires(!std::same_as<Number, bool>) LogField(std::string_view field, Number number)
      : name(field), value(static_cast<std::int64_t>(number)) {}
  LogField(std::string_view field, double number) : name(field), value(number) {}
  /// A duration is shown in seconds.
  template <typename Rep, typename Period>
  LogField(std::string_view field, std::chrono::duration<Rep, Period> time)
      : LogField(field, std::chrono::duration<double>(time).count()) {}
};

namespace log_detail {
extern std::atomic<LogLevel> level;
void write_line(LogLevel line_level, std::string_view message, std::span<const LogField> fields);
}  // namespace log_detail

[[nodiscard]] inline bool is_logged(LogLevel level) {
  return level <= log_detail::level.load(std::memory_order_relaxed);
}

/// Logs a fixed message of dlrun with fields. Values are escaped, so that a message never takes
/// several lines, and secrets in values are masked. A field with an empty text is left out.
inline void log_line(LogLevel level, std::string_view message,
                     std::initializer_list<LogField> fields = {}) {
  if (is_logged(level)) log_detail::write_line(level, message, {fields.begin(), fields.size()});
}
inline void log_info(std::string_view message, std::initializer_list<LogField> fields = {}) {
  log_line(LogLevel::kInfo, message, fields);
}
inline void log_debug(std::string_view message, std::initializer_list<LogField> fields = {}) {
  log_line(LogLevel::kDebug, message, fields);
}

/// Logs like log_line(), for a number of fields that is known only at run time.
inline void log_fields(LogLevel level, std::string_view message, std::span<const LogField> fields) {
  if (is_logged(level)) log_detail::write_line(level, message, fields);
}

/// Logs the wait for a lock: one line when the wait starts, and one line when the wait ends. If a
/// process hangs, its log thus shows the file of the lock.
class LockWaitLog {
 public:
  explicit LockWaitLog(std::filesystem::path file) : file_(std::move(file)) {}
  LockWaitLog(const LockWaitLog&) = delete;
  LockWaitLog& operator=(const LockWaitLog&) = delete;
  /// Logs the end of the wait, if there was one.
  ~LockWaitLog();
  /// Logs that the wait starts. Call begin() when another process holds the lock. Later calls do
  /// nothing.
  void begin();

 private:
  std::filesystem::path file_;
  std::optional<std::chrono::steady_clock::time_point> since_;
};

}  // namespace dlrun
