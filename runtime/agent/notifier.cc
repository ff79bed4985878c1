#include "runtime/agent/notifier.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/curl_process.h"
#include "common/json_read.h"
#include "common/text.h"
#include "runtime/agent/exit_codes.h"
#include "runtime/agent/program_start.h"
#include "runtime/agent/secrets.h"
#include "runtime/agent/surroundings.h"

namespace dlrun::agent {
namespace {

/// The kernel writes at most this number of bytes to a pipe at once or not at all (PIPE_BUF).
constexpr std::size_t kLongestPipeLine = 4096;
constexpr std::size_t kLongestSentence = 1000, kShortSentence = 150;

std::string progress_text(const events::Progress& progress) {
  std::vector<std::string> parts;
  const auto position = [&](std::string_view name, const std::optional<std::int64_t>& at,
                            const std::optional<std::int64_t>& of) {
    if (at)
      parts.push_back(fmt::format("{} {}", name, *at) + (of ? fmt::format(" of {}", *of) : ""));
  };
  position("step", progress.step, progress.steps);
  position("epoch", progress.epoch, progress.epochs);
  if (const auto loss = value_of(progress.loss)) parts.push_back(fmt::format("loss {:.4g}", *loss));
  if (const auto accuracy = value_of(progress.accuracy))
    parts.push_back(fmt::format("accuracy {:.4g}", *accuracy));
  return join(parts, ", ");
}

/// Returns the name of the run that `dlrun status` takes: the run's id, or the point of a sweep.
std::string run_name(const std::filesystem::path& run) {
  const auto folder = run.parent_path().filename().string();
  if (!folder.starts_with("array-")) return run.filename().string();
  // Only in the first array the number of a point is that of its folder.
  if (folder != "array-0") return run.string();
  return fmt::format("{}/{}", run.parent_path().parent_path().filename().string(),
                     run.filename().string());
}

}  // namespace

NoticeMaker::NoticeMaker(std::vector<std::string> occasions, const JobIdentity& identity,
                         std::string run)
    : occasions_(std::move(occasions)),
      run_(std::move(run)),
      job_(identity.job),
      cluster_(identity.cluster) {}

bool NoticeMaker::wants(std::string_view occasion) const {
  return std::find(occasions_.begin(), occasions_.end(), occasion) != occasions_.end();
}

std::optional<Notice> NoticeMaker::make(std::string_view occasion, std::string message,
                                        int attempt) const {
  if (!wants(occasion)) return std::nullopt;
  Notice notice;
  notice.occasion = occasion;
  notice.run = run_;
  notice.job = job_;
  notice.cluster = cluster_;
  notice.attempt = attempt;
  notice.message = cut_text(message, kLongestSentence);
  notice.progress = progress_;
  if (failed_ && occasion != "completed") {
    if (failed_->rank >= 0) notice.rank = failed_->rank;
    notice.node = failed_->host;
  }
  return notice;
}

std::optional<Notice> NoticeMaker::of(const events::Restarting& restarting, int attempt) const {
  auto message = fmt::format("cause: {}; {}; {} {} left", restarting.cause.text(),
                             restarting.by == RestartedBy::kSlurm ? "Slurm queues the job again"
                                                                  : "another attempt starts",
                             restarting.left, restarting.left == 1 ? "restart is" : "restarts are");
  return make(has_hung_ && wants("hang") ? "hang" : "restarted", std::move(message), attempt);
}

std::optional<Notice> NoticeMaker::of(const events::Ended& ended, int attempt) const {
  if (ended.state == EndState::kCompleted) return make("completed", ended.message, attempt);
  if (ended.state == EndState::kCancelled) return make("cancelled", ended.message, attempt);
  return make(has_hung_ && wants("hang") ? "hang" : "failed", ended.message, attempt);
}

std::optional<Notice> NoticeMaker::note(const RunEvent& event, int attempt) {
  if (const auto* progress = std::get_if<events::Progress>(&event)) {
    progress_ = progress_text(*progress);
  } else if (std::holds_alternative<events::Started>(event)) {
    failed_.reset();
    has_hung_ = false;
  } else if (const auto* joined = std::get_if<events::Joined>(&event)) {
    if (attempt > 0) return std::nullopt;
    return make("started", fmt::format("{} ranks run on {}", joined->ranks, joined->hosts),
                attempt);
  } else if (const auto* failed = std::get_if<events::RankFailed>(&event)) {
    if (!failed_) failed_ = *failed;
  } else if (const auto* end = std::get_if<events::AttemptEnd>(&event)) {
    has_hung_ = end->reason == EndReason::kHang;
    if (!failed_) failed_ = end->first_failed;
  } else if (const auto* restarting = std::get_if<events::Restarting>(&event)) {
    return of(*restarting, attempt);
  } else if (const auto* ended = std::get_if<events::Ended>(&event)) {
    return of(*ended, attempt);
  }
  return std::nullopt;
}

void Notifier::on_event(const RunEvent& event, int attempt) {
  auto notice = maker_.note(event, attempt);
  if (!notice || !pipe_.is_open()) return;
  notice->time = utc_timestamp(std::chrono::system_clock::now());
  auto line = json_read::dump(notice->to_json()) + "\n";
  if (line.size() > kLongestPipeLine) {
    notice->message = cut_text(notice->message, kShortSentence);
    notice->node = cut_text(notice->node, kShortSentence);
    line = json_read::dump(notice->to_json()) + "\n";
  }
  const bool is_short = line.size() <= kLongestPipeLine;
  if (!is_short || ::write(pipe_.get(), line.data(), line.size()) < 0) ++lost_;
}

std::optional<std::string> Notifier::finish() {
  if (!pipe_.is_open()) return std::nullopt;
  pipe_.reset();
  if (!ends_within(helper_, kFinishLimit)) {
    return fmt::format(
        "notify: a notice is still being sent after {} s; `dlrun notify` lists those that wait",
        std::chrono::duration_cast<std::chrono::seconds>(kFinishLimit).count());
  }
  if (lost_ == 0) return std::nullopt;
  return fmt::format("notify: {} could not be passed to the process that sends them",
                     lost_ == 1 ? "a notice" : fmt::format("{} notices", lost_));
}

Result<std::unique_ptr<Notifier>> start_notifier(const LeadOptions& options, const Env& env,
                                                 const JobIdentity& identity,
                                                 const ClaimedRun& run) {
  const NotifyOptions& notify = options.notify;
  if (notify.on.empty() || (notify.webhook.empty() && notify.command.empty())) return nullptr;
  nlohmann::ordered_json targets{{"command", notify.command}};
  if (!notify.webhook.empty()) {
    Env secrets = env;
    DLRUN_TRY(add_secrets(secrets, {notify.webhook}, run.directory));
    const auto address = secrets.get_or(notify.webhook, "");
    if (const auto why = why_not_address(address); !why.empty())
      return fail(Errc::kInvalid, "the value of {} cannot be a webhook: {}", notify.webhook, why);
    targets["webhook"] = address;
  }
  const auto line = json_read::dump(targets) + "\n";
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail(Errc::kIo, "pipe: {}", errno_text(errno));
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  const pid_t helper = ::fork();
  if (helper < 0) return fail(Errc::kIo, "fork: {}", errno_text(errno));
  if (helper == 0) {
    const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    ::dup2(read_end.get(), STDIN_FILENO);
    ::dup2(null.get(), STDOUT_FILENO);
    if (!options.never_started) std::ignore = record_surroundings(run.directory, run.attempt, env);
    std::ignore =
        become_program({"/proc/self/exe", "notify", "--run", run.directory.string()}, env);
    ::_exit(kExitInternal);
  }
  // The helper may read slowly or hang. Lead must not wait for it.
  ::fcntl(write_end.get(), F_SETFL, O_NONBLOCK);
  // The pipe is empty and holds 64 KiB, so it takes the line at once.
  DLRUN_TRY(write_all(write_end.get(), line));
  return std::make_unique<Notifier>(NoticeMaker(notify.on, identity, run_name(run.directory)),
                                    std::move(write_end), helper);
}

}  // namespace dlrun::agent
