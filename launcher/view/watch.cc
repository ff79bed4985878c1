// A loop with a period of 200 ms passes on new bytes of the log. The loop inspects the run at
// growing intervals, and immediately when the run's record says that the run has ended. After the
// run's end, the loop continues until no new bytes of the log have come for 600 ms.

#include "launcher/view/watch.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "common/text.h"
#include "common/untrusted_file.h"
#include "launcher/executors/backoff.h"
#include "launcher/runs/log_file.h"
#include "launcher/runs/ownership.h"
#include "launcher/runs/sweep_record.h"
#include "launcher/view/line_labels.h"
#include "launcher/view/run_log.h"
#include "launcher/view/run_text.h"

namespace dlrun {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// The shortest time between two reports about a running sweep.
constexpr std::chrono::seconds kSweepNewsEvery{10};
constexpr milliseconds kTick{200};  ///< the period of the loop
/// The time without new bytes after the run's end until the log counts as complete.
constexpr milliseconds kQuiet{600};

/// Chooses one log and passes on its new bytes.
class LogFollower {
 public:
  /// rank: nullopt means the job's log.
  LogFollower(const IndexEntry& run, const WatchOptions& options, std::optional<std::int64_t> rank,
              WatchListener& listener)
      : run_(run),
        options_(options),
        rank_(rank),
        listener_(listener),
        labeler_(rank && options.ranks.size() > 1 ? label_of_rank(*rank) : "") {}

  /// Passes on the new bytes. Returns true if there were any.
  Result<bool> follow(const RunFacts& facts) {
    if (!options_.passes_log) return false;
    if (auto path = choose(facts); path && (!reader_ || reader_->path() != *path)) {
      const bool is_first = !reader_;
      if (reader_) {
        if (auto rest = drain(); !rest) return rest;
        if (auto last = pass(labeler_.finish()); !last) return tl::unexpected(last.error());
        listener_.on_next_log();
      }
      reader_.emplace(std::move(*path), facts);
      if (is_first && options_.tail) reader_->start_at_tail(*options_.tail);
    }
    return drain();
  }
  /// Passes on an incomplete last line.
  Result<> finish() { return pass(labeler_.finish()); }

 private:
  Result<> pass(std::string_view bytes) {
    if (!bytes.empty() && !listener_.on_log(bytes)) return fail(Errc::kIo, "");
    return {};
  }
  std::optional<std::filesystem::path> choose(const RunFacts& facts) const {
    if (!rank_) return job_log(run_.path, facts);
    const auto log_of = [&](std::int64_t attempt) {
      return rank_log(run_.path, attempt, *rank_, options_.component);
    };
    if (options_.attempt) return log_of(*options_.attempt);
    const auto text = read_untrusted(run_.path / "attempt", 64, Links::kRefuse);
    return log_of(text ? parse_int(trim(*text)).value_or(0) : 0);
  }

  Result<bool> drain() {
    if (!reader_) return false;
    bool any = false;
    for (;;) {
      DLRUN_TRY_ASSIGN(const auto bytes, reader_->read_more());
      if (bytes.empty()) break;
      any = true;
      if (auto passed = pass(labeler_.label_lines(bytes)); !passed)
        return tl::unexpected(passed.error());
    }
    if (any && !listener_.on_log_batch_end()) return fail(Errc::kIo, "");
    return any;
  }

  const IndexEntry& run_;
  const WatchOptions& options_;
  std::optional<std::int64_t> rank_;
  WatchListener& listener_;
  LineLabeler labeler_;
  std::optional<LogReader> reader_;
};

/// Detects that the size of a file has changed, without reading the file.
class FileSizeWatch {
 public:
  explicit FileSizeWatch(std::filesystem::path file) : file_(std::move(file)) {}
  /// Returns true if the size of the file has changed since the last call.
  bool has_changed() {
    struct stat info {};
    if (::stat(file_.c_str(), &info) != 0 || info.st_size == size_) return false;
    size_ = info.st_size;
    return true;
  }

