#include "runtime/agent/agent_log.h"

#include <unistd.h>

#include <chrono>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "common/files.h"
#include "common/log.h"
#include "runtime/agent/background_file.h"

namespace dlrun::agent {
namespace {

constexpr std::size_t kLogQueueLimitBytes = 4U << 20U;
constexpr std::chrono::milliseconds kFlushLimit{1000};

}  // namespace

AgentLog::AgentLog(const Env& env, const std::filesystem::path& run, std::string program,
                   std::string_view file_name) {
  const auto opened = open(env, run, program, file_name);
  if (opened) return;
  std::ignore = write_all(STDERR_FILENO, fmt::format("dlrun: {}: {}; no log is written\n", program,
                                                     opened.error().message));
}

Result<> AgentLog::open(const Env& env, const std::filesystem::path& run, std::string program,
                        std::string_view file_name) {
  DLRUN_TRY_ASSIGN(const auto setting, prepare_job_log(env, run, file_name));
  if (setting.level == LogLevel::kOff || setting.file.empty())
    return open_log(std::move(program), setting, env);
  // Other processes may append to the same file: the autopsy of this rank, and all processes of the
  // run if DLRUN_LOG contains a file.
  auto file =
      BackgroundFile::open(setting.file, kLogQueueLimitBytes, BackgroundFile::Content::kSharedText);
  if (!file) return tl::unexpected(file.error());
  file_ = std::move(*file);
  // A BackgroundFile is not thread-safe, and not only the event loop's thread logs: other threads
  // log the commands that they run.
  const auto one_at_a_time = std::make_shared<std::mutex>();
  open_log_to(std::move(program), setting.level, env,
              [file = file_, one_at_a_time](std::string line) {
                const std::lock_guard lock(*one_at_a_time);
                file->push_or_drop(std::move(line));
              });
  return {};
}

AgentLog::~AgentLog() {
  flush();
  close_log();
}

void AgentLog::flush() const {
  if (file_) std::ignore = file_->drain(kFlushLimit);
}

}  // namespace dlrun::agent
