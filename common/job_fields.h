#pragma once
// The fields in the output of `scontrol show job`, without the texts that users choose.

#include <string>
#include <string_view>

namespace dlrun {

/// Returns only the lines that Slurm itself fills in. Removes the line with the job's name, and all
/// lines from the job's command on, because a name, path or comment may contain text that looks
/// like a field, such as "x JobState=FAILED". output: printed without --oneliner, for one job or
/// for the parts of a heterogeneous job. If the output lacks a job's first line, which has its id
/// and its name, returns all lines of this job up to its command.
[[nodiscard]] std::string fields_of_jobs(std::string_view output);

}  // namespace dlrun