 private:
  std::filesystem::path file_;
  off_t size_ = -1;
};

/// Reports to the listener why the run waits, on which nodes it runs, how many points of a sweep
/// have ended, or why the controller cannot be reached: each time the text changes. Reports again
/// after `remind_every` if the run waits or the controller cannot be reached.
class NewsReporter {
 public:
  NewsReporter(const IndexEntry& run, std::optional<std::chrono::seconds> remind_every,
               WatchListener& listener)
      : run_(run), remind_every_(remind_every), listener_(listener) {}

  void report(const RunStatus& status) {
    std::string news;
    if (status.may_be_outdated) {
      news = fmt::format("controller unreachable; still following ({})", status.detail);
    } else if (status.state == RunState::kPending && !status.detail.empty()) {
      news = "pending: " + status.detail;
    }
    const bool needs_reminder = !news.empty();
    if (news.empty() && status.state == RunState::kRunning) {
      // The counts of a large sweep may change at every query.
      if (status.sweep && Clock::now() - sweep_reported_at_ < kSweepNewsEvery) return;
      if (status.sweep) {
        news = status.detail;
        sweep_reported_at_ = Clock::now();
      }
      if (const auto nodes = nodes_of(status.facts); !status.sweep && !nodes.empty())
        news = "running on " + nodes;
    }
    const bool is_reminder_due =
        needs_reminder && remind_every_ && Clock::now() - reported_at_ >= *remind_every_;
    if (!news.empty() && (news != reported_ || is_reminder_due)) {
      listener_.on_news(run_, news);
      reported_at_ = Clock::now();
    }
    reported_ = std::move(news);
  }

 private:
  const IndexEntry& run_;
  std::optional<std::chrono::seconds> remind_every_;
  WatchListener& listener_;
  std::string reported_;
  Clock::time_point reported_at_, sweep_reported_at_;
};

}  // namespace

Result<RunStatus> watch_run(RunInspector& inspector, const IndexEntry& run,
                            const WatchOptions& options, WatchListener& listener,
                            const Interrupt& interrupt) {
  std::vector<LogFollower> logs;
  for (const std::int64_t rank : options.ranks) logs.emplace_back(run, options, rank, listener);
  if (logs.empty()) logs.emplace_back(run, options, std::nullopt, listener);
  FileSizeWatch events_size(run.path / "events.jsonl");
  NewsReporter news(run, options.remind_every, listener);
  Backoff backoff;
  std::optional<RunStatus> status;
  Clock::time_point quiet_since = Clock::now();
  bool is_inactive_now = false;
  for (;;) {
    if (interrupt.requested()) return fail(Errc::kInterrupted, "");
    if (!is_inactive_now &&
        (backoff.is_due() || (events_size.has_changed() && has_end(run.path)))) {
      auto now = inspector.inspect(run.path, backoff.max_age());
      if (!now) return now;
      backoff.record_attempt();
      status = std::move(*now);
      is_inactive_now = is_inactive(status->state) && !status->may_be_outdated;
      if (is_inactive_now) quiet_since = Clock::now();
      news.report(*status);
    }
    for (LogFollower& log : logs) {
      DLRUN_TRY_ASSIGN(const auto any, log.follow(status ? status->facts : RunFacts{}));
      if (any) quiet_since = Clock::now();
    }
    if (is_inactive_now && (!options.passes_log || Clock::now() - quiet_since >= kQuiet)) {
      for (LogFollower& log : logs) DLRUN_TRY(log.finish());
      return *status;
    }
    interrupt.sleep(kTick);
  }
}

Result<> check_can_wait_for(const IndexEntry& run) {
  const auto owner = foreign_owner(run.path);
  if (!owner) return {};
  DLRUN_TRY_ASSIGN(const auto runs, single_runs_of(run));  // a sweep's points, or the run
  const bool has_ended = std::all_of(runs.begin(), runs.end(), [](const IndexEntry& one) {
    return read_events(one.path).value_or(RunRecord{}).ended;
  });
  if (has_ended) return {};
  return fail(Errc::kUsage,
              "{}: belongs to user {}, and its files do not say that it has ended; dlrun waits "
              "only for your own runs",
              printable(run.id), printable(owner->name));
}

}  // namespace dlrun
