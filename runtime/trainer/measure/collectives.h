#pragma once
// How long collectives take: `dlrun-trainer collectives`, which `dlrun bench collectives` starts.
// Sizes and bandwidths are what nccl-tests calls them (NVIDIA, nccl-tests/doc/PERFORMANCE.md), so
// that its figures can stand beside ours.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"
#include "common/result.h"
#include "runtime/comm/communicator.h"
#include "runtime/trainer/nn/kernels.h"

namespace dlrun::trainer {

enum class Collective { kAllReduce, kBroadcast, kAllGather, kReduceScatter };
[[nodiscard]] std::optional<Collective> parse_collective(std::string_view word);  ///< "all_reduce"
[[nodiscard]] std::string_view to_string(Collective collective);

/// What a rank's links carry for each byte of the operation's size: time-independent, so that
/// figures of different numbers of ranks can be compared. all_reduce: 2 (n - 1) / n; all_gather,
/// reduce_scatter: (n - 1) / n; broadcast: 1.
[[nodiscard]] double bus_factor(Collective collective, int ranks);

struct CollectiveTime {
  std::size_t bytes =
      0;  ///< of the whole: all_gather's result, reduce_scatter's input; a multiple of the ranks
  double microseconds = 0;
  [[nodiscard]] double algorithm_gb_s() const {  ///< bytes / time, 1e9 bytes a second
    return microseconds > 0 ? static_cast<double>(bytes) / microseconds / 1e3 : 0;
  }
};

/// Times collective (float32, sum, root 0) for each of sizes, in bytes, rounded down to whole
/// elements on each rank, at least one. A rank's time is the median over rounds of the mean of many
/// calls in a row; given is the mean over ranks. Each size's first result is checked against the
/// closed form: kInternal when it is wrong. Buffers are kernels' memory.
[[nodiscard]] Result<std::vector<CollectiveTime>> time_collective(
    Communicator& communicator, Kernels<float>& kernels, Collective collective,
    std::span<const std::size_t> sizes);

struct CollectivesOptions {
  std::string backend = "auto";
  Collective collective = Collective::kAllReduce;
  std::vector<std::size_t> sizes;  ///< bytes
  int ranks = 0;  ///< start so many on this machine; 0: this is one rank of the launcher's world
  bool wants_help = false;
};

/// args without the program's name and `collectives`. Fails with kUsage.
[[nodiscard]] Result<CollectivesOptions> parse_collectives_options(
    std::span<const std::string> args);
[[nodiscard]] std::string collectives_help_text();

/// Starts the ranks where they are asked for, measures; rank 0 prints one JSON object a line and
/// size:
/// {"backend","operation","ranks","nodes","bytes","us","algbw","busbw"}, bandwidths in 1e9 bytes a
/// second. With ranks of its own a rank that fails ends the others.
[[nodiscard]] Result<> run_collectives(const CollectivesOptions& options, const Env& env);

}  // namespace dlrun::trainer
