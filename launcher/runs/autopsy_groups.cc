#include "launcher/runs/autopsy_groups.h"

namespace dlrun {
namespace {

constexpr std::size_t kGroupsLimit = 6;
constexpr std::size_t kFramesLimit = 16;
constexpr std::size_t kTextLimitBytes = 256;

AutopsyGroup bounded(const events::Autopsy::Group& full) {
  AutopsyGroup group{
      full.ranks.substr(0, kTextLimitBytes), full.hosts.substr(0, kTextLimitBytes), full.count, {}};
  for (const auto& frame : full.frames) {
    if (group.frames.size() >= kFramesLimit) break;
    group.frames.push_back(frame.substr(0, kTextLimitBytes));
  }
  return group;
}

}  // namespace

std::optional<Autopsy> bounded_autopsy(const events::Autopsy& event, std::int64_t attempt) {
  Autopsy autopsy{
      .attempt = attempt, .rank_count = event.ranks, .outlier_count = event.outliers, .groups = {}};
  for (const auto& group : event.groups) {
    if (autopsy.groups.size() >= kGroupsLimit) break;
    autopsy.groups.push_back(bounded(group));
  }
  return autopsy.groups.empty() ? std::nullopt : std::optional(std::move(autopsy));
}

}  // namespace dlrun
