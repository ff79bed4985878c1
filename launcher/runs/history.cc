// read_more() reads the file in chunks and add() parses whole lines. Above a few MiB only some of
// the frequent events are parsed, and points are thinned, so that memory and time stay bounded.
#include "launcher/runs/history.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <utility>

#include "common/files.h"
#include "common/json_lines.h"
#include "common/run_events.h"
#include "common/text.h"
#include "common/untrusted_file.h"
#include "launcher/runs/json_read.h"
#include "launcher/runs/status.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kPointsLimit = 16'384;
constexpr std::size_t kEventsLimit = 2000;
constexpr std::size_t kReadBytes = 8U << 20U;
/// The size of records and metrics above which only some points of the curves are parsed.
constexpr std::size_t kParsedBytes = 4U << 20U;
/// This many frequent events are always parsed: a program may report some values only at first.
constexpr std::size_t kFirstPasses = 64;
constexpr std::size_t kSlowRanksLimit = 4096;
constexpr std::size_t kAttemptsLimit = 4096;
constexpr std::size_t kLongestText = 4096;
constexpr double kPaceSeconds = 60;

/// Drops every second point, except the last one, when there are too many. The
/// curve keeps its shape.
template <typename Point>
void keep_bounded(std::vector<Point>& points) {
  if (points.size() < kPointsLimit) return;
  std::size_t kept = 0;
  for (std::size_t at = 0; at + 1 < points.size(); at += 2) points[kept++] = std::move(points[at]);
  points[kept++] = std::move(points.back());
  points.resize(kept);
}

std::optional<Spread> spread(const Json& event, const char* key) {
  const auto found = event.find(key);
  if (found == event.end() || !found->is_array() || found->size() != 3) return std::nullopt;
  for (const auto& value : *found) {
    if (!value.is_number()) return std::nullopt;
  }
  return Spread{(*found)[0].get<double>(), (*found)[1].get<double>(), (*found)[2].get<double>()};
}

SamplesPoint samples_of(const Json& event, double t, std::int64_t attempt) {
  SamplesPoint point;
  point.t = t;
  point.attempt = attempt;
  point.ranks = json_read::integer(event, "ranks").value_or(0);
  point.slow_ranks = json_read::integer(event, "slow_ranks").value_or(0);
  point.cpu = spread(event, "cpu");
  point.rss_bytes = spread(event, "rss_bytes");
  point.gpu = spread(event, "gpu");
  point.gpu_used_bytes = spread(event, "gpu_used_bytes");
  point.step = spread(event, "step");
  point.work_ms = spread(event, "work_ms");
  return point;
}

std::string seconds_text(double seconds) {
  return seconds < 1000 ? fmt::format("{:.3g} s", seconds) : fmt::format("{:.0f} s", seconds);
}

std::string short_text(std::string text) {
  if (text.size() > kLongestText) text = text.substr(0, kLongestText) + "...";
  return text;
}

std::string count_of(std::int64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

/// Describes an event in words. Its fields may come from anybody.
std::string words_of(const std::string& kind, const Json& event) {
  const auto text = [&](const char* key) { return json_read::text(event, key); };
  const auto integer = [&](const char* key) { return json_read::integer(event, key); };
  if (kind == "claimed") {
    return fmt::format("job {} on {}{}", text("job"), text("host"),
                       json_read::truth(event, "again") ? ", again after a requeue" : "");
  }
  if (kind == "started") {
    const auto ranks = integer("ranks").value_or(0);
    return ranks > 0 ? count_of(ranks, "rank") : "the step";
  }
  if (kind == "joined") {
    return fmt::format("{} on {} within {}", count_of(integer("ranks").value_or(0), "rank"),
                       text("hosts"),
                       seconds_text(json_read::number(event, "seconds").value_or(0)));
  }
  if (kind == "missing") {
    const auto ranks = event.find("ranks");
    return fmt::format("{} did not say hello within {}",
                       count_of(ranks != event.end() && ranks->is_array()
                                    ? static_cast<std::int64_t>(ranks->size())
                                    : 0,
                                "rank"),
                       seconds_text(json_read::number(event, "seconds").value_or(0)));
  }
  if (kind == "signal")
    return fmt::format("{} at {}: {}", text("signal"), text("where"), text("word"));
  if (kind == "rank_failed") {
    return describe(RankFailure{integer("rank").value_or(-1), text("host"),
                                integer("code").value_or(0), text("signal"), text("error")});
  }
  if (kind == "attempt_end") {
    return fmt::format("{}, code {}, after {}", text("reason"), integer("code").value_or(0),
                       seconds_text(json_read::number(event, "seconds").value_or(0)));
  }
  if (kind == "restarting") {
    const auto left = integer("left").value_or(0);
    std::string how = fmt::format("after {}: {}; {} left", text("cause"),
                                  text("by") == "slurm" ? "queued again" : "in the same allocation",
                                  count_of(left, "restart"));
    const auto excluded = event.find("exclude");
    if (excluded == event.end() || excluded->empty()) return how;
    return fmt::format(
        "{}; without {}", how,
        excluded->is_string() ? excluded->get<std::string>() : json_read::dump(*excluded));
  }
  if (kind == "ended") return fmt::format("{}: {}", text("state"), text("message"));
  if (kind == "result") {
    std::vector<std::string> parts;
    for (const char* key : {"test_accuracy", "test_loss", "steps", "seconds"}) {
      if (const auto value = json_read::number(event, key))
        parts.push_back(fmt::format("{} {:.6g}", key, *value));
    }
    return parts.empty() ? "reported" : join(parts, ", ");
  }
  std::string said = text("message");
  if (said.empty()) said = text("reason");
  if (const auto rank = integer("rank"))
    said += fmt::format(" (rank {}{})", *rank, text("host").empty() ? "" : " on " + text("host"));
  return said;
}

bool is_bad(const std::string& kind, const Json& event) {
  if (kind == "ended") return json_read::text(event, "state") != "completed";
  if (kind == "attempt_end") return json_read::text(event, "reason") != "ok";
  if (kind == "signal")
    return json_read::text(event, "word") != "checkpoint";  // a checkpoint signal was asked for
  return kind == "missing" || kind == "rank_failed" || kind == "warning";
}

}  // namespace

