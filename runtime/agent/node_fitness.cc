#include "runtime/agent/node_fitness.h"

namespace dlrun::agent {

namespace {

/// Returns the complaint without the details in square brackets, such as the figures of one node.
std::string without_details(std::string_view complaint) {
  std::string rest;
  int depth = 0;
  for (const char c : complaint) {
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
  if (!is_new && node.is_fit()) --fit_count_;
  --node.awaited_count;
  if (!complaint.empty() && node.complaint.empty()) {
    node.complaint = complaint;
    ++unfit_count_;
    has_other_complaint_ = has_other_complaint_ ||
                           (first_complaint_ &&
                            without_details(first_complaint_->words) != without_details(complaint));
  }
  if (node.is_fit()) ++fit_count_;
  if (complaint.empty() || first_complaint_) return;
  first_complaint_ = Complaint{rank, host, std::string(complaint)};
  first_complaint_at_ = now;
}

NodeFitness::Verdict NodeFitness::verdict(int node_count, Clock::time_point now) const {
  if (!first_complaint_) return Verdict::kOpen;
  if (fit_count_ > 0 || has_other_complaint_) return Verdict::kNodes;
  const bool all_alike = unfit_count_ == nodes_.size();
  if (all_alike && static_cast<int>(nodes_.size()) >= node_count)
    return node_count > 1 ? Verdict::kEverywhere : Verdict::kNodes;
  return now >= first_complaint_at_ + kWaitForOthers ? Verdict::kNodes : Verdict::kOpen;
}

std::optional<NodeFitness::Clock::time_point> NodeFitness::deadline() const {
  return first_complaint_ ? std::optional(first_complaint_at_ + kWaitForOthers) : std::nullopt;
}

}  // namespace dlrun::agent
