// EventSum takes the lines one by one and applies each valid event to a RunRecord. A valid event
// can undo an earlier one, for example when a later attempt claims an ended run.
#include "launcher/runs/events.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <tuple>
#include <utility>

#include "common/files.h"
#include "common/json_lines.h"
#include "common/run_events.h"
#include "common/untrusted_file.h"
#include "launcher/runs/json_read.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

// Limits on the memory that one record takes, whoever wrote it.
constexpr std::size_t kMostWarnings = 200;
constexpr std::size_t kMostFailures = 256;
constexpr std::size_t kMostRestarts = 10'000;
constexpr std::size_t kMostMissing = 100'000;
constexpr std::size_t kMostResults = 256;
constexpr std::size_t kLongestText = 4096;
/// The number of progress lines that are parsed at the beginning, and at the end, of an unbroken
/// sequence of them.
constexpr std::size_t kProgressRead = 64;

std::string short_text(const Json& json, const char* key) {
  auto text = json_read::text(json, key);
  if (text.size() > kLongestText) text = text.substr(0, kLongestText) + "...";
  return text;
}

RankFailure failure_of(const Json& json) {
  RankFailure failure;
  failure.rank = json_read::integer(json, "rank").value_or(-1);
  failure.host = short_text(json, "host");
  failure.code = json_read::integer(json, "code").value_or(0);
  failure.signal = short_text(json, "signal");
  failure.error = short_text(json, "error");
  return failure;
}

Progress progress_of(const Json& json, const std::string& time) {
  Progress progress;
  progress.time = time;
  progress.epoch = json_read::integer(json, "epoch");
  progress.epochs = json_read::integer(json, "epochs");
  progress.step = json_read::integer(json, "step");
  progress.steps = json_read::integer(json, "steps");
  progress.loss = json_read::number(json, "loss");
  progress.accuracy = json_read::number(json, "accuracy");
  progress.samples_per_s = json_read::number(json, "samples_per_s");
  return progress;
}

/// Updates `into` with the values in `news`; values that `news` lacks stay.
void merge(Progress& into, const Progress& news) {
  const auto take = [](auto& old_value, const auto& new_value) {
    if (new_value) old_value = new_value;
  };
  into.time = news.time;
  take(into.epoch, news.epoch);
  take(into.epochs, news.epochs);
  take(into.step, news.step);
  take(into.steps, news.steps);
  take(into.loss, news.loss);
  take(into.accuracy, news.accuracy);
  take(into.samples_per_s, news.samples_per_s);
}

void begin_attempt(RunRecord& record, std::int64_t attempt) {
  record.attempt = attempt;
  record.joined = false;
  record.checked = false;
  record.missing.clear();
  record.first_failed.reset();
  record.failed.clear();
  record.attempt_reason.clear();
  record.ended = false;
}

/// Merges results: later values replace earlier ones. From kMostResults results on, each one
/// replaces the whole result, to bound the time.
void apply_result(RunRecord& record, const Json& event) {
  Json result = Json::object();
  if (!record.result.empty() && ++record.results < kMostResults)
    result = json_read::object_of(record.result).value_or(Json::object());
  const Json kept = kept_result(event);
  for (const auto& [key, value] : kept.items()) result[key] = value;
  record.result = json_read::dump(kept_result(result));
}

void apply(RunRecord& record, const Json& event) {
  const std::string kind = json_read::text(event, "event");
  const std::string time = json_read::text(event, "t");
  const std::int64_t attempt = json_read::integer(event, "attempt").value_or(record.attempt);
  if (!time.empty()) record.last_time = time;
  if (kind == "claimed") {
    begin_attempt(record, attempt);
    if (record.claimed_at.empty()) record.claimed_at = time;
    record.claimed_by = json_read::text(event, "job");
    record.lead_host = json_read::text(event, "host");
    return;
  }
  if (attempt < record.attempt) return;
  if (attempt > record.attempt) begin_attempt(record, attempt);
  if (kind == "started" || kind == "joined") {
    if (const auto ranks = json_read::integer(event, "ranks"); ranks && *ranks > 0)
      record.ranks = *ranks;
    if (kind == "started") record.checks = json_read::text(event, "checks");
    if (kind == "joined") {
      record.joined = true;
      record.hosts = json_read::text(event, "hosts");
    }
  } else if (kind == "missing") {
    if (const auto ranks = event.find("ranks"); ranks != event.end() && ranks->is_array()) {
      for (const auto& rank : *ranks) {
        if (rank.is_number_integer() && record.missing.size() < kMostMissing)
          record.missing.push_back(rank.get<std::int64_t>());
      }
    }
  } else if (kind == "progress") {
    const Progress news = progress_of(event, time);
    if (record.progress) {
      merge(*record.progress, news);
    } else {
      record.progress = news;
    }
  } else if (kind == "result") {
    apply_result(record, event);
  } else if (kind == "rank_failed") {
    if (!record.first_failed) record.first_failed = failure_of(event);
    if (record.failed.size() < kMostFailures) record.failed.push_back(failure_of(event));
  } else if (kind == "warning") {
    RunWarning warning;
    warning.message = short_text(event, "message");
    warning.host = short_text(event, "host");
    warning.rank = json_read::integer(event, "rank");
    record.warnings.push_back(std::move(warning));
    if (record.warnings.size() > kMostWarnings)  // keeps the first and the last ones
      record.warnings.erase(record.warnings.begin() + kMostWarnings / 2);
  } else if (kind == "autopsy") {
    record.autopsy = read_autopsy(event);
  } else if (kind == "attempt_end") {
    record.attempt_reason = json_read::text(event, "reason");
    if (const auto first = event.find("first_failed"); first != event.end() && first->is_object()) {
      RankFailure failure = failure_of(*first);
      // The rank's own event may have the error text, which this event lacks.
      if (record.first_failed && record.first_failed->rank == failure.rank &&
          failure.error.empty()) {
        failure.error = record.first_failed->error;
      }
      if (failure.rank >= 0) record.first_failed = std::move(failure);
    }
  } else if (kind == "checked") {
    record.checked = true;
  } else if (kind == "restarting") {
    if (record.restarts.size() == kMostRestarts) record.restarts.pop_back();
    record.restarts.push_back(
        {attempt, short_text(event, "cause"), json_read::integer(event, "left").value_or(0)});
  } else if (kind == "ended") {
    record.ended = true;
    record.end_state = json_read::text(event, "state");
    record.end_message = json_read::text(event, "message");
    record.end_code = json_read::integer(event, "code").value_or(0);
    record.end_time = time;
  }
}

}  // namespace

