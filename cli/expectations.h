#pragma once
// What a user may expect of a job that is submitted: when it starts, and how much its partition
// would give.

#include <optional>
#include <string>

#include "cli/cli.h"
#include "launcher/executors/executor.h"
#include "launcher/runs/journal.h"
#include "launcher/spec/site_profile.h"

namespace dlrun {

/// "gpu: at most 2-00:00:00 and 8 nodes for a job; a node has 4 GPUs (a100), 64 CPUs, 512000 MiB",
/// of the site's file; partition: empty is the site's default. Empty where the file says nothing
/// about it.
[[nodiscard]] std::string partition_text(const SiteProfile& site, std::string partition);

/// "about 2026-11-22T03:00:00, as Slurm estimates it now", or why there is no estimate.
[[nodiscard]] std::string start_text(const JobReport& report);

/// What to say of a job that waits for what does not come: it asks for more than its partition or
/// its user has. Empty for every other reason.
[[nodiscard]] std::string never_text(const JobReport& report);

/// One look at a job, or the first task of an array, that Slurm has just taken. A controller that
/// is busy delays nobody for long, and a slurmrestd has taken its time already: nothing then.
[[nodiscard]] std::optional<JobReport> glance(const Cli& cli, const Submission& submission);

}  // namespace dlrun
