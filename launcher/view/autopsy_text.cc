#include "launcher/view/autopsy_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/columns.h"

namespace dlrun {
namespace {

constexpr std::size_t kFramesShown = 7;
constexpr std::size_t kGroupsShown = 3;

std::string title_of(const AutopsyGroup& group) {
  return fmt::format("{} {} ({})", group.count == 1 ? "rank" : "ranks", group.ranks, group.hosts);
}

std::string frame_of(const AutopsyGroup& group, std::size_t index) {
  return index < group.frames.size() ? "  " + group.frames[index] : std::string();
}

/// Adds the stacks of two groups next to each other.
void add_side_by_side(const AutopsyGroup& left, const AutopsyGroup& right, std::size_t columns,
                      std::vector<std::string>& lines) {
  const std::size_t width = columns / 2 - 1;
  const auto add = [&](const std::string& a, const std::string& b) {
    lines.push_back(fmt::format("{:<{}}{}", cut(a, width - 2), width, cut(b, width)));
  };
  add(title_of(left), title_of(right));
  const auto rows = std::min(kFramesShown, std::max(left.frames.size(), right.frames.size()));
  for (std::size_t i = 0; i < rows; ++i) add(frame_of(left, i), frame_of(right, i));
}

}  // namespace

std::vector<std::string> autopsy_lines(const Autopsy& autopsy, std::size_t columns) {
  std::vector<std::string> lines;
  const auto& groups = autopsy.groups;
  if (groups.empty()) return lines;
  if (autopsy.outlier_count > 0) {
    lines.push_back(fmt::format("{} {} at another place in the code than the other {} ranks",
                                title_of(groups.front()), groups.front().count == 1 ? "is" : "are",
                                autopsy.rank_count - autopsy.outlier_count));
  } else if (groups.size() == 1) {
    lines.push_back(
        fmt::format("all {} ranks whose stacks are known are at the same place in the code",
                    groups.front().count));
  }
  const bool is_side_by_side = groups.size() == 2 && columns >= 60;
  if (is_side_by_side) {
    add_side_by_side(groups[0], groups[1], columns, lines);
    return lines;
  }
  for (std::size_t g = 0; g < std::min(groups.size(), kGroupsShown); ++g) {
    lines.push_back(cut(title_of(groups[g]), columns));
    for (std::size_t i = 0; i < std::min(kFramesShown, groups[g].frames.size()); ++i)
      lines.push_back(cut(frame_of(groups[g], i), columns));
  }
  if (groups.size() > kGroupsShown)
    lines.push_back(fmt::format("{} more group{}", groups.size() - kGroupsShown,
                                groups.size() - kGroupsShown == 1 ? "" : "s"));
  return lines;
}

}  // namespace dlrun
