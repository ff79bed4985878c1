#pragma once
// Compares the resources that a run asked for with those that it used, and suggests requests for
// the next spec. Pure functions.

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

/// The resources that a run's script requests in its #SBATCH lines, for the whole job, for a task
/// and for a node.
struct RequestedResources {
  Requested whole_job;
  std::optional<std::int64_t> cpus_per_task;
  /// Memory of one node in MiB, and the key that asks for it: "mem", "mem_per_cpu" or
  /// "mem_per_gpu".
  std::optional<double> mem_mib;
  std::string mem_key;
  /// mem_mib divided by this number is the value of mem_key: 1 for mem, the CPUs of a node for
  /// mem_per_cpu, the GPUs of a node for mem_per_gpu.
  double units_per_node = 1;
};

/// Reads the script's #SBATCH lines. Returns nullopt if the script has none: the run did not ask
/// Slurm for resources. Leaves out the memory and the cores per task of a heterogeneous job.
[[nodiscard]] std::optional<RequestedResources> requested_resources(std::string_view script);

/// The requested and the used amount of one resource, and a suggestion for the next spec. Texts for
/// people; empty if unknown.
struct ResourceRow {
  std::string resource{}, requested{}, used{}, advice{};
};

/// The use of all attempts of a run together.
struct RunUse {
  double seconds = 0;  ///< time of all attempts
  /// The number of starts of the run's jobs. An attempt that `dlrun-agent lead` starts in the
  /// same allocation is no start of a job.
  std::size_t start_count = 0;
  /// The longest time from a start of a job to the end of the last attempt of this start. Slurm
  /// compares this time with the job's time limit.
  double longest_job_seconds = 0;
  std::optional<double> gpu_hours, core_hours;
  std::optional<double> gpu_joules;  ///< computed from the power of the GPUs; nullopt: not measured
  std::vector<ResourceRow> rows;     ///< time, memory, cores, GPUs; only what is known
};

/// The facts from which use_of() computes.
struct UseFacts {
  const RunHistory& history;
  const RunStatus& status;
  const std::optional<RequestedResources>& requested;
  std::optional<double> gpu_memory_size_bytes{};  ///< the size of the memory of one rank's GPUs
};

/// Returns the use of a run. Gives advice only if the run has completed, because a run that ended
/// early has not shown its needs.
[[nodiscard]] RunUse use_of(const UseFacts& facts);

/// Returns the energy of the GPUs in joules. Between two samples of one attempt, the mean of their
/// two powers counts. Returns nullopt if no attempt has two samples.
[[nodiscard]] std::optional<double> gpu_joules_of(const std::vector<SamplesPoint>& samples);

}  // namespace dlrun
