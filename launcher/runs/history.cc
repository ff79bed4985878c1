// read_more() reads the file in chunks and add() parses whole lines. To bound the time, add()
// parses only some of the frequent events (progress and samples) of a file above a few MiB. To
// bound the memory, long curves lose points.
#include "launcher/runs/history.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <utility>
#include <variant>

#include "common/files.h"
#include "common/json_lines.h"
#include "common/json_read.h"
#include "common/run_events.h"
#include "common/text.h"
#include "common/units.h"
#include "common/untrusted_file.h"
#include "launcher/runs/status.h"

namespace dlrun {
namespace {

constexpr std::size_t kPointsLimit = 16'384;
constexpr std::size_t kEventsLimit = 2000;
constexpr std::size_t kEventsRemoved = 1000;  ///< the number of events that are removed at a time
constexpr std::size_t kReadBytes = 8U << 20U;
/// If a record or the metrics are larger, only some points of the curves are parsed.
constexpr std::size_t kFullyParsedBytes = 4U << 20U;
/// At least this many events of the frequent kinds are all parsed at the start of a record, because
/// a program may report some values only there.
constexpr std::size_t kFrequentParsedFirst = 64;
constexpr std::size_t kSlowRanksLimit = 4096;
constexpr std::size_t kAttemptsLimit = 4096;
constexpr std::size_t kLongestHistoryText = 4096;
/// A program's pace is measured over about this time before its last report.
constexpr double kPaceSeconds = 60;

/// If there are too many points, drops every second one, but never the last one. The curve keeps
/// its shape.
template <typename Point>
void thin_if_full(std::vector<Point>& points) {
  if (points.size() < kPointsLimit) return;
  std::size_t kept = 0;
  for (std::size_t at = 0; at + 1 < points.size(); at += 2) points[kept++] = std::move(points[at]);
  points[kept++] = std::move(points.back());
  points.resize(kept);
}

/// Returns the spread of a measured amount. Returns nullopt if a value is negative or not finite,
/// and so was not measured.
template <typename Value>
std::optional<Spread> spread(const std::optional<events::Spread<Value>>& reported) {
  if (!reported) return std::nullopt;
  const Spread values{static_cast<double>(reported->least), static_cast<double>(reported->mean),
                      static_cast<double>(reported->most)};
  for (const double value : {values.least, values.mean, values.most}) {
    if (value < 0 || !std::isfinite(value)) return std::nullopt;
  }
  return values;
}

SamplesPoint samples_of(const events::RankStatistics& event, double t, std::int64_t attempt) {
  return {.t = t,
          .attempt = attempt,
          .ranks = event.ranks,
          .slow_rank_count = event.slow_rank_count,
          .cpu = spread(event.cpu),
          .rss_bytes = spread(event.rss_bytes),
          .gpu = spread(event.gpu),
          .gpu_used_bytes = spread(event.gpu_used_bytes),
          .step = spread(event.step),
          .work_ms = spread(event.work_ms),
          .gpu_watts = event.gpu_watts};
}

std::string seconds_text(double seconds) {
  return seconds < 1000 ? fmt::format("{:.3g} s", seconds) : fmt::format("{:.0f} s", seconds);
}

std::string short_text(std::string text) {
  if (text.size() > kLongestHistoryText) text = text.substr(0, kLongestHistoryText) + "...";
  return text;
}

/// Returns text such as "1 rank" or "3 ranks".
std::string count_text(std::int64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string with_rank(std::string text, std::optional<std::int64_t> rank, const std::string& host) {
  if (!rank) return text;
  return text + fmt::format(" (rank {}{})", *rank, host.empty() ? "" : " on " + host);
}

// event_text() describes an event as text. Any user may have written the event's fields.

std::string event_text(const events::Claimed& claimed) {
  return fmt::format("job {} on {}{}", claimed.job, claimed.host,
                     claimed.was_claimed_before ? ", which continues the run" : "");
}
std::string event_text(const events::Components& components) {
  std::vector<std::string> names;
  for (const auto& one : components.components)
    names.push_back(fmt::format("{} ({})", one.name, one.role.text()));
  return join(names, ", ");
}
std::string event_text(const events::ComponentReady& ready) {
  return fmt::format("after {}, at {}", seconds_text(ready.seconds), ready.addr);
}
std::string event_text(const events::ComponentRestart& restart) {
  return fmt::format("after code {}; {} left", restart.code, count_text(restart.left, "restart"));
}
std::string event_text(const events::Started& started) {
  return started.ranks > 0 ? count_text(started.ranks, "rank") : "the step";
}
std::string event_text(const events::Joined& joined) {
  return fmt::format("{} on {} within {}", count_text(joined.ranks, "rank"), joined.hosts,
                     seconds_text(joined.seconds));
}
std::string event_text(const events::CollectivesChecked&) {
  return {};
}
/// Returns text such as "12 files, 1.5 GiB, on 4 nodes in 40 s".
std::string copies_text(std::int64_t files, std::int64_t bytes, std::int64_t nodes,
                        double seconds) {
  return fmt::format("{}, {}, on {} in {}", count_text(files, "file"),
                     bytes_text(static_cast<double>(bytes)), count_text(nodes, "node"),
                     seconds_text(seconds));
}
std::string event_text(const events::Staging& staging) {
  return count_text(staging.nodes, "node");
}
std::string event_text(const events::Staged& staged) {
  return copies_text(staged.files, staged.bytes, staged.nodes, staged.seconds);
}
std::string event_text(const events::OutputsCopied& copied) {
  return copies_text(copied.files, copied.bytes, copied.nodes, copied.seconds);
}
std::string event_text(const events::RanksMissing& missing) {
  return fmt::format("{} did not connect within {}",
                     count_text(static_cast<std::int64_t>(missing.ranks.size()), "rank"),
                     seconds_text(missing.seconds));
}
std::string event_text(const events::Progress&) {
  return {};  // shown as a curve
}
std::string event_text(const events::FinalReports& result) {
  std::vector<std::string> parts;
  for (const char* key : {"test_accuracy", "test_loss", "steps", "seconds"}) {
    if (const auto value = json_read::number(result.values, key))
      parts.push_back(fmt::format("{} {:.6g}", key, *value));
  }
  return parts.empty() ? "reported" : join(parts, ", ");
}
std::string event_text(const events::RankStatistics&) {
  return {};  // shown as curves
}
std::string event_text(const events::Signal& signal) {
  return fmt::format("{} at {}: {}", signal.signal, signal.where, signal.decision.text());
}
std::string event_text(const events::RankFailed& failed) {
  return describe(RankFailure{failed.rank, failed.host, failed.code, failed.signal, failed.error});
}
std::string event_text(const events::Warning& warning) {
  return with_rank(warning.message, warning.rank, warning.host);
}
std::string event_text(const events::Autopsy&) {
  return {};  // shown separately
}
std::string event_text(const events::AttemptEnd& end) {
  return fmt::format("{}, code {}, after {}", end.reason.text(), end.code,
                     seconds_text(end.seconds.value_or(0)));
}
std::string event_text(const events::ComponentEnd& event) {
  return event_text(event.end);
}
std::string event_text(const events::Restarting& restarting) {
  return fmt::format(
      "after {}: {}{}; {} left{}", restarting.cause.text(),
      restarting.by == RestartedBy::kSlurm   ? "queued again"
      : restarting.by == RestartedBy::kChain ? "in the next job of the chain"
                                             : "in the same allocation",
      restarting.memory_mib > 0 ? fmt::format(" with {} MiB", restarting.memory_mib) : "",
      count_text(restarting.left, "restart"),
      restarting.exclude.empty() ? "" : "; without " + join(restarting.exclude, ", "));
}
std::string event_text(const events::Ended& ended) {
  return fmt::format("{}: {}", ended.state.text(), ended.message);
}
std::string event_text(const events::Unknown& unknown) {
  auto text = json_read::text(unknown.values, "message");
  if (text.empty()) text = json_read::text(unknown.values, "reason");
  return with_rank(std::move(text), json_read::integer(unknown.values, "rank"),
                   json_read::text(unknown.values, "host"));
}

// is_bad() returns true for an event that is shown as a failure.

template <typename Event>
bool is_bad(const Event&) {
  return false;
}
bool is_bad(const events::Ended& ended) {
  return !(ended.state == EndState::kCompleted);
}
bool is_bad(const events::AttemptEnd& end) {
  return !(end.reason == EndReason::kOk || end.reason == EndReason::kStoppedEarly ||
           end.reason == EndReason::kRehearsed || end.reason == EndReason::kStopped);
}
bool is_bad(const events::ComponentEnd& event) {
  return is_bad(event.end);
}
bool is_bad(const events::ComponentRestart&) {
  return true;
}
bool is_bad(const events::Signal& signal) {
  return !(signal.decision == SignalDecision::kCheckpoint);  // a checkpoint signal is no failure
}
bool is_bad(const events::RanksMissing&) {
  return true;
}
bool is_bad(const events::RankFailed&) {
  return true;
}
bool is_bad(const events::Warning&) {
  return true;
}

/// Returns true if a rank ended by itself with an exit code, and not by a signal.
bool is_exit_of_rank(const RunEvent& event) {
  const auto* const failed = std::get_if<events::RankFailed>(&event);
  return failed != nullptr && failed->signal.empty();
}

}  // namespace

AttemptHistory& RunHistory::find_or_add_attempt(std::int64_t number, double t) {
  // After a restart, an event may still be about the previous attempt.
  const std::size_t count = attempts_.size();
  if (count > 0 && attempts_[count - 1].number == number) return attempts_[count - 1];
  if (count > 1 && attempts_[count - 2].number == number) return attempts_[count - 2];
  if (count >= kAttemptsLimit) return attempts_.back();
  if (!attempts_.empty()) note_successor(attempts_.back());
  AttemptHistory& attempt = attempts_.emplace_back();
  attempt.number = number;
  attempt.begun = t;
  return attempt;
}

void RunHistory::note_successor(AttemptHistory& attempt) {
  attempt.has_successor = true;
  if (!attempt.has_planned_end()) return;
  for (ShownEvent& event : events_) {
    const bool is_end = event.kind == events::AttemptEnd::kKind || event.may_be_planned;
    if (event.attempt == attempt.number && is_end) event.is_bad = false;
  }
}

void RunHistory::add(std::string_view lines) {
  const std::size_t stride = frequent_line_count_ < kFrequentParsedFirst ? 1 : stride_;
  for (std::size_t begin = 0, end = 0; begin < lines.size(); begin = end + 1) {
    end = std::min(lines.find('\n', begin), lines.size());
    const auto line = lines.substr(begin, end - begin);
    const bool is_frequent = importance_of(kind_of_line(line)) == EventImportance::kDroppable;
    // The last line of a chunk is always parsed, because it shows the current progress.
    const bool is_last = end + 1 >= lines.size();
    if (is_frequent && ++frequent_line_count_ % stride != 0 && !is_last) continue;
    const auto recorded = event_of_line(line);
    if (!recorded) {
      record_.damaged_lines = ++damaged_lines_;
      continue;
    }
    add_event(record_, *recorded);
    add(*recorded);
  }
}

void RunHistory::add(const RecordedEvent& recorded) {
  const auto t = seconds_of_utc(recorded.time);
  const auto kind = kind_of(recorded.event);
  if (kind.empty() || !t) return;
  const std::int64_t number =
      recorded.attempt.value_or(attempts_.empty() ? 0 : attempts_.back().number);
  AttemptHistory& attempt = find_or_add_attempt(number, *t);
  // The curves and the ranks are those of the whole run, or of its first main component.
  const bool describes_run =
      recorded.component.empty() || recorded.component == record_.leading_component;
  std::visit(Overloaded{[&](const events::Progress& event) {
                          if (describes_run) add_progress(event, *t, number);
                        },
                        [&](const events::RankStatistics& event) {
                          if (describes_run) add_samples(event, *t, number);
                        },
                        [&](const events::Claimed& event) {
                          attempt.job = short_text(event.job);
                          attempt.lead_host = short_text(event.host);
                        },
                        [&](const events::Started& event) {
                          if (describes_run && event.ranks > 0) attempt.ranks = event.ranks;
                        },
                        [&](const events::Joined& event) {
                          if (!describes_run) return;
                          if (event.ranks > 0) attempt.ranks = event.ranks;
                          attempt.joined = *t;
                          attempt.hosts = short_text(event.hosts);
                        },
                        [&](const events::AttemptEnd& event) {
                          attempt.ended = *t;
                          attempt.reason = event.reason;
                          attempt.code = event.code;
                          attempt.cause = event.cause;
                        },
                        [&](const events::Restarting& event) {
                          attempt.cause = event.cause;
                          note_successor(attempt);
                        },
                        [](const auto&) {}},
             recorded.event);
  if (importance_of(recorded.event) == EventImportance::kDroppable) return;  // its curve shows it
  auto text = std::visit([](const auto& event) { return event_text(event); }, recorded.event);
  if (!recorded.component.empty())
    text = fmt::format("component {}{}{}", recorded.component, text.empty() ? "" : ": ", text);
  const bool bad = std::visit([](const auto& event) { return is_bad(event); }, recorded.event);
  const bool may_be_planned =
      number == record_.attempt && record_.was_warned && is_exit_of_rank(recorded.event);
  if (may_be_planned) text += ", after the warning (USR1)";
  events_.push_back(
      {*t, number, short_text(std::string(kind)), short_text(text), bad, may_be_planned});
  // Keeps the first and the last events. Removes many events at a time, because each of ten
  // thousand ranks may warn.
  if (events_.size() == kEventsLimit + kEventsRemoved) {
    const auto first = events_.begin() + kEventsLimit / 2;
    events_.erase(first, first + kEventsRemoved);
    events_left_out_ += kEventsRemoved;
  }
}

void RunHistory::add_progress(const events::Progress& event, double t, std::int64_t attempt) {
  progress_.push_back({t, attempt, event.epoch, event.step, events::value_of(event.loss),
                       events::value_of(event.accuracy), events::value_of(event.samples_per_s)});
  thin_if_full(progress_);
}

void RunHistory::add_samples(const events::RankStatistics& event, double t, std::int64_t attempt) {
  samples_.push_back(samples_of(event, t, attempt));
  thin_if_full(samples_);
  for (const auto& one : event.slowest_ranks) {
    if (slow_ranks_.size() >= kSlowRanksLimit && !slow_ranks_.contains(one.rank)) continue;
    SlowRank& known = slow_ranks_[one.rank];
    known.rank = one.rank;
    known.host = short_text(one.host);
    ++known.slow_count;
    known.work_ms = std::max(known.work_ms, one.work_ms.value_or(0));
    known.lag = std::max(known.lag, one.lag);
  }
}

Result<bool> RunHistory::read_more(const std::filesystem::path& run) {
  const auto path = run / "events.jsonl";
  const auto file = open_untrusted(path, Links::kRefuse);
  if (!file && file.error().code == Errc::kNotFound) return false;
  if (!file) return tl::unexpected(file.error());
  struct stat info {};
  if (::fstat(file->get(), &info) != 0)
    return fail(Errc::kIo, "{}: {}", printable(path.string()), errno_text(errno));
  // The file is smaller if an incomplete line was cut off. It has another inode if lead has
  // rewritten it with fewer points.
  if (info.st_size < offset_ || (offset_ > 0 && info.st_ino != inode_)) *this = RunHistory();
  if (offset_ == 0) {
    inode_ = info.st_ino;
    parts_ = parts_to_read(info.st_size);
    const auto bytes_to_read =
        static_cast<std::size_t>(parts_.head_end + info.st_size - parts_.tail_begin);
    stride_ = std::max<std::size_t>(1, bytes_to_read / kFullyParsedBytes);
    record_.left_out_bytes = parts_.tail_begin - parts_.head_end;
  }
  if (offset_ >= parts_.head_end && offset_ < parts_.tail_begin) {
    offset_ = parts_.tail_begin;
    // The tail may begin inside a line. The '-' makes the fragment invalid JSON, so it counts as a
    // damaged line and not as an event.
    unfinished_line_ = "-";
  }
  const off_t end = offset_ < parts_.head_end ? parts_.head_end : info.st_size;
  std::string bytes(static_cast<std::size_t>(std::min<off_t>(end - offset_, kReadBytes)), '\0');
  const ssize_t got = bytes.empty() ? 0 : ::pread(file->get(), bytes.data(), bytes.size(), offset_);
  if (got < 0) return fail(Errc::kIo, "{}: {}", printable(path.string()), errno_text(errno));
  if (got == 0) {
    stride_ = 1;  // from here on every event is parsed
    return false;
  }
  offset_ += got;
  unfinished_line_.append(bytes, 0, static_cast<std::size_t>(got));
  const auto newline = unfinished_line_.rfind('\n');
  if (newline == std::string::npos) {
    if (unfinished_line_.size() > kLongestLineBytes) unfinished_line_.clear();
    return true;
  }
  const std::string lines = unfinished_line_.substr(0, newline + 1);
  unfinished_line_.erase(0, newline + 1);
  add(lines);
  return true;
}

std::optional<double> seconds_until_steps(const RunHistory& history, std::int64_t steps,
                                          double now) {
  const auto& points = history.progress();
  const ProgressPoint* last = nullptr;
  const ProgressPoint* first = nullptr;
  for (auto point = points.rbegin(); point != points.rend(); ++point) {
    if (!point->step) continue;
    if (last == nullptr) last = &*point;
    if (point->attempt != last->attempt || *point->step > *last->step) break;
    first = &*point;
    if (last->t - point->t >= kPaceSeconds) break;
  }
  if (first == nullptr || last->t <= first->t || *last->step <= *first->step || steps < *last->step)
    return std::nullopt;
  const double pace = static_cast<double>(*last->step - *first->step) / (last->t - first->t);
  return std::max(0.0,
                  static_cast<double>(steps - *last->step) / pace - std::max(0.0, now - last->t));
}

Result<std::vector<MetricsPoint>> read_metrics(const std::filesystem::path& run) {
  std::vector<MetricsPoint> points;
  const auto file = open_untrusted(run / "metrics.jsonl", Links::kRefuse);
  if (!file && file.error().code == Errc::kNotFound) return points;
  if (!file) return tl::unexpected(file.error());
  struct stat info {};
  if (::fstat(file->get(), &info) != 0)
    return fail(Errc::kIo, "metrics.jsonl: {}", errno_text(errno));
  const auto take = [&](std::string_view line) {
    const auto json = line.empty() ? std::nullopt : json_read::object_of(line);
    const auto t = json ? seconds_of_utc(json_read::text(*json, "time")) : std::nullopt;
    if (!t) return;
    points.push_back(
        {*t, json_read::integer(*json, "attempt").value_or(0), json_read::integer(*json, "epoch"),
         json_read::integer(*json, "step"), json_read::number(*json, "loss"),
         json_read::number(*json, "accuracy"), json_read::number(*json, "samples_per_s"),
         json_read::number(*json, "test_loss"), json_read::number(*json, "test_accuracy")});
    thin_if_full(points);
  };
  const auto parts = parts_to_read(info.st_size);
  const auto bytes_to_read =
      static_cast<std::size_t>(parts.head_end + info.st_size - parts.tail_begin);
  const std::size_t stride = std::max<std::size_t>(1, bytes_to_read / kFullyParsedBytes);
  std::size_t line_count = 0;
  for (const auto& [begin, end] :
       {std::pair(off_t{0}, parts.head_end), std::pair(parts.tail_begin, info.st_size)}) {
    LineReader lines(file->get(), begin, end);
    while (const auto line = lines.next()) {
      // Lines with values of the test set are rare, one at the end of an epoch, so all are parsed.
      if (++line_count % stride == 0 || line->find("\"test_") != std::string_view::npos)
        take(*line);
    }
  }
  return points;
}

}  // namespace dlrun
