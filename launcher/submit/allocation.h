#pragma once
// The allocation of a running job of the user, in which a run can start
// (`dlrun run --here`, `dlrun submit --in`).

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/submit/context.h"
#include "launcher/submit/job.h"

namespace dlrun {

/// The allocation of a job. The CPUs, GPUs and memory are those of all its nodes together. A number
/// that Slurm does not report is nullopt.
struct Allocation {
  std::string job;        ///< Slurm's number of the job
  std::string node_list;  ///< compressed
  std::string partition;
  std::string end;  ///< when the job ends, as squeue prints it
  std::int64_t nodes = 0, cpus = 0;
  std::optional<std::int64_t> gpus, memory_mib;
  int restarts = 0;  ///< how often Slurm has requeued the job
};

/// The format of squeue that parse_allocation() reads. No field holds text that another user can
/// choose.
inline constexpr std::string_view kAllocationFormat = "%A|%U|%T|%D|%C|%P|%e|%N";

/// Returns the allocation. squeue: the output with kAllocationFormat. scontrol: the output of
/// `scontrol --details show job`. job: the id that the user gave, for messages only. user: the only
/// owner whose job is accepted. Fails with kNotFound if squeue's output is not a line with all
/// fields, with kUsage if the job is another user's or does not run, and with kUnavailable if a
/// field of the line has no usable value.
[[nodiscard]] Result<Allocation> parse_allocation(std::string_view squeue,
                                                  std::string_view scontrol, std::string_view job,
                                                  uid_t user);

/// Asks Slurm for the allocation of a running job of this user. Fails as parse_allocation() does,
/// with kUsage if `job` is not a job id, and with kUnavailable if Slurm does not answer.
[[nodiscard]] Result<Allocation> find_allocation(const Context& context, const std::string& job);

/// Returns an error for each request of the experiment that the allocation cannot fulfil. The error
/// has the place of the request in the spec. A number that Slurm did not report is not checked.
[[nodiscard]] std::vector<Diagnostic> unfulfilled_requests(const Experiment& experiment,
                                                           const Allocation& allocation);

/// Sets the variables that a job script finds in its allocation.
void set_allocation_variables(Env& env, const LaunchPlan& plan, const Allocation& allocation,
                              const std::string& cluster);

}  // namespace dlrun
