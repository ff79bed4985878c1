#pragma once
// Submits several specs so that each job starts after the one before it has succeeded (`submit
// --chain`). follow_up_jobs.h submits the other kind of chain: several jobs of one run
// (retry.chain).

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/submit/submit_spec.h"

namespace dlrun {

/// Makes the job, which has a spec, start only after the run has succeeded. option: the
/// command-line option that adds the dependency; it becomes the origin of after.ok.
void add_dependency_on_run(Job& job, const RunDirectory& run, const std::string& option);

/// Checks and submits a planned job that has no sweep.
[[nodiscard]] Result<Submitted> submit_planned(Context& context, Reporter& reporter,
                                               RunInspector& inspector, Job job);

/// Fails with kUsage if the call comes from another machine, which could not repeat several
/// submissions safely. option: the name of the option in the message.
[[nodiscard]] Result<> refuse_remote_call(Context& context, std::string_view option);

/// The submitted part of a chain.
struct SubmittedChain {
  std::vector<Submitted> submitted;  ///< in order
  /// Why the next spec and those after it were not submitted. nullopt: all specs were submitted, or
  /// the last entry of `submitted` is incomplete (Submitted::failure, is_interrupted).
  std::optional<Error> failure;
  std::string advice;  ///< with failure: how the user continues
};

/// Submits each spec as submit_spec() does. The `after.ok` of each spec also gets the run of the
/// spec before it. Reads and plans all specs before it submits the first one. options: apply to all
/// specs; options.file is ignored. Fails and submits nothing if a spec is wrong, has sweep.ask or
/// is a script without a spec, or if the call comes from another machine, which could not repeat
/// several submissions safely.
[[nodiscard]] Result<SubmittedChain> submit_spec_chain(Context& context, Reporter& reporter,
                                                       RunInspector& inspector,
                                                       const std::vector<std::string>& specs,
                                                       const SpecOptions& options);

}  // namespace dlrun
