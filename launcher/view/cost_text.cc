#include "launcher/view/cost_text.h"

#include <algorithm>

#include "common/text.h"

namespace dlrun {
namespace {

/// Returns true if a point sets a key of `resources`, so that the costs of the points differ.
bool sets_resources(const SweepPlan& sweep) {
  return std::any_of(sweep.keys.begin(), sweep.keys.end(),
                     [](const std::string& key) { return key.starts_with("resources."); });
}

}  // namespace

std::string cost_text(const Requested& requested) {
  std::vector<std::string> parts;
  if (const auto hours = gpu_hours(requested); hours && *hours > 0)
    parts.push_back(fmt::format("{:.3g} GPU-hours", *hours));
  if (const auto hours = core_hours(requested))
    parts.push_back(fmt::format("{:.3g} core-hours", *hours));
  return parts.empty() ? "" : "at most " + join(parts, ", ");
}

std::string points_and_cost_text(const SweepPlan& sweep) {
  const std::size_t count = sweep.points.size();
  std::string text = sweep.chooses_points_later
                         ? "the program chooses the points"
                         : fmt::format("{} point{}", count, count == 1 ? "" : "s");
  if (sweep.max_parallel) text += fmt::format(", {} at a time", *sweep.max_parallel);
  if (sweep.chooses_points_later && sets_resources(sweep)) return text;
  if (sweep.arrays.size() > 1) text += fmt::format(", in {} arrays", sweep.arrays.size());
  const auto gpu_sum = sum_of_hours(sweep, gpu_hours), core_sum = sum_of_hours(sweep, core_hours);
  const bool has_gpu_hours = gpu_sum && *gpu_sum > 0;
  if (has_gpu_hours) text += fmt::format("; at most {:.1f} GPU-hours", *gpu_sum);
  if (core_sum)
    text += fmt::format("{}{:.1f} core-hours", has_gpu_hours ? ", " : "; at most ", *core_sum);
  if (!has_gpu_hours && !core_sum) return text;
  return text + (sweep.chooses_points_later ? " each" : " altogether");
}

}  // namespace dlrun
