#pragma once
// Parses the output of Slurm's commands. Tolerates other versions of Slurm: skips lines that do not
// have the expected form.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "launcher/executors/executor.h"

namespace dlrun {

/// The output formats for the parsers below. In both, the comment is the last field, because it may
/// hold a '|'. kSqueueFormat: id, state, reason, nodes, start, dependency, comment.
inline constexpr std::string_view kSqueueFormat = "%i|%T|%r|%N|%S|%E|%k";
inline constexpr std::string_view kSacctFormat =
    "JobID,State,ExitCode,NodeList,Start,Reason,Comment";

/// Parses the output of sbatch --parsable: "42" or "42;cluster". Skips the lines of job_submit
/// plugins. Fails with kInternal if no line has this form.
[[nodiscard]] Result<JobId> parse_sbatch(std::string_view out);

/// Parses the output of squeue -h -o kSqueueFormat. With -M, a line "CLUSTER: name" precedes each
/// cluster's jobs.
[[nodiscard]] std::vector<JobReport> parse_squeue(std::string_view out, const std::string& cluster);

/// Parses the output of sacct -P -n -X -o kSacctFormat. A requeued job has several records; the
/// last one counts.
[[nodiscard]] std::vector<JobReport> parse_sacct(std::string_view out, const std::string& cluster);

/// Converts a time that Slurm's commands print, such as JobReport::start, to UTC. If the time zone
/// of this process is UTC+1, 2026-11-22T03:00:00 becomes 2026-11-22T02:00:00.000Z. Returns "" if
/// the text is no time, or if the clock skips this time when summer time begins. For a time that
/// the clock shows twice when summer time ends, returns one of the two.
[[nodiscard]] std::string utc_of_slurm_time(std::string_view local);

/// Returns the number of CPUs that a job has on a node, from the output of `scontrol --details show
/// job`; nullopt if the output does not show it.
[[nodiscard]] std::optional<std::int64_t> parse_job_cpus_on_node(std::string_view out,
                                                                 std::string_view node);

/// Slurm's reason for a job whose dependency can no longer be fulfilled.
inline constexpr std::string_view kNeverSatisfied = "DependencyNeverSatisfied";

/// Returns the failed dependencies in squeue's column of dependencies: "afterok:12" in
/// "afterany:3(unfulfilled),afterok:12(failed)".
[[nodiscard]] std::vector<std::string> failed_dependencies(std::string_view dependency);

/// Returns the option names in `sbatch --help`, from lines such as "-A, --account=name" and
/// "--[no-]thing".
[[nodiscard]] std::vector<std::string> parse_long_options(std::string_view help);

/// Returns true if a job's comment is `dlrun_comment` (the comment that dlrun sets for one
/// submission), alone or followed by a space and the user's comment.
[[nodiscard]] bool starts_with_dlrun_comment(std::string_view comment,
                                             std::string_view dlrun_comment);

/// Returns Slurm's name of a state without the text after it: "CANCELLED" for "CANCELLED by 1000",
/// "PENDING" for "PENDING+".
[[nodiscard]] std::string state_word(std::string_view text);
/// Returns the phase of a state; kRunning for an unknown state.
[[nodiscard]] JobPhase phase_of(std::string_view state_word);

}  // namespace dlrun
