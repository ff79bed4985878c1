#include "runtime/agent/send_helper.h"

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/json_read.h"
#include "common/mlflow.h"
#include "common/notice_queue.h"
#include "common/text.h"
#include "common/untrusted_file.h"
#include "runtime/agent/metrics_copy.h"
#include "runtime/agent/program_start.h"

namespace dlrun::agent {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kInputLineLimitBytes = 64U << 10U;
/// Time after the end of the input in which the helper may still begin to send a notice or values.
constexpr std::chrono::seconds kLastStartLimit{4};
constexpr std::chrono::milliseconds kChildrenLimit{3000};
/// Pause between two requests with values, so that one request has several values.
constexpr std::chrono::seconds kSyncEvery{5};

/// Reads lines from standard input. Drops the beginning of a line that is too long. The rest of the
/// line is not a JSON object, so the caller ignores it.
class InputLines {
 public:
  /// Returns the next line; nullopt at the end of the input.
  std::optional<std::string> next() {
    for (;;) {
      if (const auto end = text_.find('\n'); end != std::string::npos) {
        auto line = text_.substr(0, end);
        text_.erase(0, end + 1);
        return line;
      }
      if (text_.size() > kInputLineLimitBytes) text_.clear();
      std::array<char, 4096> buffer;
      const auto got = ::read(STDIN_FILENO, buffer.data(), buffer.size());
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return std::nullopt;
      text_.append(buffer.data(), static_cast<std::size_t>(got));
    }
  }

 private:
  std::string text_;
};

/// The values of the first line of the input.
struct HelperTargets {
  NoticeTargets notices{};
  std::optional<MlflowRun> mlflow{};
  std::string token{};       ///< for the MLflow server
  bool has_metrics = false;  ///< the program writes its values to metrics.jsonl
};

/// Sends notices and the record for MLflow on a thread of its own, so that new notices and values
/// reach the run's folder while an endpoint hangs.
class HelperSender {
 public:
  HelperSender(const std::filesystem::path& run, const HelperTargets& targets, const Env& env,
               const std::function<void(std::string_view)>& say)
      : queue_(run), record_(run), targets_(targets), env_(env), say_(say), thread_([this] {
          run_thread();
        }) {}
  ~HelperSender() {
    {
      const std::lock_guard lock(mutex_);
      start_until_ = Clock::now() + kLastStartLimit;
    }
    changed_.notify_one();
    thread_.join();
  }
  HelperSender(const HelperSender&) = delete;
  HelperSender& operator=(const HelperSender&) = delete;

  void on_notice() { wake(has_notices_); }
  void on_values() { wake(has_values_); }

 private:
  void wake(bool& flag) {
    {
      const std::lock_guard lock(mutex_);
      flag = true;
    }
    changed_.notify_one();
  }
  [[nodiscard]] bool may_start() {
    const std::lock_guard lock(mutex_);
    return !start_until_ || Clock::now() < *start_until_;
  }
  /// Returns true if the thread has something to do. The caller holds the mutex.
  [[nodiscard]] bool is_due() const {
    return has_notices_ || start_until_ || (has_values_ && Clock::now() >= next_sync_);
  }

  void run_thread() {
    std::unique_lock lock(mutex_);
    for (;;) {
      while (!is_due()) {
        if (has_values_) {
          changed_.wait_until(lock, next_sync_);
        } else {
          changed_.wait(lock);
        }
      }
      if (!has_notices_ && !has_values_) return;
      const bool sends_notices = std::exchange(has_notices_, false);
      // Notices go first, because people wait for them.
      if (!sends_notices) has_values_ = false;
      lock.unlock();
      sends_notices ? send_notices() : send_values();
      lock.lock();
      if (!sends_notices) next_sync_ = Clock::now() + kSyncEvery;
    }
  }

  void send_notices() {
    const auto report =
        queue_.send(env_, SendBy::kWebhooksAndCommands, [this] { return may_start(); });
    tell("notify", report.problem,
         report.waiting > 0 ? "; the notice waits in the run's folder, and dlrun on a login node "
                              "sends it (dlrun notify --relay)"
                            : "");
  }
  void send_values() {
    const auto report = record_.sync(env_, targets_.token, [this] { return may_start(); });
    tell("track.mlflow", report.problem, "; `dlrun track sync RUN` sends the rest after the run");
  }
  /// Tells the user about a problem, once.
  void tell(std::string_view key, const std::string& problem, std::string_view then) {
    if (!problem.empty() && reported_problems_.insert(problem).second)
      say_(fmt::format("{}: {}{}", key, problem, then));
  }

