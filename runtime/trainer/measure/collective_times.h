#pragma once
// Measures collectives: `dlrun-trainer collectives`, which `dlrun bench collectives` starts. Sizes
// and bandwidths are defined as in nccl-tests (NVIDIA, nccl-tests/doc/PERFORMANCE.md), so that
// results can be compared.

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
/// Returns the collective with this name, for example "all_reduce"; nothing for any other text.
[[nodiscard]] std::optional<Collective> parse_collective(std::string_view name);
/// Returns the name that parse_collective() parses.
[[nodiscard]] std::string_view to_string(Collective collective);

/// Returns the number of bytes that a rank's links carry for each byte of the operation's size.
/// This factor makes bandwidths for different numbers of ranks comparable. all_reduce: 2 (n - 1) /
/// n; all_gather and reduce_scatter: (n - 1) / n; broadcast: 1.
[[nodiscard]] double bus_factor(Collective collective, int ranks);

struct CollectiveTime {
  /// Size of the array: of the result for all_gather, and of the input for reduce_scatter. The
  /// number of elements of these two arrays is a multiple of the number of ranks.
  std::size_t bytes = 0;
  double microseconds = 0;
  [[nodiscard]] double algorithm_gb_s() const {  ///< bytes / time, in 1e9 bytes per second
    return microseconds > 0 ? static_cast<double>(bytes) / microseconds / 1e3 : 0;
  }
};

/// Times a collective (float32, sum, root 0) for each size in bytes. A size is rounded down to a
/// multiple of a unit: 4 bytes, or 4 bytes for each rank if the array is divided among the ranks. A
/// size below the unit becomes the unit. A round measures the mean of many calls in a row; a rank's
/// time is the median over rounds; the returned time is the mean over ranks. The array after the
/// first call of each size is compared with the expected values. The buffers are in the memory of
/// the device that `kernels` uses. All ranks must call it. Fails with kInternal if a result is
/// wrong, and as the collectives do.
[[nodiscard]] Result<std::vector<CollectiveTime>> time_collective(
    Communicator& communicator, Kernels<float>& kernels, Collective collective,
    std::span<const std::size_t> sizes);

/// Calls a collective once, and compares each element with its expected value. All ranks must call
/// it. bytes: rounded like an entry of sizes in time_collective(). Fails as that function does.
[[nodiscard]] Result<> check_collective(Communicator& communicator, Kernels<float>& kernels,
                                        Collective collective, std::size_t bytes);

struct CollectivesOptions {
  std::string backend = "auto";
  Collective collective = Collective::kAllReduce;
  std::vector<std::size_t> sizes;  ///< bytes
  /// Number of ranks to start on this machine. 0: the ranks run already (started by the agent, srun
  /// or mpirun), and this process is one of them.
  int ranks = 0;
  bool wants_help = false;
};

/// Parses the arguments after `collectives`. Fails with kUsage.
[[nodiscard]] Result<CollectivesOptions> parse_collectives_options(
    std::span<const std::string> args);
[[nodiscard]] std::string collectives_help_text();

/// Starts the ranks if requested, and measures. Rank 0 prints a line with a JSON object for each
/// size: {"backend","operation","ranks","nodes","bytes","us","algbw","busbw"}. The bandwidths are
/// in 1e9 bytes per second. The arrays are in GPU memory for the backend nccl, and in host memory
/// for all other backends, also for rccl. If this process started the ranks, it kills the other
/// ranks after one fails. Fails with kUsage if options.ranks > 0 with backend "mpi", with
/// kUnavailable if a library or a GPU is missing, with kPeer or kTimeout if a rank is lost, and as
/// time_collective() does.
[[nodiscard]] Result<> run_collectives(const CollectivesOptions& options, const Env& env);

}  // namespace dlrun::trainer
