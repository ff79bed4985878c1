#pragma once
// Prints the result of `submit` and `resubmit`. With --watch, follows the job.

#include <cstddef>

#include "cli/cli.h"
#include "launcher/runs/status.h"
#include "launcher/submit/submitting.h"

namespace dlrun {

/// The options --watch and --json of the commands that start runs.
struct OutputOptions {
  bool watch = false, json = false;
};

/// Prints the submitted job or sweep. With `output.watch`, also follows it to its end. Returns
/// the exit code. Fails with the reason if Slurm did not get all arrays of a sweep, and with kIo if
/// the submission could not be printed.
[[nodiscard]] Result<int> print_and_watch(const Cli& cli, RunInspector& inspector,
                                          const Submitted& submitted, const OutputOptions& output);

/// The width, in columns, of the labels below the name of a new run.
inline constexpr std::size_t kRunLabelWidth = 11;

}  // namespace dlrun
