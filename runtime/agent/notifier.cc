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
#include "common/mlflow.h"
#include "common/text.h"
#include "runtime/agent/component_options.h"
#include "runtime/agent/exit_codes.h"
#include "runtime/agent/metrics_follower.h"
#include "runtime/agent/program_start.h"
#include "runtime/agent/progress_recorder.h"
#include "runtime/agent/progress_values.h"
#include "runtime/agent/secrets.h"
#include "runtime/agent/surroundings.h"

namespace dlrun::agent {
namespace {

/// A line of at most this number of bytes is written to a pipe whole or not at all (PIPE_BUF).
constexpr std::size_t kPipeLineLimitBytes = 4096;
constexpr std::size_t kNoticeTextLimitBytes = 1000, kShortNoticeTextLimitBytes = 150;

std::string progress_text(const events::Progress& progress) {
  std::vector<std::string> parts;
  const auto add_position = [&](std::string_view name, const std::optional<std::int64_t>& at,
                                const std::optional<std::int64_t>& of) {
    if (at)
      parts.push_back(fmt::format("{} {}", name, *at) + (of ? fmt::format(" of {}", *of) : ""));
  };
  add_position("step", progress.step, progress.steps);
  add_position("epoch", progress.epoch, progress.epochs);
  if (const auto loss = events::value_of(progress.loss))
    parts.push_back(fmt::format("loss {:.4g}", *loss));
  if (const auto accuracy = events::value_of(progress.accuracy))
    parts.push_back(fmt::format("accuracy {:.4g}", *accuracy));
  return join(parts, ", ");
}

std::int64_t milliseconds_of(std::chrono::system_clock::time_point time) {
  return std::chrono::floor<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

/// Adds the values of the secrets to `targets`, which becomes the first line that lead sends to the
/// helper process. Fails if a secret cannot be read, or if the webhook's secret is not a valid
/// address.
Result<> add_secret_targets(nlohmann::ordered_json& targets, const LeadOptions& options,
                            const Env& env, const std::filesystem::path& run) {
  Env secrets = env;
  const auto value_of_secret = [&](const std::string& name) -> Result<std::string> {
    DLRUN_TRY(add_secrets(secrets, {name}, run));
    return secrets.get_or(name, "");
  };
  if (!options.notify.webhook.empty()) {
    DLRUN_TRY_ASSIGN(const std::string address, value_of_secret(options.notify.webhook));
    if (const auto why = address_problem(address); !why.empty())
      return fail(Errc::kInvalid, "the value of {} cannot be a webhook: {}", options.notify.webhook,
                  why);
    targets["webhook"] = address;
  }
  if (!options.mlflow.secret.empty()) {
    DLRUN_TRY_ASSIGN(const std::string token, value_of_secret(options.mlflow.secret));
    targets["token"] = token;
  }
  return {};
}

/// Returns the text that `dlrun status` accepts as RUN for this run: the run's id, SWEEP/POINT for
/// a point of a sweep, or else the path of the run's folder.
std::string run_name(const std::filesystem::path& run) {
  const auto array = run.parent_path().filename().string();
  if (!array.starts_with("array-")) return run.filename().string();
  // In a later array of the sweep, the name of a run's folder is not the number of its point.
  if (array != "array-0") return run.string();
  return fmt::format("{}/{}", run.parent_path().parent_path().filename().string(),
                     run.filename().string());
}

}  // namespace

NoticeMaker::NoticeMaker(std::vector<std::string> occasions, const JobIdentity& identity,
                         std::string run, std::string first_main)
    : occasions_(std::move(occasions)),
      run_(std::move(run)),
      job_(identity.job),
      cluster_(identity.cluster),
      first_main_(std::move(first_main)) {}

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
  notice.message = cut_text(message, kNoticeTextLimitBytes);
  notice.progress = progress_;
  if (first_failure_ && occasion != "completed") {
    if (first_failure_->rank >= 0) notice.rank = first_failure_->rank;
    notice.node = first_failure_->host;
    notice.component = first_failure_component_;
  }
  return notice;
}

std::optional<Notice> NoticeMaker::of(const events::Restarting& restarting, int attempt) const {
  auto message =
      fmt::format("cause: {}; {}; {} {} left", restarting.cause.text(),
                  restarting.by == RestartedBy::kSlurm   ? "Slurm queues the job again"
                  : restarting.by == RestartedBy::kChain ? "the next job of the chain continues"
                                                         : "another attempt starts",
                  restarting.left, restarting.left == 1 ? "restart is" : "restarts are");
  return make(has_hung_ && wants("hang") ? "hang" : "restarted", std::move(message), attempt);
}

std::optional<Notice> NoticeMaker::of(const events::Ended& ended, int attempt) const {
  if (ended.state == EndState::kCompleted) return make("completed", ended.message, attempt);
  if (ended.state == EndState::kCancelled) return make("cancelled", ended.message, attempt);
  return make(has_hung_ && wants("hang") ? "hang" : "failed", ended.message, attempt);
}

std::optional<Notice> NoticeMaker::on_event(const RunEvent& event, int attempt,
                                            const std::string& component) {
  const bool is_about_run = component.empty();
  if (const auto* progress = std::get_if<events::Progress>(&event)) {
    if (component == first_main_) progress_ = progress_text(*progress);
  } else if (std::holds_alternative<events::Components>(event) ||
             (is_about_run && std::holds_alternative<events::Started>(event))) {
    first_failure_.reset();
    first_failure_component_.clear();
    has_hung_ = false;
  } else if (const auto* joined = std::get_if<events::Joined>(&event)) {
    if (attempt > 0 || component != first_main_) return std::nullopt;
    return make("started",
                fmt::format("{}{} ranks run on {}",
                            is_about_run ? "" : fmt::format("component {}: ", component),
                            joined->ranks, joined->hosts),
                attempt);
  } else if (const auto* failed = std::get_if<events::RankFailed>(&event)) {
    // The failed rank of a component is not kept here, because a service may start again after a
    // failure. If the failure ended the job, AttemptEnd contains the rank.
    if (!first_failure_ && is_about_run) first_failure_ = *failed;
  } else if (const auto* end = std::get_if<events::AttemptEnd>(&event)) {
    has_hung_ = end->reason == EndReason::kHang;
    if (!first_failure_ && end->first_failed) {
      first_failure_ = end->first_failed;
      first_failure_component_ = component;
    }
  } else if (const auto* restarting = std::get_if<events::Restarting>(&event)) {
    return of(*restarting, attempt);
  } else if (const auto* ended = std::get_if<events::Ended>(&event)) {
    return of(*ended, attempt);
  }
  return std::nullopt;
}

void Notifier::pass_line(const std::string& line) {
  const bool is_short = line.size() <= kPipeLineLimitBytes;
  if (!is_short || ::write(pipe_.get(), line.data(), line.size()) < 0) ++lost_count_;
}

void Notifier::on_event(const RunEvent& event, int attempt, const std::string& component) {
  if (!pipe_.is_open()) return;
  const auto now = std::chrono::system_clock::now();
  const auto* ended = std::get_if<events::Ended>(&event);
  if (has_mlflow_ && ended != nullptr) {
    const auto state = ended->state.value().value_or(EndState::kFailed);
    pass_line(json_read::dump(mlflow_end_line(state, milliseconds_of(now))) + "\n");
  }
  auto notice = maker_.on_event(event, attempt, component);
  if (!notice) return;
  notice->time = utc_timestamp(now);
  auto line = json_read::dump(notice->to_json()) + "\n";
  if (line.size() > kPipeLineLimitBytes) {
    notice->message = cut_text(notice->message, kShortNoticeTextLimitBytes);
    notice->node = cut_text(notice->node, kShortNoticeTextLimitBytes);
    line = json_read::dump(notice->to_json()) + "\n";
  }
  pass_line(line);
}

void Notifier::on_report(const Json& report, std::chrono::system_clock::time_point wall,
                         std::chrono::steady_clock::time_point now) {
  if (!has_mlflow_ || !pipe_.is_open()) return;
  const auto scalars = scalars_of(report);
  const bool is_final = ProgressRecorder::is_result(report);
  // A final report may have no step of its own. Its values then belong to the last reported step,
  // even if the report of that step was left out (ReportPace).
  if (const auto position = step_or_epoch_of(report)) step_ = *position;
  if (scalars.empty() || !pace_.admit(is_final, now)) return;
  // A name has at most 64 characters, so a line with this number of values fits into a pipe.
  constexpr std::size_t kValuesPerLine = 40;
  for (std::size_t first = 0; first < scalars.size(); first += kValuesPerLine) {
    nlohmann::ordered_json values = nlohmann::ordered_json::object();
    for (std::size_t i = first; i < std::min(first + kValuesPerLine, scalars.size()); ++i)
      values[scalars[i].tag] = scalars[i].value;
    nlohmann::ordered_json line{
        {"t", milliseconds_of(wall)}, {"step", step_}, {"m", std::move(values)}};
    if (is_final) line["final"] = true;
    pass_line(json_read::dump(line) + "\n");
  }
}

std::optional<std::string> Notifier::finish() {
  if (!pipe_.is_open()) return std::nullopt;
  pipe_.reset();
  if (!reap_within(helper_, kFinishLimit)) {
    return fmt::format(
        "the last messages of the run (notify, track) are still being sent after {} s; `dlrun "
        "notify` and `dlrun track sync` send those that are left",
        std::chrono::duration_cast<std::chrono::seconds>(kFinishLimit).count());
  }
  if (lost_count_ == 0) return std::nullopt;
  return fmt::format(
      "notify, track: {} of the run's messages were lost, because the process that "
      "sends them did not take them",
      lost_count_);
}

Result<std::unique_ptr<Notifier>> start_notifier(const LeadOptions& options, const Env& env,
                                                 const JobIdentity& identity,
                                                 const ClaimedRun& run) {
  const NotifyOptions& notify = options.notify;
  const bool has_notices =
      !notify.on.empty() && !(notify.webhook.empty() && notify.command.empty());
  const bool has_mlflow = !options.mlflow.url.empty();
  if (!has_notices && !has_mlflow) return nullptr;
  const auto name = run_name(run.directory);
  nlohmann::ordered_json targets{{"command", notify.command}};
  DLRUN_TRY(add_secret_targets(targets, options, env, run.directory));
  if (has_mlflow) {
    targets["mlflow"] =
        MlflowRun{
            .url = options.mlflow.url,
            .experiment = options.mlflow.experiment.empty() ? "dlrun" : options.mlflow.experiment,
            .secret_name = options.mlflow.secret,
            .run = name,
            .job = identity.job,
            .cluster = identity.cluster,
            .start_ms = milliseconds_of(std::chrono::system_clock::now())}
            .to_json();
    const auto& command = options.components.empty()
                              ? options.command
                              : first_main_component(options.components).srun_arguments;
    if (program_writes_metrics(options.program_is_bundled, command)) targets["has_metrics"] = true;
  }
  const auto line = json_read::dump(targets) + "\n";
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail(Errc::kIo, "pipe: {}", errno_text(errno));
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  const pid_t helper = ::fork();
  if (helper < 0) return fail(Errc::kIo, "fork: {}", errno_text(errno));
  if (helper == 0) {
    // The process that start_recording_surroundings() starts would inherit this end, and keep the
    // pipe open after lead has closed it.
    write_end.reset();
    const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    ::dup2(read_end.get(), STDIN_FILENO);
    ::dup2(null.get(), STDOUT_FILENO);
    if (!options.failed_script_code)
      std::ignore = start_recording_surroundings(run.directory, run.attempt, env);
    std::ignore =
        become_program({"/proc/self/exe", "notify", "--run", run.directory.string()}, env);
    ::_exit(kExitInternal);
  }
  // The helper may read slowly or hang. Lead must not wait for it.
  ::fcntl(write_end.get(), F_SETFL, O_NONBLOCK);
  // The pipe is empty and holds 64 KiB, so it takes the whole line without blocking.
  DLRUN_TRY(write_all(write_end.get(), line));
  const std::string first_main =
      options.components.empty() ? std::string() : first_main_component(options.components).name;
  return std::make_unique<Notifier>(NoticeMaker(notify.on, identity, name, first_main), has_mlflow,
                                    std::move(write_end), helper);
}

}  // namespace dlrun::agent
