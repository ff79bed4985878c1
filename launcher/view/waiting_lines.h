#pragma once
// Texts for a run that waits in Slurm's queue: the runs that it waits for, and the number of
// pending jobs before it. For a run that was cancelled while it waited for other jobs, the texts
// contain the names of the runs of these jobs.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"
#include "launcher/executors/squeue_query.h"
#include "launcher/runs/status.h"

namespace dlrun {

/// Returns the job ids in a dependency as sbatch takes it, each once: 12 and 13_4 in
/// "afterok:12:13_4+10,singleton".
[[nodiscard]] std::vector<std::string> job_ids_of_dependency(std::string_view dependency);

/// Returns the state in which the run ended, according to its files, such as " (failed)"; "" if the
/// files show no end. A run that `dlrun cancel` ended before its start has no recorded end, and
/// counts as " (cancelled)". Does not ask Slurm.
[[nodiscard]] std::string recorded_end_text(const std::filesystem::path& run);

/// Returns "3 of the 12 pending jobs of partition gpu come before it"; "" if none does.
[[nodiscard]] std::string queue_place_text(const QueuePlace& place);

/// Returns lines about the user's own run:
/// - if the run waits for other jobs, or was cancelled while it waited for them
///   (was_cancelled_while_waiting()): looks up the user's runs of the first eight of these jobs,
///   and names at most four of these runs, each with its end if its files have one;
/// - if the run waits for its turn in the queue: the number of jobs before it. Asks squeue for this
///   number, for at most 2 s per query, unless the job was submitted through slurmrestd.
/// Returns no lines for any other run, and none for a sweep.
[[nodiscard]] std::vector<std::string> waiting_lines(const Env& env, const RunStatus& status);

/// Returns end_text(). For a run that was cancelled while it waited for other jobs, adds the runs
/// of these jobs: "...; job 54 is the run prepare-... (failed), see `dlrun status prepare-...`".
[[nodiscard]] std::string end_text_with_runs(const Env& env, const IndexEntry& run,
                                             const RunStatus& status);

}  // namespace dlrun
