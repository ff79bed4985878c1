#include "runtime/agent/retry.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/hostlist.h"
#include "common/json_lines.h"
#include "common/text.h"

namespace dlrun::agent {
namespace {

using Json = nlohmann::ordered_json;

struct CauseWord {
  Cause cause;
  std::string_view word;
};
constexpr std::array<CauseWord, 8> kWords{{{Cause::kNone, "none"},
                                           {Cause::kTimeout, "timeout"},
                                           {Cause::kPreemption, "preemption"},
                                           {Cause::kNodeFailure, "node_failure"},
                                           {Cause::kHang, "hang"},
                                           {Cause::kOom, "oom"},
                                           {Cause::kFailure, "failure"},
                                           {Cause::kRequeue, "requeue"}}};

bool is_the_programs_own(Cause cause) {
  return cause == Cause::kFailure || cause == Cause::kOom || cause == Cause::kHang;
}

std::string text(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<std::int64_t> integer(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? std::optional(found->get<std::int64_t>()) : std::nullopt;
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
    if (!cause || *cause == Cause::kNone || *cause == Cause::kRequeue) {
      return fail(Errc::kUsage, "--retry-on: '{}' is none of timeout, preemption, node_failure, hang, oom, failure",
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
  // Of a program that never says how far it is nobody can tell: its budget alone bounds it.
  if (best_step_ || (can_tell && is_the_programs_own(cause))) {
    ++fruitless_;
  } else {
    fruitless_ = 0;
  }
}

RecordedHistory read_history(std::string_view events, bool always_reports) {
  RecordedHistory read;
  auto& history = read.history;
  auto& last = read.last;
  std::optional<std::int64_t> step;
  bool has_run = false;
  const auto close = [&] {
    if (last.has_attempt) history.add_attempt(step, last.cause, always_reports || !has_run);
  };
  for (const auto& event : parse_checked_lines(events).objects) {
    const auto kind = text(event, "event");
    if (kind == "claimed" || kind == "started") {
      const auto attempt = integer(event, "attempt").value_or(last.attempt);
      if (last.has_attempt && attempt == last.attempt) continue;
      close();
      last = {.has_attempt = true, .cause = Cause::kNodeFailure, .attempt = attempt};
      step.reset();
      has_run = false;
    } else if (kind == "joined") {
      has_run = true;
    } else if (kind == "progress") {
      const auto told = integer(event, "step") ? integer(event, "step") : integer(event, "epoch");
      if (told && (!step || *told > *step)) step = told;
    } else if (kind == "attempt_end") {
      last.code = static_cast<int>(std::clamp<std::int64_t>(integer(event, "code").value_or(1), 0, 255));
      last.cause = cause_of_word(text(event, "cause")).value_or(Cause::kNone);
      // Slurm's signal said nothing of its reason, but Slurm did start the job again.
      if (last.cause == Cause::kNone && text(event, "reason") == "signalled") last.cause = Cause::kPreemption;
    } else if (kind == "restarting") {
      last.is_announced = true;
      if (const auto cause = cause_of_word(text(event, "cause"))) last.cause = *cause;
      history.add_restart();
      if (const auto nodes = event.find("exclude"); nodes != event.end() && nodes->is_array()) {
        for (const auto& node : *nodes) {
          if (node.is_string()) history.add_bad_node(node.get<std::string>());
        }
      }
    }
  }
  close();
  return read;
}

RetryDecision decide_retry(const RetryOptions& options, const RetryHistory& history, Cause cause) {
  if (!options.is_on() || cause == Cause::kNone) return {};
  const int left = std::max(options.max - history.restarts(), 0);
  if (cause == Cause::kRequeue) return {true, left, false, {}};  // somebody's wish, and nobody's budget
  if (!options.on.contains(cause))
    return {false, left, false, fmt::format("'{}' is not among its causes to start again (retry.on)", word(cause))};
  if (history.fruitless() >= options.no_progress) {
    return {false, left, false,
            options.no_progress == 1
                ? std::string("the attempt got no further (retry.no_progress)")
                : fmt::format("{} attempts in a row got no further (retry.no_progress)", history.fruitless())};
  }
  if (left == 0)
    return {false, 0, false,
            fmt::format("it has started again {} (retry.max)",
                        options.max == 1 ? std::string("once") : fmt::format("{} times", options.max))};
  return {true, left - 1, history.has_reported() && history.fruitless() + 1 >= options.no_progress, {}};
}

std::vector<std::string> step_on_nodes(const std::vector<std::string>& argv, const std::vector<std::string>& nodes,
                                       int tasks_per_node) {
  auto step = argv;
  const auto count = nodes.size();
  const auto tasks = count * static_cast<std::size_t>(std::max(tasks_per_node, 1));
  step.insert(step.begin() + 1, {fmt::format("--nodes={}", count), fmt::format("--ntasks={}", tasks),
                                 fmt::format("--nodelist={}", compress_hostlist(nodes))});
  return step;
}

}  // namespace dlrun::agent
