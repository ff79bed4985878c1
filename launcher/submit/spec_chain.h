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

/// Returns the command with which the user submits the spec in options.file alone, with the given
/// options. The job of this command waits for `runs_before` (after.ok).
[[nodiscard]] std::string command_that_submits(const SpecOptions& options,
                                               const std::vector<std::string>& runs_before);

/// Makes the job start only after the run has succeeded. The job must have a spec. option: the
/// command-line option that adds the dependency. The option becomes the origin of after.ok unless
/// the spec sets this key.
void add_dependency_on_run(Job& job, const RunDirectory& run, const std::string& option);

/// Checks and submits a planned job that has no sweep.
[[nodiscard]] Result<Submitted> submit_planned(Context& context, Reporter& reporter,
                                               RunInspector& inspector, Job job);

/// Fails with kUsage if the call comes from another machine (-H), which could not repeat several
/// submissions safely. option: the option that makes several submissions, for the message.
[[nodiscard]] Result<> refuse_remote_call(Context& context, std::string_view option);

/// Runs that were submitted one after the other: those of --chain, or a rehearsal and its run. If a
/// submission failed, the sequence is incomplete.
struct SubmittedSequence {
  std::vector<Submitted> submitted;  ///< in order
  /// Why the spec that follows the last entry of `submitted` could not be submitted. dlrun does not
  /// try the specs after that one. nullopt: all specs were submitted, or the last entry of
  /// `submitted` is incomplete (Submitted::failure, is_interrupted).
  std::optional<Error> failure;
  std::string advice;  ///< with failure: how the user continues
};

/// Submits each spec as submit_spec() does. The `after.ok` of each spec also gets the run of the
/// spec before it. Reads and plans all specs before it submits the first one. options: apply to all
/// specs; options.file is ignored. Fails and submits nothing
/// - if a spec cannot be planned, has sweep.ask or is a script without a spec;
/// - if the call comes from another machine (see refuse_remote_call());
/// - if the submission of the first spec fails.
[[nodiscard]] Result<SubmittedSequence> submit_spec_chain(Context& context, Reporter& reporter,
                                                          RunInspector& inspector,
                                                          const std::vector<std::string>& specs,
                                                          const SpecOptions& options);

}  // namespace dlrun