std::optional<double> seconds_of_utc(std::string_view utc) {
  std::tm parts{};
  const std::string text(utc);
  const char* rest = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (rest == nullptr) return std::nullopt;
  double fraction = 0;
  if (*rest == '.') {
    std::string_view digits(rest);
    const auto end = digits.find_first_not_of("0123456789", 1);
    fraction = parse_double(fmt::format("0{}", digits.substr(0, end))).value_or(0);
  }
  return static_cast<double>(::timegm(&parts)) + fraction;
}

AttemptHistory& RunHistory::attempt_of(std::int64_t number, double t) {
  // A restarted job may report on the attempt before it.
  const std::size_t count = attempts_.size();
  if (count > 0 && attempts_[count - 1].number == number) return attempts_[count - 1];
  if (count > 1 && attempts_[count - 2].number == number) return attempts_[count - 2];
  if (count >= kAttemptsLimit) return attempts_.back();
  if (!attempts_.empty()) follow(attempts_.back());
  AttemptHistory& attempt = attempts_.emplace_back();
  attempt.number = number;
  attempt.claimed = t;
  return attempt;
}

void RunHistory::follow(AttemptHistory& attempt) {
  attempt.is_followed = true;
  if (!attempt.was_queued_again()) return;
  for (NotedEvent& event : events_) {
    if (event.attempt == attempt.number && event.kind == "attempt_end") event.is_bad = false;
  }
}

void RunHistory::add(std::string_view lines) {
  const std::size_t stride = passes_seen_ < kFirstPasses ? 1 : stride_;
  for (std::size_t begin = 0, end = 0; begin < lines.size(); begin = end + 1) {
    end = std::min(lines.find('\n', begin), lines.size());
    const auto line = lines.substr(begin, end - begin);
    const bool passes = class_of(kind_of_line(line)) == EventClass::kPasses;
    // The last line of a chunk shows the current progress.
    const bool is_last = end + 1 >= lines.size();
    if (passes && ++passes_seen_ % stride != 0 && !is_last) continue;
    const auto parsed = parse_checked_line(line);
    if (!parsed) {
      record_.damaged_lines = ++damaged_lines_;
      continue;
    }
    const Json& event = *parsed;
    add_event(record_, event);
    const std::string kind = json_read::text(event, "event");
    const auto t = seconds_of_utc(json_read::text(event, "t"));
    if (kind.empty() || !t) continue;
    const std::int64_t number = json_read::integer(event, "attempt")
                                    .value_or(attempts_.empty() ? 0 : attempts_.back().number);
    AttemptHistory& attempt = attempt_of(number, *t);
    if (kind == "progress") {
      progress_.push_back({*t, number, json_read::integer(event, "epoch"),
                           json_read::integer(event, "step"), json_read::number(event, "loss"),
                           json_read::number(event, "accuracy"),
                           json_read::number(event, "samples_per_s")});
      keep_bounded(progress_);
      continue;
    }
    if (kind == "samples") {
      samples_.push_back(samples_of(event, *t, number));
      keep_bounded(samples_);
      const auto slow = event.find("slow");
      if (slow == event.end() || !slow->is_array()) continue;
      for (const Json& one : *slow) {
        const auto rank = json_read::integer(one, "rank");
        if (!rank || (slow_.size() >= kSlowRanksLimit && !slow_.contains(*rank))) continue;
        SlowRank& known = slow_[*rank];
        known.rank = *rank;
        known.host = short_text(json_read::text(one, "host"));
        ++known.times;
        known.work_ms = std::max(known.work_ms, json_read::number(one, "work_ms").value_or(0));
        known.lag = std::max(known.lag, json_read::integer(one, "lag").value_or(0));
      }
      continue;
    }
    if (kind == "claimed") {
      attempt.job = short_text(json_read::text(event, "job"));
      attempt.host = short_text(json_read::text(event, "host"));
    } else if (kind == "started" || kind == "joined") {
      if (const auto ranks = json_read::integer(event, "ranks"); ranks && *ranks > 0)
        attempt.ranks = *ranks;
      if (kind == "joined") {
        attempt.joined = *t;
        attempt.hosts = short_text(json_read::text(event, "hosts"));
      }
    } else if (kind == "attempt_end") {
      attempt.ended = *t;
      attempt.reason = short_text(json_read::text(event, "reason"));
      attempt.code = json_read::integer(event, "code");
      attempt.cause = short_text(json_read::text(event, "cause"));
    } else if (kind == "restarting") {
      attempt.cause = short_text(json_read::text(event, "cause"));
      follow(attempt);
    }
    events_.push_back(
        {*t, number, short_text(kind), short_text(words_of(kind, event)), is_bad(kind, event)});
    if (events_.size() > kEventsLimit) {  // keeps the beginning and the end
      events_.erase(events_.begin() + kEventsLimit / 2);
      ++events_left_out_;
    }
  }
}

