#include "launcher/plan/script_resources.h"

#include <optional>
#include <string>
#include <vector>

#include "common/text.h"
#include "launcher/plan/sbatch_lines.h"
#include "launcher/spec/value_syntax.h"

namespace dlrun {

namespace {

/// Returns one text for each part of a heterogeneous job: the part's #SBATCH lines and comments.
/// Returns the whole script for other jobs.
[[nodiscard]] std::vector<std::string> sbatch_lines_of_parts(std::string_view script) {
  if (!line_of_part_separator(script)) return {std::string(script)};
  std::vector<std::string> parts{""};
  for (const auto line : split(script, '\n')) {
    const auto trimmed = trim(line);
    if (!trimmed.empty() && !trimmed.starts_with('#')) break;  // sbatch reads no option after this
    if (line_of_part_separator(line)) {
      parts.emplace_back();
    } else {
      parts.back() += std::string(line) + "\n";
    }
  }
  return parts;
}

/// Returns the sum of the numbers in the value of --gpus or a similar option, such as 2, a100:2 or
/// a100:2,v100:2; nullopt if dlrun cannot read the value.
[[nodiscard]] std::optional<std::int64_t> gpus_in_value(std::string_view value) {
  std::int64_t sum = 0;
  for (const std::string_view item : split(value, ',')) {
    const auto asked = parse_gpus(item);
    if (!asked) return std::nullopt;
    sum += asked->count;
  }
  return sum;
}

/// Returns the sum of two parts' resources. The time is that of the first part, in which the job
/// script runs.
[[nodiscard]] Requested sum_of(const Requested& a, const Requested& b) {
  const auto add = [](const std::optional<std::int64_t>& one,
                      const std::optional<std::int64_t>& other) {
    return one && other ? std::optional(*one + *other) : std::nullopt;
  };
  return {add(a.nodes, b.nodes), add(a.tasks, b.tasks), add(a.gpus, b.gpus), add(a.cpus, b.cpus),
          a.time_seconds};
}

[[nodiscard]] Requested requested_of_part(std::string_view script) {
  const auto number = [&](std::string_view long_name, std::string_view short_name) {
    constexpr std::int64_t kMost = 100'000'000;
    const auto text = sbatch_value(script, long_name, short_name);
    const auto value = text ? parse_int(*text) : std::nullopt;
    return value && *value >= 0 && *value <= kMost ? value : std::nullopt;
  };
  Requested q;
  const auto nodes = sbatch_value(script, "--nodes", "-N");
  const auto tasks = number("--ntasks", "-n");
  if (nodes) {
    if (const auto range = parse_nodes(*nodes); range && range->min == range->max)
      q.nodes = range->min;
  } else if (!tasks) {
    q.nodes = 1;
  }
  q.tasks = tasks;
  if (!tasks && q.nodes) q.tasks = *q.nodes * number("--ntasks-per-node", "").value_or(1);
  if (const auto of_job = sbatch_value(script, "--gpus", "-G")) {
    q.gpus = gpus_in_value(*of_job);
  } else if (const auto of_task = sbatch_value(script, "--gpus-per-task", "")) {
    const auto task_gpus = gpus_in_value(*of_task);
    if (task_gpus && q.tasks) q.gpus = *task_gpus * *q.tasks;
  } else {
    const auto of_node = sbatch_value(script, "--gpus-per-node", "");
    const auto gres = sbatch_value(script, "--gres", "");
    const auto node_gpus =
        of_node ? gpus_in_value(*of_node) : std::optional(gres ? gpus_in_gres(*gres) : 0);
    if (node_gpus && (q.nodes || *node_gpus == 0)) q.gpus = *node_gpus * q.nodes.value_or(0);
  }
  if (const auto cpus = number("--cpus-per-task", "-c"); cpus && q.tasks) q.cpus = *cpus * *q.tasks;
  if (const auto time = sbatch_value(script, "--time", "-t")) {
    if (const auto limit = parse_time_limit(*time)) q.time_seconds = *limit;
  }
  return q;
}

}  // namespace

Requested requested_of_script(std::string_view script) {
  if (sbatch_value(script, "--array", "-a")) return {};
  std::optional<Requested> sum;
  for (const std::string& part : sbatch_lines_of_parts(script)) {
    const Requested one = requested_of_part(part);
    sum = sum ? sum_of(*sum, one) : one;
  }
  return sum.value_or(Requested{});
}

}  // namespace dlrun
