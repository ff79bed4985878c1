#pragma once
// Explains why Slurm refused a job: the key of the spec, its place, and the names that exist here.

#include <string>
#include <string_view>

#include "launcher/submit/job.h"

namespace dlrun {

/// The kind of a name that Slurm refused.
enum class RefusedKind { kNone, kPartition, kAccount, kQos };
/// Returns the kind of the name that Slurm's message is about; kNone for other messages.
[[nodiscard]] RefusedKind refused_kind(std::string_view message);

/// Adds a diagnostic to the error: the place of the key that Slurm refused, and the partitions,
/// accounts or QOSs that the user may name. The message stays that of Slurm. Returns the error
/// unchanged if it is no refusal, if it is about none of these names, or if the job was not
/// rendered from a spec.
[[nodiscard]] Error explained_refusal(const Context& context, const Job& job, Error error);

}  // namespace dlrun
