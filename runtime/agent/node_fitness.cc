#include "runtime/agent/node_fitness.h"

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

void NodeFitness::add_result(int rank, const std::string& host, int local_size,
                             std::string_view complaint, Clock::time_point now) {
  const auto [found, is_new] = nodes_.try_emplace(host, Node{local_size, {}});
  auto& node = found->second;
  if (!is_new && node.is_fit()) --fit_;
  --node.awaited;
  if (!complaint.empty() && node.complaint.empty()) {
    node.complaint = complaint;
    ++unfit_;
    has_other_complaint_ = has_other_complaint_ ||
                           (first_ && without_details(first_->words) != without_details(complaint));
  }
  if (node.is_fit()) ++fit_;
  if (complaint.empty() || first_) return;
  first_ = Complaint{rank, host, std::string(complaint)};
  since_ = now;
}

NodeFitness::Verdict NodeFitness::verdict(int nodes, Clock::time_point now) const {
  if (!first_) return Verdict::kOpen;
  if (fit_ > 0 || has_other_complaint_) return Verdict::kNodes;
  const bool all_alike = unfit_ == nodes_.size();
  if (all_alike && static_cast<int>(nodes_.size()) >= nodes)
    return nodes > 1 ? Verdict::kEverywhere : Verdict::kNodes;
  return now >= since_ + kWaitForOthers ? Verdict::kNodes : Verdict::kOpen;
}

std::optional<NodeFitness::Clock::time_point> NodeFitness::deadline() const {
  return first_ ? std::optional(since_ + kWaitForOthers) : std::nullopt;
}

}  // namespace dlrun::agent
