#include "launcher/runs/events.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "common/files.h"
#include "common/json_lines.h"
#include "launcher/runs/json_read.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

/// Lead writes at most one progress line a second: a month of them.
constexpr std::size_t kEventsLimit = 1U << 30U;

RankFailure failure_of(const Json& json) {
  RankFailure failure;
  failure.rank = json_read::integer(json, "rank").value_or(-1);
  failure.host = json_read::text(json, "host");
  failure.code = json_read::integer(json, "code").value_or(0);
  failure.signal = json_read::text(json, "signal");
  failure.error = json_read::text(json, "error");
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

/// A later report fills in; what it leaves out stays as it was.
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

void apply_result(RunRecord& record, const Json& event) {
  Json result = record.result.empty() ? Json::object() : json_read::object_of(record.result).value_or(Json::object());
  for (const auto& [key, value] : event.items()) {
    if (key != "t" && key != "event" && key != "attempt" && key != "final" && key != "op") result[key] = value;
  }
  record.result = json_read::dump(result);
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
    if (const auto ranks = json_read::integer(event, "ranks"); ranks && *ranks > 0) record.ranks = *ranks;
    if (kind == "started") record.checks = json_read::text(event, "checks");
    if (kind == "joined") {
      record.joined = true;
      record.hosts = json_read::text(event, "hosts");
    }
  } else if (kind == "missing") {
    if (const auto ranks = event.find("ranks"); ranks != event.end() && ranks->is_array()) {
      for (const auto& rank : *ranks) {
        if (rank.is_number_integer()) record.missing.push_back(rank.get<std::int64_t>());
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
    record.failed.push_back(failure_of(event));
    if (!record.first_failed) record.first_failed = record.failed.back();
  } else if (kind == "warning") {
    RunWarning warning;
    warning.message = json_read::text(event, "message");
    warning.host = json_read::text(event, "host");
    warning.rank = json_read::integer(event, "rank");
    record.warnings.push_back(std::move(warning));
  } else if (kind == "attempt_end") {
    record.attempt_reason = json_read::text(event, "reason");
    if (const auto first = event.find("first_failed"); first != event.end() && first->is_object()) {
      RankFailure failure = failure_of(*first);
      // The rank's own event may know more (its error text).
      if (record.first_failed && record.first_failed->rank == failure.rank && failure.error.empty()) {
        failure.error = record.first_failed->error;
      }
      if (failure.rank >= 0) record.first_failed = std::move(failure);
    }
  } else if (kind == "checked") {
    record.checked = true;
  } else if (kind == "restarting") {
    record.restarts.push_back(
        {attempt, json_read::text(event, "cause"), json_read::integer(event, "left").value_or(0)});
  } else if (kind == "ended") {
    record.ended = true;
    record.end_state = json_read::text(event, "state");
    record.end_message = json_read::text(event, "message");
    record.end_code = json_read::integer(event, "code").value_or(0);
    record.end_time = time;
  }
}

}  // namespace

RunRecord sum_up_events(std::string_view text) {
  const CheckedLines lines = parse_checked_lines(text);
  RunRecord record;
  record.has_events = !lines.objects.empty();
  record.damaged_lines = lines.damaged_lines;
  record.has_torn_tail = lines.has_torn_tail;
  for (const auto& event : lines.objects) apply(record, event);
  return record;
}

void add_event(RunRecord& record, const Json& event) {
  record.has_events = true;
  apply(record, event);
}

bool has_end(const std::filesystem::path& run) {
  constexpr off_t kTail = 64 << 10;
  const UniqueFd file(::open((run / "events.jsonl").c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (!file.is_open() || ::fstat(file.get(), &info) != 0) return false;
  const off_t begin = info.st_size > kTail ? info.st_size - kTail : 0;
  std::string text(static_cast<std::size_t>(info.st_size - begin), '\0');
  const ssize_t got = ::pread(file.get(), text.data(), text.size(), begin);
  if (got <= 0) return false;
  text.resize(static_cast<std::size_t>(got));
  if (begin > 0) text.erase(0, text.find('\n') == std::string::npos ? text.size() : text.find('\n') + 1);
  return sum_up_events(text).ended;
}

Result<RunRecord> read_events(const std::filesystem::path& run) {
  const auto text = read_file(run / "events.jsonl", kEventsLimit);
  if (!text && text.error().code == Errc::kNotFound) return RunRecord{};
  if (!text) return tl::unexpected(text.error());
  return sum_up_events(*text);
}

}  // namespace dlrun
