#pragma once
// Explains why Slurm refused a job: the key of the spec, its place, and the names that exist here.

#include "launcher/submit/job.h"

namespace dlrun {

/// Adds a diagnostic to the error: the place of the key that Slurm refused, and the partitions,
/// accounts or QOSs that the user may name. error.refusal decides about which of these names the
/// diagnostic is; the message stays that of Slurm. Returns the error unchanged if it is no refusal,
/// if error.refusal is none of these names, or if the job was not rendered from a spec.
[[nodiscard]] Error explained_refusal(const Context& context, const Job& job, Error error);

}  // namespace dlrun
