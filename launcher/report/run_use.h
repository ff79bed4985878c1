#pragma once
// Compares the resources that a run asked for with those that it used, and says what the next spec
// could ask for. Pure functions.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/plan/plan.h"
#include "launcher/runs/history.h"
#include "launcher/runs/status.h"

namespace dlrun {

/// The resources in the #SBATCH lines of a run's script.
struct AskedResources {
  Requested requested;
  std::optional<std::int64_t> cpus_per_task;
  /// Memory of one node in MiB, and the key that asks for it: "mem", "mem_per_cpu" or
  /// "mem_per_gpu".
  std::optional<double> mem_mib;
  std::string mem_key;
  double mem_shares = 1;  ///< CPUs or GPUs of a node: the parts of mem_mib for which mem_key asks
};

/// Reads the script's #SBATCH lines. Returns nullopt if it has none: the run did not ask Slurm for
/// resources. Leaves out the memory and the cores of a heterogeneous job.
[[nodiscard]] std::optional<AskedResources> asked_resources(std::string_view script);

/// One resource: requested, used, and what could change. Texts for people; empty if unknown.
struct ResourceRow {
  std::string resource{}, requested{}, used{}, advice{};
};

/// The use of all attempts of a run together.
struct RunUse {
  double seconds = 0;      ///< time of all attempts
  std::size_t starts = 0;  ///< starts of the run's jobs; an attempt may begin without one
  /// Time from a start of a job to the end of its last attempt, for the longest one. It counts
  /// against the job's time limit.
  double longest_seconds = 0;
  std::optional<double> gpu_hours, core_hours;
  std::optional<double> gpu_joules;  ///< from the power of the GPUs; nullopt: not measured
  std::vector<ResourceRow> rows;     ///< time, memory, cores, GPUs; only what is known
};

/// The facts from which use_of() computes.
struct UseFacts {
  const RunHistory& history;
  const RunStatus& status;
  const std::optional<AskedResources>& asked;
  std::optional<double> gpu_memory_bytes{};  ///< memory of the GPUs of one rank
};

/// Returns the use of a run. Gives advice only if the run has completed, because a run that ended
/// early has not shown its needs.
[[nodiscard]] RunUse use_of(const UseFacts& facts);

/// Returns the energy of the GPUs in joules: the power between two samples of one attempt is their
/// mean. Returns nullopt with less than two samples of an attempt.
[[nodiscard]] std::optional<double> gpu_joules_of(const std::vector<SamplesPoint>& samples);

}  // namespace dlrun
