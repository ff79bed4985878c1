// A loop of 200 ms: it prints new bytes of the log, and it inspects the run when its record has
// an end or the back-off says so. After the run's end it waits until the log has been quiet for
// 600 ms.

#include "cli/watch.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "cli/backoff.h"
#include "cli/terminal/log_output.h"
#include "cli/terminal/print.h"
#include "common/files.h"
#include "common/text.h"
#include "common/untrusted_file.h"
#include "launcher/runs/log_file.h"

namespace dlrun {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kTick{200};
/// The time without new bytes after the run's end until the log counts as complete.
constexpr milliseconds kQuiet{600};

/// Chooses the log to print and prints its new bytes.
class LogPrinter {
 public:
  LogPrinter(const Cli& cli, const IndexEntry& run, const WatchOptions& options)
      : run_(run), options_(options), output_(options.is_raw, cli.colour_out) {}

  /// Prints the new bytes. Returns true if there were any.
  Result<bool> print(const RunFacts& facts) {
    if (!options_.print_log) return false;
    if (auto path = choose(facts); path && (!reader_ || reader_->path() != *path)) {
      const bool is_first = !reader_;
      if (reader_) {
        if (auto rest = drain(); !rest) return rest;
        output_.finish();
      }
      reader_.emplace(std::move(*path), facts);
      if (is_first && options_.tail) reader_->start_at_tail(*options_.tail);
    }
    return drain();
  }

 private:
  std::optional<std::filesystem::path> choose(const RunFacts& facts) const {
    if (!options_.rank) return job_log(run_.path, facts);
    if (options_.attempt) return rank_log(run_.path, *options_.attempt, *options_.rank);
    const auto text = read_untrusted(run_.path / "attempt", 64, Links::kRefuse);
    return rank_log(run_.path, text ? parse_int(trim(*text)).value_or(0) : 0, *options_.rank);
  }

  Result<bool> drain() {
    if (!reader_) return false;
    bool any = false;
    for (;;) {
      const auto bytes = reader_->read_more();
      if (!bytes) return tl::unexpected(bytes.error());
      if (bytes->empty()) break;
      any = true;
      if (!output_.print(*bytes)) return fail(Errc::kIo, "");  // reported at exit
    }
    if (any && !flush_output()) return fail(Errc::kIo, "");
    return any;
  }

  const IndexEntry& run_;
  const WatchOptions& options_;
  LogOutput output_;
  std::optional<LogReader> reader_;
};

/// Detects that events.jsonl has grown, without reading it.
class EventsStamp {
 public:
  explicit EventsStamp(std::filesystem::path file) : file_(std::move(file)) {}
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

}  // namespace

Result<RunStatus> watch_run(const Cli& cli, RunInspector& inspector, const IndexEntry& run,
                            const WatchOptions& options, const Interrupt& interrupt) {
  LogPrinter log(cli, run, options);
  EventsStamp events(run.path / "events.jsonl");
  Backoff backoff;
  std::optional<RunStatus> status;
  std::string told;
  Clock::time_point told_at;
  Clock::time_point quiet_since = Clock::now();
  bool is_over = false;
  for (;;) {
    if (interrupt.requested()) return fail(Errc::kInterrupted, "");
    if (!is_over && (backoff.is_due() || (events.has_changed() && has_end(run.path)))) {
      auto now = inspector.inspect(run.path, backoff.max_age());
      if (!now) return now;
      backoff.asked();
      status = std::move(*now);
      is_over = is_final(status->state) && !status->is_last_known;
      if (is_over) quiet_since = Clock::now();
      // Why the run waits, printed each time it changes.
      std::string news;
      if (status->is_last_known) {
        news = fmt::format("controller unreachable; still following ({})", status->detail);
      } else if (status->state == RunState::kPending && !status->detail.empty()) {
        news = "pending: " + status->detail;
      }
      const bool is_due = options.remind && Clock::now() - told_at >= *options.remind;
      if (!news.empty() && (news != told || is_due)) {
        print_note(cli, fmt::format("{}: {}", printable(run.id), printable(news)));
        told_at = Clock::now();
      }
      told = news;
    }
    const auto printed = log.print(status ? status->facts : RunFacts{});
    if (!printed) return tl::unexpected(printed.error());
    if (*printed) quiet_since = Clock::now();
    if (is_over && (!options.print_log || Clock::now() - quiet_since >= kQuiet)) return *status;
    interrupt.sleep(kTick);
  }
}

}  // namespace dlrun