  const NoticeQueue queue_;
  const MlflowRecord record_;
  const HelperTargets& targets_;
  const Env& env_;
  const std::function<void(std::string_view)>& say_;
  std::set<std::string> reported_problems_;  // used only by the thread
  std::mutex mutex_;                         // guards all members below, except the thread
  std::condition_variable changed_;
  bool has_notices_ = false, has_values_ = false;
  Clock::time_point next_sync_{};
  std::optional<Clock::time_point> start_until_;  // limit of may_start(), once the input has ended
  std::thread thread_;                            // last, because it uses all other members
};

HelperTargets targets_of(const nlohmann::ordered_json& object) {
  HelperTargets targets;
  targets.notices.webhook = json_read::text(object, "webhook");
  targets.token = json_read::text(object, "token");
  if (const auto mlflow = object.find("mlflow"); mlflow != object.end() && mlflow->is_object())
    targets.mlflow = MlflowRun::of_json(*mlflow);
  targets.has_metrics = json_read::boolean(object, "has_metrics");
  const auto words = object.find("command");
  if (words == object.end() || !words->is_array()) return targets;
  for (const auto& word : *words) {
    if (word.is_string()) targets.notices.command.push_back(word.get<std::string>());
  }
  return targets;
}

/// Waits at most kChildrenLimit for the children of this process. The only child is the process
/// that writes surroundings.json: notifier.cc started it in this process before the exec().
void wait_for_children() {
  const auto until = Clock::now() + kChildrenLimit;
  for (;;) {
    const pid_t ended = ::waitpid(-1, nullptr, WNOHANG);
    if (ended < 0 || (ended == 0 && Clock::now() >= until)) return;
    if (ended == 0) ::poll(nullptr, 0, 5);
  }
}

/// Puts the notice in lead's message into the queue. If the notice is about a rank, adds the last
/// lines that this rank printed.
void queue_notice(const std::filesystem::path& run, const nlohmann::ordered_json& message,
                  const NoticeTargets& targets, const std::function<void(std::string_view)>& say) {
  auto notice = Notice::of_json(message);
  if (notice.rank) {
    notice.last_words = last_lines_of_rank(run, notice.attempt, notice.component, *notice.rank);
  }
  if (const auto kept = NoticeQueue(run).put(notice, targets); !kept)
    say(fmt::format("notify: the notice is lost: {}", kept.error().message));
}

}  // namespace

std::vector<std::string> last_lines_of_rank(const std::filesystem::path& run, std::int64_t attempt,
                                            std::string_view component, std::int64_t rank) {
  constexpr std::size_t kLines = 3, kBytes = 4096, kWidth = 200;
  const auto path = run / "logs" / fmt::format("attempt-{}", attempt) / component /
                    fmt::format("rank-{:04}.log", rank);
  const auto file = open_untrusted(path, Links::kRefuse);
  struct stat info {};
  if (!file || ::fstat(file->get(), &info) != 0) return {};
  std::string text(static_cast<std::size_t>(std::min<off_t>(info.st_size, kBytes)), '\0');
  const auto got = ::pread(file->get(), text.data(), text.size(),
                           info.st_size - static_cast<off_t>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  std::vector<std::string> lines;
  for (const auto line : split(text, '\n')) {
    if (!trim(line).empty() && !line.starts_with("dlrun: "))
      lines.push_back(printable(cut_text(line, kWidth)));
  }
  if (lines.size() > kLines) lines.erase(lines.begin(), lines.end() - kLines);
  return lines;
}

int run_send_helper(const SendHelperOptions& options, const Env& env,
                    const std::function<void(std::string_view)>& say) {
  // Slurm and a terminal send their signals to all processes of the job. Lead ends this process by
  // closing its input.
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2}) ::signal(number, SIG_IGN);
  ignore_write_signals();
  InputLines input;
  const auto first = input.next();
  const auto object = first ? json_read::object_of(*first) : std::nullopt;
  if (object) {
    const auto targets = targets_of(*object);
    const MlflowRecord record(options.run);
    const auto created = targets.mlflow ? record.create(*targets.mlflow) : Result<>();
    if (!created) say("track.mlflow: " + created.error().message);
    std::optional<MetricsCopier> metrics;
    if (targets.mlflow && targets.has_metrics) metrics.emplace(options.run);
    std::set<std::string> told;
    const auto tell_once = [&](const Result<>& kept) {
      if (!kept && told.insert(kept.error().message).second)
        say("track.mlflow: " + kept.error().message);
    };
    HelperSender sender(options.run, targets, env, say);
    while (const auto line = input.next()) {
      const auto message = json_read::object_of(*line);
      if (!message) continue;
      if (message->contains("event")) {
        queue_notice(options.run, *message, targets.notices, say);
        sender.on_notice();
      } else if (created) {
        tell_once(add_to_mlflow_record(record, *message, metrics ? &*metrics : nullptr));
        sender.on_values();
      }
    }
    // Lead's message about the end of the run makes add_to_mlflow_record() copy the rest of
    // metrics.jsonl. A killed lead sends no such message, so the rest is also copied here.
    if (created && metrics) {
      tell_once(metrics->copy_new_lines(record));
      sender.on_values();
    }
  }
  wait_for_children();
  return 0;
}

}  // namespace dlrun::agent
