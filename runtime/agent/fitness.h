#pragma once
// health.preflight, lead's side: whose fault it is that nodes are not fit. A node's, where another
// one passes or fails in another way; where all fail alike it is the spec's or the site's, and
// another start would change nothing. No I/O, no clock.

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace dlrun::agent {

class Fitness {
 public:
  using Clock = std::chrono::steady_clock;

  /// After the first complaint so long for the other nodes to say hello.
  static constexpr std::chrono::seconds kOthersWait{5};

  enum class Verdict { kOpen, kNodes, kEverywhere };

  /// A rank says hello. local_size: the ranks of its node. unfit: its complaint, empty for none.
  void note(int rank, const std::string& host, int local_size, std::string_view unfit,
            Clock::time_point now);
  [[nodiscard]] bool has_complaint() const { return first_.has_value(); }
  /// nodes: how many the world has. kOpen where there is no complaint.
  [[nodiscard]] Verdict verdict(int nodes, Clock::time_point now) const;
  /// When the verdict comes without another hello.
  [[nodiscard]] std::optional<Clock::time_point> deadline() const;

  struct Complaint {
    int rank = -1;
    std::string host;
    std::string words;
  };
  /// The first one.
  [[nodiscard]] const Complaint& first() const { return *first_; }

 private:
  struct Node {
    int awaited = 0;  ///< ranks that have not said hello
    std::string complaint;
  };
  std::map<std::string, Node> nodes_;
  std::optional<Complaint> first_;
  Clock::time_point since_{};
};

}  // namespace dlrun::agent