namespace {

/// Summarises a record line by line. Progress lines between two other events are a curve; of a long
/// one only the beginning and the end are parsed, so that a month of progress costs little more
/// than reading the file.
class EventSum {
 public:
  void see(std::string_view line) {
    const auto kind = kind_of_line(line);
    if (kind == "samples") return;
    if (kind == "progress" && ++progress_seen_ > kProgressRead) {
      latest_[next_latest_++ % kProgressRead] = line;
      return;
    }
    if (kind != "progress") end_progress();
    take(line);
  }

  [[nodiscard]] RunRecord finish(bool has_rest) {
    end_progress();
    record_.has_torn_tail = has_rest || damaged_since_valid_ > 0;
    return std::move(record_);
  }
  [[nodiscard]] RunRecord& record() { return record_; }

 private:
  void take(std::string_view line) {
    const auto event = parse_checked_line(line);
    if (!event) {
      ++damaged_since_valid_;
      return;
    }
    record_.damaged_lines += std::exchange(damaged_since_valid_, 0);
    record_.has_events = true;
    apply(record_, *event);
  }

  void end_progress() {
    const auto first = next_latest_ > kProgressRead ? next_latest_ - kProgressRead : 0;
    for (auto at = first; at < next_latest_; ++at) take(latest_[at % kProgressRead]);
    next_latest_ = 0;
    progress_seen_ = 0;
  }

  RunRecord record_;
  std::size_t damaged_since_valid_ = 0, progress_seen_ = 0, next_latest_ = 0;
  std::array<std::string, kProgressRead> latest_;
};

}  // namespace

RunRecord sum_up_events(std::string_view text) {
  EventSum sum;
  std::size_t offset = 0;
  for (std::size_t end = 0; (end = text.find('\n', offset)) != std::string_view::npos;
       offset = end + 1)
    sum.see(text.substr(offset, end - offset));
  return sum.finish(offset < text.size());
}

void add_event(RunRecord& record, const Json& event) {
  record.has_events = true;
  apply(record, event);
}

bool has_end(const std::filesystem::path& run) {
  constexpr off_t kTail = 64 << 10;
  const auto file = open_untrusted(run / "events.jsonl", Links::kRefuse);
  struct stat info {};
  if (!file || ::fstat(file->get(), &info) != 0) return false;
  EventSum sum;
  const off_t begin = info.st_size > kTail ? info.st_size - kTail : 0;
  LineReader lines(file->get(), begin, info.st_size);
  if (begin > 0) std::ignore = lines.next();  // skips the rest of a line
  while (const auto line = lines.next()) sum.see(*line);
  return sum.finish(lines.has_rest()).ended;
}

Result<RunRecord> read_events(const std::filesystem::path& run) {
  const auto path = run / "events.jsonl";
  const auto file = open_untrusted(path, Links::kRefuse);
  if (!file && file.error().code == Errc::kNotFound) return RunRecord{};
  if (!file) return tl::unexpected(file.error());
  struct stat info {};
  if (::fstat(file->get(), &info) != 0)
    return fail(Errc::kIo, "{}: {}", path.string(), errno_text(errno));
  EventSum sum;
  const auto parts = parts_to_read(info.st_size);
  LineReader head(file->get(), 0, parts.head_end);
  while (const auto line = head.next()) sum.see(*line);
  sum.record().damaged_lines += head.long_lines();
  if (parts.tail_begin >= info.st_size) return sum.finish(head.has_rest());
  LineReader tail(file->get(), parts.tail_begin, info.st_size);
  std::ignore = tail.next();  // skips the rest of a line
  while (const auto line = tail.next()) sum.see(*line);
  sum.record().damaged_lines += tail.long_lines();
  sum.record().left_out_bytes = parts.tail_begin - parts.head_end;
  return sum.finish(tail.has_rest());
}

}  // namespace dlrun
