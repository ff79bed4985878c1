#pragma once
// Marks a cancelled run, point or array of a sweep by the file `cancelled` in its directory. The
// mark shows later why a job never started: Slurm soon forgets a job that was cancelled before its
// start, and immediately forgets tasks of an array that were cancelled before their start. The mark
// also tells a cancellation by `dlrun cancel` from other signals that end a run.

#include <filesystem>

#include "common/result.h"

namespace dlrun {

/// Sets the mark. Does nothing if the mark is set. Fails with kIo if the file cannot be written.
[[nodiscard]] Result<> mark_cancelled(const std::filesystem::path& run_or_array);
/// Returns true if the mark is set.
[[nodiscard]] bool is_marked_cancelled(const std::filesystem::path& run_or_array);
/// Removes the mark. Call it when the job is submitted again.
void unmark_cancelled(const std::filesystem::path& run_or_array);

}  // namespace dlrun
