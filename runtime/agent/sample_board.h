#pragma once
// What lead knows of its ranks while they run: processor, memory, GPUs, how far each is and which
// are slow. No I/O, no clock of its own; runtime/ENVIRONMENT.md ("ranks.json", event `samples`) has
// the form of what comes out.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/bootstrap/world.h"

namespace dlrun::agent {

class SampleBoard {
 public:
  using Clock = std::chrono::steady_clock;
  using Json = nlohmann::ordered_json;

  explicit SampleBoard(Clock::time_point now) : began_(now), written_(now), recorded_(now) {}

  /// A rank has joined.
  void add(const World& world, const std::string& host);
  /// What a rank's heartbeat carries; fields that are missing or wrong stay as they were.
  void note(int rank, const Json& beat, Clock::time_point now);

  [[nodiscard]] bool has_any() const { return has_any_; }
  /// Time to write ranks.json: every few seconds, more seldom the more ranks there are.
  [[nodiscard]] bool is_snapshot_due(Clock::time_point now) const;
  /// Time to record a `samples` event: the more seldom the longer the attempt runs, so that a month
  /// of them stays small.
  [[nodiscard]] bool is_record_due(Clock::time_point now) const;

  /// ranks.json, whole. Ranks that have told nothing yet are left out.
  [[nodiscard]] std::string snapshot(int attempt, std::string_view time, Clock::time_point now);
  /// The fields of a `samples` event; nothing while no rank has told anything new.
  [[nodiscard]] std::optional<Json> record(Clock::time_point now);

 private:
  struct Gpus {
    std::optional<double> percent;
    std::optional<std::uint64_t> used_bytes, total_bytes;
  };
  struct Rank {
    int rank = 0, node = 0, local_rank = 0, local_size = 1;
    std::optional<double> cores, work_ms;
    std::optional<std::uint64_t> resident_bytes;
    std::optional<std::int64_t> step;
    std::optional<Gpus> gpus;
    bool has_told = false;      ///< more than that it lives
    Clock::time_point lived{};  ///< its last heartbeat
    std::int64_t lag = 0;       ///< steps, behind where half of all ranks were some seconds ago
    bool is_slow = false;
  };

  void judge(Clock::time_point now);
  [[nodiscard]] std::optional<Gpus> gpus_of(const Rank& rank) const;
  /// Those that have told something, in the order of ranks.
  [[nodiscard]] std::vector<const Rank*> heard() const;

  Clock::time_point began_, written_, recorded_;
  std::vector<std::string> nodes_;
  std::unordered_map<std::string, int> node_of_host_;
  std::unordered_map<int, std::vector<Gpus>> gpus_of_node_;  ///< where one rank told its node's
  std::vector<Rank> ranks_;                                  ///< in the order in which they joined
  std::unordered_map<int, std::size_t> place_of_rank_;
  struct Reached {
    std::int64_t step = 0;
    Clock::time_point when{};
  };
  std::optional<Reached> half_reached_;  ///< by half of the ranks, long enough ago for all reports
                                         ///< of that time to be here
  std::optional<Reached> half_next_;     ///< what comes in its place
  bool has_news_ = false, has_any_ = false;
};

}  // namespace dlrun::agent
