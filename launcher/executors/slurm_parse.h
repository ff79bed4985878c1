#pragma once
// What Slurm's commands print, read tolerantly: fields of other versions are passed over, lines
// that do not fit as well.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "launcher/executors/executor.h"

namespace dlrun {

/// The formats that the parsers below read. The comment is last: it may hold a '|'.
inline constexpr std::string_view kSqueueFormat = "%i|%T|%r|%N|%S|%E|%k";
inline constexpr std::string_view kSacctFormat =
    "JobID,State,ExitCode,NodeList,Start,Reason,Comment";

/// sbatch --parsable: "42" or "42;cluster". Lines that a job_submit plugin printed before are
/// passed over.
[[nodiscard]] Result<JobId> parse_sbatch(std::string_view out);

/// squeue -h -o kSqueueFormat; with -M a line "CLUSTER: name" goes before each cluster's jobs.
[[nodiscard]] std::vector<JobReport> parse_squeue(std::string_view out, const std::string& cluster);

/// sacct -P -n -X -o kSacctFormat. Of a requeued job's several records the last counts.
[[nodiscard]] std::vector<JobReport> parse_sacct(std::string_view out, const std::string& cluster);

/// Of `scontrol --details show job` how many CPUs the job has on a node.
[[nodiscard]] std::optional<std::int64_t> parse_cpus_of_node(std::string_view out,
                                                             std::string_view node);

/// Slurm's reason, and of a dependency that can never hold which: "DependencyNeverSatisfied:
/// afterok:12" of "afterany:3(unfulfilled),afterok:12(failed)".
[[nodiscard]] std::string with_dependency(std::string reason, const std::string& dependency);

/// The names of `sbatch --help`: "  -A, --account=name   charge ..." and "      --[no-]thing".
[[nodiscard]] std::vector<std::string> parse_long_options(std::string_view help);

/// True when a job's comment is ours, or ours with the user's own behind it.
[[nodiscard]] bool is_comment_of(std::string_view comment, std::string_view ours);

/// Slurm's state word without what follows it ("CANCELLED by 1000", "PENDING+").
[[nodiscard]] std::string state_word(std::string_view text);
[[nodiscard]] JobPhase phase_of(std::string_view state_word);

}  // namespace dlrun