Result<bool> RunHistory::read_more(const std::filesystem::path& run) {
  const auto path = run / "events.jsonl";
  const auto file = open_untrusted(path, Links::kRefuse);
  if (!file && file.error().code == Errc::kNotFound) return false;
  if (!file) return tl::unexpected(file.error());
  struct stat info {};
  if (::fstat(file->get(), &info) != 0)
    return fail(Errc::kIo, "{}: {}", path.string(), errno_text(errno));
  // A smaller size: an incomplete line was cut off. Another inode: the leader has rewritten the
  // file with fewer points.
  if (info.st_size < offset_ || (offset_ > 0 && info.st_ino != inode_)) *this = RunHistory();
  if (offset_ == 0) {
    inode_ = info.st_ino;
    parts_ = parts_to_read(info.st_size);
    const auto read = static_cast<std::size_t>(parts_.head_end + info.st_size - parts_.tail_begin);
    stride_ = std::max<std::size_t>(1, read / kParsedBytes);
    record_.left_out_bytes = parts_.tail_begin - parts_.head_end;
  }
  if (offset_ >= parts_.head_end && offset_ < parts_.tail_begin) {
    offset_ = parts_.tail_begin;
    tail_ = "-";  // makes a damaged line of the rest of the line that was skipped
  }
  const off_t end = offset_ < parts_.head_end ? parts_.head_end : info.st_size;
  std::string bytes(static_cast<std::size_t>(std::min<off_t>(end - offset_, kReadBytes)), '\0');
  const ssize_t got = bytes.empty() ? 0 : ::pread(file->get(), bytes.data(), bytes.size(), offset_);
  if (got < 0) return fail(Errc::kIo, "{}: {}", path.string(), errno_text(errno));
  if (got == 0) {
    stride_ = 1;  // from here on every event is parsed
    return false;
  }
  offset_ += got;
  tail_.append(bytes, 0, static_cast<std::size_t>(got));
  const auto newline = tail_.rfind('\n');
  if (newline == std::string::npos) {
    if (tail_.size() > kLongestLineBytes) tail_.clear();
    return true;
  }
  const std::string lines = tail_.substr(0, newline + 1);
  tail_.erase(0, newline + 1);
  add(lines);
  return true;
}

std::optional<double> time_left(const RunHistory& history, std::int64_t steps, double now) {
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
    keep_bounded(points);
  };
  const auto parts = parts_to_read(info.st_size);
  const std::size_t stride =
      std::max<std::size_t>(1, static_cast<std::size_t>(info.st_size) / kParsedBytes);
  std::size_t seen = 0;
  for (const auto& [begin, end] :
       {std::pair(off_t{0}, parts.head_end), std::pair(parts.tail_begin, info.st_size)}) {
    LineReader lines(file->get(), begin, end);
    while (const auto line = lines.next()) {
      // A line at an epoch's end is rare, and has the test set's values.
      if (++seen % stride == 0 || line->find("\"test_") != std::string_view::npos) take(*line);
    }
  }
  return points;
}

}  // namespace dlrun
