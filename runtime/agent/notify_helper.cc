#include "runtime/agent/notify_helper.h"

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
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "common/json_read.h"
#include "common/notice_queue.h"
#include "common/text.h"
#include "common/untrusted_file.h"
#include "runtime/agent/program_start.h"

namespace dlrun::agent {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kLongestLine = 64U << 10U;
/// Time after the end of the input in which the helper still starts to send a notice.
constexpr std::chrono::seconds kLastStartLimit{4};
constexpr std::chrono::milliseconds kChildrenLimit{3000};

/// Reads lines from standard input. Skips lines that are too long.
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
      if (text_.size() > kLongestLine) text_.clear();
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

/// Sends the queue's notices on a thread of its own, so that new notices reach the queue while an
/// endpoint hangs.
class QueueSender {
 public:
  QueueSender(const NoticeQueue& queue, const Env& env,
              const std::function<void(std::string_view)>& say)
      : queue_(queue), env_(env), say_(say), thread_([this] { run(); }) {}
  ~QueueSender() {
    {
      const std::lock_guard lock(mutex_);
      last_start_ = Clock::now() + kLastStartLimit;
    }
    changed_.notify_one();
    thread_.join();
  }
  QueueSender(const QueueSender&) = delete;
  QueueSender& operator=(const QueueSender&) = delete;

  void wake() {
    {
      const std::lock_guard lock(mutex_);
      has_new_ = true;
    }
    changed_.notify_one();
  }

 private:
  [[nodiscard]] bool may_start() {
    const std::lock_guard lock(mutex_);
    return !last_start_ || Clock::now() < *last_start_;
  }

  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return has_new_ || last_start_; });
      if (!has_new_) return;
      has_new_ = false;
      lock.unlock();
      const auto report = queue_.send(env_, [this] { return may_start(); });
      if (!report.problem.empty() && told_.insert(report.problem).second) {
        say_(fmt::format("notify: {}{}", report.problem,
                         report.waiting > 0 ? "; the notice waits in the run's folder, and dlrun "
                                              "on a login node sends it (dlrun notify --relay)"
                                            : ""));
      }
      lock.lock();
    }
  }

  const NoticeQueue& queue_;
  const Env& env_;
  const std::function<void(std::string_view)>& say_;
  std::set<std::string> told_;  // used by the thread alone
  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_new_ = false;                         // guarded by mutex_
  std::optional<Clock::time_point> last_start_;  // guarded by mutex_; set: the input has ended
  std::thread thread_;                           // last, because it uses all other members
};

NoticeTargets targets_of(const nlohmann::ordered_json& object) {
  NoticeTargets targets;
  targets.webhook = json_read::text(object, "webhook");
  const auto words = object.find("command");
  if (words == object.end() || !words->is_array()) return targets;
  for (const auto& word : *words) {
    if (word.is_string()) targets.command.push_back(word.get<std::string>());
  }
  return targets;
}

/// Waits for the process that writes surroundings.json.
void wait_for_children() {
  const auto until = Clock::now() + kChildrenLimit;
  for (;;) {
    const pid_t ended = ::waitpid(-1, nullptr, WNOHANG);
    if (ended < 0 || (ended == 0 && Clock::now() >= until)) return;
    if (ended == 0) ::poll(nullptr, 0, 5);
  }
}

}  // namespace

std::vector<std::string> last_lines_of_rank(const std::filesystem::path& run, std::int64_t attempt,
                                            std::int64_t rank) {
  constexpr std::size_t kLines = 3, kBytes = 4096, kWidth = 200;
  const auto path =
      run / "logs" / fmt::format("attempt-{}", attempt) / fmt::format("rank-{:04}.log", rank);
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

int run_notify_helper(const NotifyHelperOptions& options, const Env& env,
                      const std::function<void(std::string_view)>& say) {
  // Slurm and a terminal send their signals to the whole job. Lead ends this process by closing its
  // input.
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) ::signal(number, SIG_IGN);
  ignore_write_signals();
  InputLines input;
  const auto first = input.next();
  const auto object = first ? json_read::object_of(*first) : std::nullopt;
  if (object) {
    const auto targets = targets_of(*object);
    const NoticeQueue queue(options.run);
    QueueSender sender(queue, env, say);
    while (const auto line = input.next()) {
      const auto notice_object = json_read::object_of(*line);
      if (!notice_object) continue;
      auto notice = Notice::of_json(*notice_object);
      if (notice.rank)
        notice.last_words = last_lines_of_rank(options.run, notice.attempt, *notice.rank);
      if (const auto kept = queue.put(notice, targets); !kept)
        say(fmt::format("notify: the notice is lost: {}", kept.error().message));
      sender.wake();
    }
  }
  wait_for_children();
  return 0;
}

}  // namespace dlrun::agent
