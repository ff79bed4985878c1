#pragma once
// Measures a collective operation, such as all-reduce, on this machine, for each backend and number
// of ranks (`dlrun bench collectives`).

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/env.h"
#include "common/result.h"

namespace dlrun {

/// The measurement of one backend with one message size and one number of ranks. Bandwidths are in
/// 1e9 bytes per second, as nccl-tests defines them.
struct CollectiveMeasurement {
  std::string backend;
  int ranks = 0;  ///< number of ranks
  std::uint64_t bytes = 0;
  double microseconds = 0;
  double algorithm_bandwidth = 0;
  double bus_bandwidth = 0;
};
using CollectiveMeasurements = std::vector<CollectiveMeasurement>;

/// A backend that could not be measured with a number of ranks.
struct LeftOutBackend {
  std::string backend;
  int ranks = 0;  ///< number of ranks
  std::string reason;
};

struct CollectivesRequest {
  std::string operation;  ///< all_reduce, broadcast, all_gather or reduce_scatter
  /// The message sizes in bytes: a list such as "8,64K,16M", or a range such as "8..16M", in which
  /// each size is four times the one before.
  std::string sizes;
  std::vector<std::string> backends;  ///< mpi, gloo, shm, nccl
  std::vector<int> rank_counts;
};

struct MeasuredCollectives {
  CollectiveMeasurements measurements;
  std::vector<LeftOutBackend> left_out;
};

/// Parses the value of --ranks, such as "2,4,8". Fails with kUsage unless each number is from 1
/// to 1024.
[[nodiscard]] Result<std::vector<int>> parse_rank_counts(const std::string& text);

/// Measures each backend with each number of ranks, one after the other. If a backend is left out
/// with a number of ranks, calls `on_left_out` before the next measurement. Fails with kUsage if
/// the trainer refuses its options, with kTimeout if one backend takes more than ten minutes with
/// one number of ranks, with kInterrupted after Ctrl-C, and with kInternal if the trainer prints a
/// line of JSON that is not a measurement.
[[nodiscard]] Result<MeasuredCollectives> measure_collectives(
    const Env& env, const std::filesystem::path& trainer, const CollectivesRequest& request,
    const std::function<void(const LeftOutBackend&)>& on_left_out);

/// Returns this machine's name; "this machine" if it has none.
[[nodiscard]] std::string host_name();
/// Returns the number of this machine's processors that are online.
[[nodiscard]] long processors_online();

/// Returns the JSON of `dlrun bench collectives --json`; cli/OUTPUT.md documents it.
[[nodiscard]] nlohmann::ordered_json collectives_json(const std::string& operation,
                                                      const MeasuredCollectives& measured);

/// Return the distinct backends and numbers of ranks, in the order of their first measurements.
[[nodiscard]] std::vector<std::string> backends_of(const CollectiveMeasurements& measurements);
[[nodiscard]] std::vector<int> rank_counts_of(const CollectiveMeasurements& measurements);
/// Returns the sizes measured with this number of ranks, in ascending order.
[[nodiscard]] std::vector<std::uint64_t> sizes_of(const CollectiveMeasurements& measurements,
                                                  int ranks);
/// Returns the measurement with these values; nullptr if there is none.
[[nodiscard]] const CollectiveMeasurement* find_measurement(
    const CollectiveMeasurements& measurements, const std::string& backend, int ranks,
    std::uint64_t bytes);

/// Returns "1 rank" or "4 ranks".
[[nodiscard]] std::string rank_count_text(int ranks);

/// Returns a self-contained SVG: for each number of ranks the time and the bus bandwidth over the
/// size, one line for each backend, logarithmic axes. Escapes `title`.
[[nodiscard]] std::string collectives_svg(const CollectiveMeasurements& measurements,
                                          const std::string& title);

}  // namespace dlrun
