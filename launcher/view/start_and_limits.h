#pragma once
// Texts for the user of a submitted job: when the job starts, and which limits its partition has.

#include <optional>
#include <string>
#include <string_view>

#include "common/env.h"
#include "launcher/executors/executor.h"
#include "launcher/runs/journal.h"
#include "launcher/spec/site_profile.h"

namespace dlrun {

/// Returns the partition's limits from the site's file: "gpu: at most 2-00:00:00 and 8 nodes for a
/// job; a node has 4 GPUs (a100), 64 CPUs, 512000 MiB". An empty `partition` means the site's
/// default. Returns "" if the file has no limits for it.
[[nodiscard]] std::string partition_text(const SiteProfile& site, std::string partition);

/// Returns "about 2026-11-22T03:00:00, as Slurm estimates it now", "now, on n1", or why no
/// estimate exists. dependency: the dependency with which dlrun submitted the job, such as
/// "afterok:12"; empty if there is none.
[[nodiscard]] std::string start_text(const JobReport& report, std::string_view dependency = {});

/// Returns a warning for a pending job that cannot start unless its request or the cluster's
/// settings change, with the meaning of Slurm's reason. Returns "" for every other job.
[[nodiscard]] std::string cannot_start_text(const JobReport& report);

/// Asks Slurm once about a new job; for an array, about its first task. Returns nullopt if the
/// controller does not answer within 2 s, or if the job was submitted through slurmrestd, which is
/// slow.
[[nodiscard]] std::optional<JobReport> report_of_new_job(const Env& env,
                                                         const Submission& submission);

}  // namespace dlrun
