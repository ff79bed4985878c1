#pragma once
// Queries squeue about one job: the job's state and expected start, and its place among the
// pending jobs.

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/executors/executor.h"

namespace dlrun {

/// Returns squeue's report on the job; nullopt if squeue does not answer in time or does not know
/// the job. env: the user's whole environment.
[[nodiscard]] std::optional<JobReport> squeue_report_on(const Env& env, const JobId& job,
                                                        std::chrono::milliseconds query_timeout);

/// The place of a pending job among the pending jobs of its partitions. An array that is pending
/// counts once.
struct QueuePlace {
  std::string partitions;   ///< as the job asks for them: "gpu", or "gpu,long"
  std::size_t pending = 0;  ///< pending jobs that squeue shows, the job itself included
  /// Pending jobs with a higher priority, or with the same priority and a smaller id.
  std::size_t ahead = 0;
};

/// Reads the place from squeue's answers. job_lines: the job's line "PARTITIONS|PRIORITY|JOB",
/// perhaps after other lines. pending_lines: a line "PRIORITY|JOB" for each pending job. Returns
/// nullopt if job_lines has no such line.
[[nodiscard]] std::optional<QueuePlace> parse_queue_place(std::string_view job_lines,
                                                          std::string_view pending_lines);

/// Asks squeue for the place of a pending job, in two queries. Returns nullopt if squeue does not
/// know the job, or if a query fails or takes too long. Clusters may hide the jobs of other users;
/// the numbers then count the visible jobs only.
[[nodiscard]] std::optional<QueuePlace> queue_place_of(const Env& env, const JobId& job,
                                                       std::chrono::milliseconds query_timeout);

}  // namespace dlrun
