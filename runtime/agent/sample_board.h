#pragma once
// Lead's statistics of the running ranks: processor, memory, GPUs, the step of each rank, and which
// ranks are slow. Produces ranks.json and the `samples` events, whose form is described in
// runtime/ENVIRONMENT.md. No I/O, no clock.

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/run_events.h"
#include "runtime/agent/messages.h"
#include "runtime/bootstrap/world.h"

namespace dlrun::agent {

class SampleBoard {
 public:
  using Clock = std::chrono::steady_clock;

  explicit SampleBoard(Clock::time_point now)
      : began_at_(now), written_at_(now), recorded_at_(now) {}

  /// Adds a rank that has joined.
  void add(const World& world, const std::string& host);
  /// Adds a rank's heartbeat. Values that the heartbeat lacks stay unchanged.
  void add_beat(int rank, const to_lead::Beat& beat, Clock::time_point now);

  /// Returns true if a rank has reported a value.
  [[nodiscard]] bool has_samples() const { return has_samples_; }
  /// Returns true when ranks.json is to be written: a rank has reported since the last
  /// take_ranks_json(), and the interval is over. The interval is 4 s; with many ranks it is
  /// longer, at most 20 s.
  [[nodiscard]] bool is_ranks_json_due(Clock::time_point now) const;
  /// Returns true when a `samples` event is to be recorded: a rank has reported since the last
  /// take_event(), and the interval is over. The interval grows with the attempt's duration, from
  /// 4 s to 60 s, so that events.jsonl stays small even if the attempt takes a month.
  [[nodiscard]] bool is_event_due(Clock::time_point now) const;

  /// Returns the content of ranks.json, and begins the interval until the next one. Leaves out
  /// ranks that have not reported any value yet.
  [[nodiscard]] std::string take_ranks_json(int attempt, std::string_view time,
                                            Clock::time_point now);
  /// Returns the `samples` event, and begins the interval until the next one. Returns nullopt if no
  /// rank has reported since the last event.
  [[nodiscard]] std::optional<events::RankStatistics> take_event(Clock::time_point now);

 private:
  struct Rank {
    int rank = 0, node = 0, local_rank = 0, local_size = 1;
    std::optional<double> busy_cores, work_ms;
    std::optional<std::uint64_t> resident_bytes;
    std::optional<std::int64_t> step;
    std::optional<GpuUse> gpus;
    bool has_reported = false;     ///< the rank has reported a value, not only an empty heartbeat
    Clock::time_point heard_at{};  ///< time of the last heartbeat
    /// Number of steps by which the rank is behind `median_reached_`, which is 6 to 12 s old. With
    /// many ranks this median is up to 20 s old, because judge() runs more rarely.
    std::int64_t lag = 0;
    bool is_slow = false;
  };

  /// Sets the lag of each rank, and finds the slow ranks.
  void judge(Clock::time_point now);
  [[nodiscard]] static GpuUse combined(std::span<const GpuUse> gpus);
  /// Returns the use of the rank's GPUs: the rank's own report, or the GPUs of this rank in the
  /// report of its node. Returns nullopt if there is no report.
  [[nodiscard]] std::optional<GpuUse> gpu_use_of(const Rank& rank) const;
  /// Returns the power of all GPUs that ranks have reported, each GPU once; nullopt if it is
  /// unknown.
  [[nodiscard]] std::optional<double> power_of_gpus() const;
  /// Returns the ranks that have reported a value, in the order of their numbers.
  [[nodiscard]] std::vector<const Rank*> reporting_ranks() const;

  Clock::time_point began_at_, written_at_, recorded_at_;
  std::vector<std::string> nodes_;
  std::unordered_map<std::string, int> node_of_host_;
  std::unordered_map<int, std::vector<GpuUse>>
      gpus_of_node_;         ///< from ranks that report `node_gpus`
  std::vector<Rank> ranks_;  ///< in the order in which they joined
  std::unordered_map<int, std::size_t> index_of_rank_;
  struct Reached {
    std::int64_t step = 0;
    Clock::time_point when{};
  };
  /// The median step: half of the ranks had reached this step some seconds ago. By now all reports
  /// of that time have arrived.
  std::optional<Reached> median_reached_;
  std::optional<Reached> median_next_;  ///< replaces median_reached_ once it is old enough
  bool ranks_json_has_news_ = false;    ///< a rank has reported since ranks.json was last taken
  bool event_has_news_ = false;         ///< a rank has reported since the last `samples` event
  bool has_samples_ = false;            ///< a rank has reported a value
};

}  // namespace dlrun::agent
