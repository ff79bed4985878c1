#pragma once
// Explains why Slurm refused a job: the key of the spec, its place, and the names that exist here.

#include "launcher/submit/job.h"

namespace dlrun {

/// Adds diagnostics to the error; the message stays that of Slurm.
/// - For a heterogeneous job, asks the executor about each part alone, and adds a diagnostic for
///   each component whose part is refused.
/// - For another job, error.refusal decides. If it is about a partition, an account or a QOS, adds
///   the place of the key, and the names that the user may give. If no nodes are available for the
///   job, and it asks for more nodes than its partition has, adds the place of resources.nodes.
/// Returns the error unchanged if it is no refusal, or if the job was not rendered from a spec.
[[nodiscard]] Error explained_refusal(const Context& context, const Job& job, Executor& executor,
                                      Error error);

}  // namespace dlrun
