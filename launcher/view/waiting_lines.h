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

/// Returns the end that the run's files show: " (failed)"; " (cancelled)" also for a run that
/// `dlrun cancel` has cancelled before its start. Returns "" if they show none. Does not ask Slurm.
[[nodiscard]] std::string recorded_end_text(const std::filesystem::path& run);

/// Returns "3 of the 12 pending jobs of partition gpu come before it"; "" if none does.
[[nodiscard]] std::string queue_place_text(const QueuePlace& place);

/// Returns lines about the user's own pending run: the names of at most four runs among the first
/// eight jobs that it waits for, with their ends if their files have them, and the number of jobs
/// before it. For a run that was cancelled while it waited for other jobs
/// (was_cancelled_while_waiting()), returns the names and the ends of their runs. Returns no lines
/// for any other run, and none for a sweep. Asks squeue, for at most 2 s per query, only about a
/// job that waits for its turn and was not submitted through slurmrestd.
[[nodiscard]] std::vector<std::string> waiting_lines(const Env& env, const RunStatus& status);

/// Returns end_text(). For a run that was cancelled while it waited for other jobs, also names
/// their runs: "...; job 54 is the run prepare-... (failed), see `dlrun status prepare-...`".
[[nodiscard]] std::string end_text_with_runs(const Env& env, const IndexEntry& run,
                                             const RunStatus& status);

}  // namespace dlrun
