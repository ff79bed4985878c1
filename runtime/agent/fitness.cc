#include "runtime/agent/fitness.h"

#include <algorithm>

namespace dlrun::agent {

namespace {

/// Returns the complaint without the details in square brackets, such as the figures of one node.
std::string without_details(std::string_view words) {
  std::string rest;
  int depth = 0;
  for (const char c : words) {
    if (c == '[') ++depth;
    if (depth == 0) rest += c;
    if (c == ']' && depth > 0) --depth;
  }
  return rest;
}

}  // namespace

void Fitness::note(int rank, const std::string& host, int local_size, std::string_view unfit,
                   Clock::time_point now) {
  auto& node = nodes_.try_emplace(host, Node{local_size, {}}).first->second;
  --node.awaited;
  if (unfit.empty()) return;
  if (node.complaint.empty()) node.complaint = unfit;
  if (first_) return;
  first_ = Complaint{rank, host, std::string(unfit)};
  since_ = now;
}

Fitness::Verdict Fitness::verdict(int nodes, Clock::time_point now) const {
  if (!first_) return Verdict::kOpen;
  bool all_alike = true;
  for (const auto& [host, node] : nodes_) {
    const bool is_fit = node.complaint.empty() && node.awaited <= 0;
    const bool differs = !node.complaint.empty() &&
                         without_details(node.complaint) != without_details(first_->words);
    if (is_fit || differs) return Verdict::kNodes;
    all_alike = all_alike && !node.complaint.empty();
  }
  if (all_alike && static_cast<int>(nodes_.size()) >= nodes)
    return nodes > 1 ? Verdict::kEverywhere : Verdict::kNodes;
  return now >= since_ + kOthersWait ? Verdict::kNodes : Verdict::kOpen;
}

std::optional<Fitness::Clock::time_point> Fitness::deadline() const {
  return first_ ? std::optional(since_ + kOthersWait) : std::nullopt;
}

}  // namespace dlrun::agent
