#pragma once
// Checks and builds the environments of a job (environment.uv, pixi, spack, uenv, eessi) on the
// submitting machine, before the job is recorded or queued. The ranks do not build them, because
// ranks that build the same environment at the same time can damage it.

#include <chrono>

#include "launcher/submit/experiment.h"
#include "launcher/submit/reporter.h"

namespace dlrun {

/// Whether dlrun may load the modules of the job on this machine. A module file can run any
/// program, and the author of a spec may have written the module files. A command that starts no
/// job therefore loads no module.
enum class ModuleLoading { kAllowed, kForbidden };

/// Looks for the tools and files that the environments need. Builds nothing. With kForbidden, does
/// not look for tools that the job's modules could bring. The error holds each problem with its
/// place in the spec.
[[nodiscard]] Result<> check_environments(const Context& context, const Experiment& experiment,
                                          ModuleLoading loading);

/// Makes missing lock files of uv and pixi, builds the environments, and fetches missing images of
/// uenv. Only one dlrun builds an environment at a time. An environment of uv that is up to date is
/// not built again. Kills a call of a tool after `limit`. Fails with kInvalid and the last lines of
/// the tool's output, or with kInterrupted after Ctrl-C. Does nothing for a spec without uv, pixi,
/// spack and uenv.
[[nodiscard]] Result<> build_environments(const Context& context, Reporter& reporter,
                                          const Experiment& experiment,
                                          std::chrono::milliseconds limit = std::chrono::hours(6));

}  // namespace dlrun
