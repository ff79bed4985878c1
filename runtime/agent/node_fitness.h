#pragma once
// Lead's side of health.preflight: decides whether failed node checks are the fault of the nodes.
// If another node passes, or fails differently, the nodes that fail are at fault. If all of several
// nodes fail in the same way, the spec or the site is at fault, and a retry would not help. If the
// job has one node, or if other nodes send no results for kWaitForOthers, the nodes that fail are
// at fault. No I/O, no clock.

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace dlrun::agent {

class NodeFitness {
 public:
  using Clock = std::chrono::steady_clock;

  /// Time after the first failed check for which the verdict waits for the other nodes.
  static constexpr std::chrono::seconds kWaitForOthers{5};

  /// kOpen: undecided. kNodes: the nodes that fail are at fault. kEverywhere: all of several nodes
  /// fail in the same way.
  enum class Verdict { kOpen, kNodes, kEverywhere };

  /// Adds the result of a rank's checks, which comes with its hello, or the failure of its check of
  /// collectives. Text in square brackets is a detail: complaints that differ only in details are
  /// about the same failure. local_size: number of ranks on the rank's node. complaint: the
  /// problems that the checks found; empty if all checks passed.
  void add_result(int rank, const std::string& host, int local_size, std::string_view complaint,
                  Clock::time_point now);
  [[nodiscard]] bool has_complaint() const { return first_complaint_.has_value(); }
  /// Returns the verdict; kOpen if no check has failed. node_count: number of nodes in the world.
  [[nodiscard]] Verdict verdict(int node_count, Clock::time_point now) const;
  /// Returns the time from which verdict() is no longer kOpen, even if no further result arrives;
  /// nullopt if no check has failed.
  [[nodiscard]] std::optional<Clock::time_point> deadline() const;

  struct Complaint {
    int rank = -1;
    std::string host;
    std::string words;
  };
  /// Returns the first complaint. Call it only if has_complaint().
  [[nodiscard]] const Complaint& first_complaint() const { return *first_complaint_; }

 private:
  struct Node {
    int awaited_count = 0;  ///< number of ranks whose result has not arrived yet
    std::string complaint;

    [[nodiscard]] bool is_fit() const { return complaint.empty() && awaited_count <= 0; }
  };
  std::map<std::string, Node> nodes_;
  // verdict() is called for each hello. With these counts it does not look at all nodes.
  std::size_t fit_count_ = 0;         ///< number of fit nodes
  std::size_t unfit_count_ = 0;       ///< number of nodes with a complaint
  bool has_other_complaint_ = false;  ///< a node's complaint differs from the first one
  std::optional<Complaint> first_complaint_;
  Clock::time_point first_complaint_at_{};  ///< when the first complaint arrived
};

}  // namespace dlrun::agent
