#include "runtime/agent/retry.h"

#include <algorithm>
#include <array>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/json_lines.h"
#include "common/run_events.h"
#include "common/text.h"
#include "common/untrusted_file.h"

namespace dlrun::agent {
namespace {

using Json = nlohmann::ordered_json;

struct CauseWord {
  Cause cause;
  std::string_view word;
};
constexpr std::array<CauseWord, 10> kWords{{{Cause::kNone, "none"},
                                            {Cause::kTimeout, "timeout"},
                                            {Cause::kPreemption, "preemption"},
                                            {Cause::kNodeFailure, "node_failure"},
                                            {Cause::kHang, "hang"},
                                            {Cause::kOom, "oom"},
                                            {Cause::kFailure, "failure"},
                                            {Cause::kRequeue, "requeue"},
                                            {Cause::kImage, "image"},
                                            {Cause::kContainer, "container"}}};

bool is_of_container(Cause cause) {
  return cause == Cause::kImage || cause == Cause::kContainer;
}

bool is_the_programs_own(Cause cause) {
  return cause == Cause::kFailure || cause == Cause::kOom || cause == Cause::kHang;
}

std::string text(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<std::int64_t> integer(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer()
             ? std::optional(found->get<std::int64_t>())
             : std::nullopt;
}

}  // namespace

std::string_view word(Cause cause) {
  for (const auto& row : kWords) {
    if (row.cause == cause) return row.word;
  }
  return "none";
}

std::optional<Cause> cause_of_word(std::string_view word) {
  for (const auto& row : kWords) {
    if (row.word == word) return row.cause;
  }
  return std::nullopt;
}

Result<std::set<Cause>> parse_causes(std::string_view text) {
  std::set<Cause> causes;
  for (const auto part : split(text, ',')) {
    const auto cause = cause_of_word(part);
    const bool is_nobodys_choice =
        cause == Cause::kNone || cause == Cause::kRequeue || (cause && is_of_container(*cause));
    if (!cause || is_nobodys_choice) {
      return fail(
          Errc::kUsage,
          "--retry-on: '{}' is none of timeout, preemption, node_failure, hang, oom, failure",
          printable(part));
    }
    causes.insert(*cause);
  }
  return causes;
}

void RetryHistory::add_attempt(std::optional<std::int64_t> step, Cause cause, bool can_tell) {
  const bool is_further = step && (!best_step_ || *step > *best_step_);
  if (is_further) {
    best_step_ = step;
    fruitless_ = 0;
    return;
  }
  // The progress of a program that never reports a step is unknown. Only retry.max limits it.
  if (best_step_ || (can_tell && is_the_programs_own(cause))) {
    ++fruitless_;
  } else {
    fruitless_ = 0;
  }
}

namespace {

/// Builds the history of the attempts from the events of the record.
class HistoryReader {
 public:
  explicit HistoryReader(bool always_reports) : always_reports_(always_reports) {}

  void see(std::string_view line) {
    if (kind_of_line(line) == "samples") return;
    if (const auto event = parse_checked_line(line)) take(*event);
  }

  [[nodiscard]] RecordedHistory finish() {
    // Lead was lost while it waited for Slurm's verdict on a silent node. Its own node may have
    // failed, too.
    auto& last = read_.last;
    if (was_silent_ && !last.is_announced && !last.has_ended) last.cause = Cause::kNodeFailure;
    close();
    return std::move(read_);
  }

 private:
  void close() {
    if (read_.last.has_attempt)
      read_.history.add_attempt(step_, read_.last.cause, always_reports_ || !has_run_);
  }

  void take(const Json& event) {
    auto& last = read_.last;
    const auto kind = text(event, "event");
    if (kind == "claimed" || kind == "started") {
      const auto attempt = integer(event, "attempt").value_or(last.attempt);
      if (last.has_attempt && attempt == last.attempt) return;
      close();
      last = {.has_attempt = true, .cause = Cause::kNodeFailure, .attempt = attempt};
      step_.reset();
      has_run_ = false;
      was_silent_ = false;
    } else if (kind == "joined") {
      has_run_ = true;
    } else if (kind == "progress") {
      const auto told = integer(event, "step") ? integer(event, "step") : integer(event, "epoch");
      if (told && (!step_ || *told > *step_)) step_ = told;
    } else if (kind == "attempt_end") {
      last.code =
          static_cast<int>(std::clamp<std::int64_t>(integer(event, "code").value_or(1), 0, 255));
      last.cause = cause_of_word(text(event, "cause")).value_or(Cause::kNone);
      if (last.cause == Cause::kPreemption) read_.history.add_preemption();
      was_silent_ = event.contains("silent");
      // The signal came without a reason, but Slurm has started the job again.
      if (last.cause == Cause::kNone && text(event, "reason") == "signalled")
        last.cause = Cause::kPreemption;
    } else if (kind == "ended") {
      last.has_ended = true;
      const auto requeued = event.find("requeued");
      last.is_requeued = requeued != event.end() && requeued->is_boolean() && requeued->get<bool>();
    } else if (kind == "restarting") {
      last.is_announced = true;
      if (const auto cause = cause_of_word(text(event, "cause"))) last.cause = *cause;
      if (last.cause == Cause::kPreemption) read_.history.add_preemption();
      read_.history.add_restart();
      if (const auto nodes = event.find("exclude"); nodes != event.end() && nodes->is_array()) {
        for (const auto& node : *nodes) {
          if (node.is_string()) read_.history.add_bad_node(node.get<std::string>());
        }
      }
    }
  }

  RecordedHistory read_;
  bool always_reports_;
  std::optional<std::int64_t> step_;
  bool has_run_ = false;
  bool was_silent_ = false;
};

}  // namespace

RecordedHistory read_history(std::string_view events, bool always_reports) {
  HistoryReader reader(always_reports);
  for (const auto line : split(events, '\n')) reader.see(line);
  return reader.finish();
}

Result<RecordedHistory> read_history_file(const std::filesystem::path& events,
                                          bool always_reports) {
  const auto file = open_untrusted(events, Links::kRefuse);
  if (!file) return tl::unexpected(file.error());
  HistoryReader reader(always_reports);
  LineReader lines(file->get(), 0, std::numeric_limits<off_t>::max());
  while (const auto line = lines.next()) reader.see(*line);
  return reader.finish();
}

RetryDecision decide_retry(const RetryOptions& options, const RetryHistory& history, Cause cause) {
  if (!options.is_on() || cause == Cause::kNone) return {};
  const int left = std::max(options.max - history.restarts(), 0);
  // A user asked for this restart, so it does not count against the budget.
  if (cause == Cause::kRequeue) return {true, left, false, {}};
  if (is_of_container(cause)) return {false, left, false, "the container would fail again"};
  if (!options.on.contains(cause))
    return {false, left, false,
            fmt::format("'{}' is not among its causes to start again (retry.on)", word(cause))};
  if (history.fruitless() >= options.no_progress) {
    return {false, left, false,
            options.no_progress == 1
                ? std::string("the attempt got no further (retry.no_progress)")
                : fmt::format("{} attempts in a row got no further (retry.no_progress)",
                              history.fruitless())};
  }
  if (left == 0)
    return {
        false, 0, false,
        fmt::format("it has started again {} (retry.max)",
                    options.max == 1 ? std::string("once") : fmt::format("{} times", options.max))};
  return {
      true, left - 1, history.has_reported() && history.fruitless() + 1 >= options.no_progress, {}};
}

}  // namespace dlrun::agent
