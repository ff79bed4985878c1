#include "runtime/agent/slurm_words.h"

#include <signal.h>

#include <cstdint>
#include <cstring>

#include "common/text.h"

namespace dlrun::agent {
namespace {

constexpr std::size_t kTasksLimit = 100'000;
constexpr std::string_view kOutOfMemory = "Out Of Memory";

/// Removes prefix from the front of text. Returns false if text does not begin with it.
bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

/// Parses a list of tasks: "3,5-6" becomes {3, 5, 6}.
std::optional<std::vector<int>> task_list(std::string_view text) {
  std::vector<int> tasks;
  for (const auto range : split(text, ',')) {
    const auto dash = range.find('-');
    const auto first = parse_int(range.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_int(range.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first ||
        *last - *first >= static_cast<std::int64_t>(kTasksLimit) || tasks.size() > kTasksLimit) {
      return std::nullopt;
    }
    for (auto task = *first; task <= *last; ++task) tasks.push_back(static_cast<int>(task));
  }
  return tasks;
}

/// Removes the "3: " that `srun --label` puts in front of the lines of a task.
std::string_view without_label(std::string_view line) {
  const auto digits = line.find_first_not_of(' ');
  if (digits == std::string_view::npos) return line;
  const auto end = line.find_first_not_of("0123456789", digits);
  if (end == digits || end == std::string_view::npos || !line.substr(end).starts_with(": "))
    return line;
  return line.substr(end + 2);
}

/// Returns the text of an error line of srun; nullopt for every other line.
std::optional<std::string_view> error_of_srun(std::string_view line) {
  return take(line, "srun: error: ") ? std::optional(line) : std::nullopt;
}

/// Returns the text of an error line of slurmstepd, which begins with "slurmstepd: error: ",
/// "slurmstepd-n1: error: " or "[TIME] error: ".
std::optional<std::string_view> error_of_stepd(std::string_view line) {
  constexpr std::string_view kError = " error: ";
  line = without_label(line);
  const bool is_timed = take(line, "[");
  if (!is_timed && !take(line, "slurmstepd")) return std::nullopt;
  const auto end = line.find(is_timed ? ']' : ':');
  if (end == std::string_view::npos) return std::nullopt;
  line.remove_prefix(end + 1);
  return take(line, kError) ? std::optional(line) : std::nullopt;
}

/// Returns the reason in slurmstepd's line about a cancelled step or job; empty if the line
/// contains none, nullopt for other lines. object: "STEP " or "JOB ".
std::optional<std::string_view> reason_behind(std::string_view object, std::string_view line) {
  constexpr std::string_view kDueTo = " DUE TO ";
  constexpr std::string_view kEnd = " ***";
  auto error = error_of_stepd(line);
  if (!error || !take(*error, "*** ") || !take(*error, object) || !error->ends_with(kEnd))
    return std::nullopt;
  const auto cancelled = error->find(" CANCELLED AT ");
  if (cancelled == std::string_view::npos) return std::nullopt;
  error->remove_suffix(kEnd.size());
  const auto due_to = error->find(kDueTo, cancelled);
  return due_to == std::string_view::npos ? std::string_view()
                                          : error->substr(due_to + kDueTo.size());
}

}  // namespace

std::optional<TaskEnds> parse_task_ends(std::string_view line) {
  const auto error = error_of_srun(line);
  if (!error) return std::nullopt;
  line = *error;
  const auto after_host = line.find(": task");
  if (after_host == std::string_view::npos) return std::nullopt;
  TaskEnds ends{.host = std::string(line.substr(0, after_host))};
  line.remove_prefix(after_host + std::strlen(": task"));
  if (line.starts_with("s")) line.remove_prefix(1);
  const auto colon = line.find(": ");
  if (!line.starts_with(" ") || colon == std::string_view::npos) return std::nullopt;
  auto tasks = task_list(line.substr(1, colon - 1));
  if (!tasks) return std::nullopt;
  ends.tasks = std::move(*tasks);
  auto how = line.substr(colon + 2);
  if (take(how, "Exited with exit code ")) {
    const auto code = parse_int(trim(how));
    if (!code || *code < 0 || *code > 255) return std::nullopt;
    ends.code = static_cast<int>(*code);
    return ends;
  }
  if (trim(how) == kOutOfMemory) {
    ends.signal = SIGKILL;
    ends.code = 128 + SIGKILL;
    return ends;
  }
  how = how.substr(0, how.find(" (core dumped)"));
  for (int number = 1; number < NSIG; ++number) {
    const char* description = sigdescr_np(number);
    if (description != nullptr && trim(how) == description) {
      ends.signal = number;
      ends.code = 128 + number;
      return ends;
    }
  }
  return std::nullopt;
}

bool reports_out_of_memory(std::string_view line) {
  if (const auto error = error_of_srun(line)) return error->ends_with(kOutOfMemory);
  auto error = error_of_stepd(line);
  return error && take(*error, "Detected ") &&
         (error->find(" oom_kill event") != std::string_view::npos ||
          error->find(" oom-kill event") != std::string_view::npos);
}

bool says_job_is_ending(std::string_view message) {
  return message.find("Job/step already completing or completed") != std::string_view::npos;
}

bool reports_unknown_job(std::string_view message) {
  return message.find("Invalid job id") != std::string_view::npos;
}

std::optional<std::string_view> parse_node_failure(std::string_view line) {
  auto error = error_of_srun(line);
  if (!error || !take(*error, "Node failure on ")) return std::nullopt;
  return trim(*error);
}

std::optional<LaunchFailure> parse_launch_failure(std::string_view line) {
  constexpr std::string_view kOnNode = " failed on node ";
  auto error = error_of_srun(line);
  if (!error || !take(*error, "Task launch for ")) return std::nullopt;
  const auto on_node = error->find(kOnNode);
  if (on_node == std::string_view::npos) return std::nullopt;
  error->remove_prefix(on_node + kOnNode.size());
  const auto colon = error->find(": ");
  if (colon == 0 || colon == std::string_view::npos) return std::nullopt;
  return LaunchFailure{error->substr(0, colon), trim(error->substr(colon + 2))};
}

std::optional<std::string_view> parse_step_cancel_reason(std::string_view line) {
  const auto reason = reason_behind("STEP ", line);
  return reason && !reason->empty() && *reason != "TASK FAILURE" ? reason : std::nullopt;
}

std::optional<std::string_view> parse_job_cancel_reason(std::string_view line) {
  return reason_behind("JOB ", line);
}

}  // namespace dlrun::agent
