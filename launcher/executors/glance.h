#pragma once
// Queries a job once, to tell the user when the job will start and which jobs are before it.

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/executors/executor.h"

namespace dlrun {

/// Returns squeue's report on the job; nullopt if squeue does not answer in time or does not know
/// the job. env is the submitter's environment.
[[nodiscard]] std::optional<JobReport> glance_at(const Env& env, const JobId& job,
                                                 std::chrono::milliseconds at_most);

/// The place of a pending job among the pending jobs of its partitions. An array that is pending
/// counts once.
struct QueuePlace {
  std::string partitions;   ///< as the job asks for them: "gpu", or "gpu,long"
  std::size_t pending = 0;  ///< pending jobs that squeue shows, the job itself included
  std::size_t ahead = 0;    ///< jobs before it: higher priority, or same and older
};

/// Reads the place from squeue's answers. own: the job's line "PARTITIONS|PRIORITY|JOB". queue: a
/// line "PRIORITY|JOB" for each pending job. Returns nullopt if own is not such a line.
[[nodiscard]] std::optional<QueuePlace> parse_queue_place(std::string_view own,
                                                          std::string_view queue);

/// Asks squeue for the place of a pending job. Returns nullopt if squeue does not answer within
/// at_most, which holds for each of the two queries. Clusters may hide the jobs of other users;
/// then the numbers count the visible jobs only.
[[nodiscard]] std::optional<QueuePlace> queue_place_at(const Env& env, const JobId& job,
                                                       std::chrono::milliseconds at_most);

}  // namespace dlrun
