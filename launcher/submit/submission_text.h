#pragma once
// Describes a submission that Slurm has accepted. The texts are single lines without layout.

#include <string>

#include "common/env.h"
#include "common/shown_data.h"
#include "launcher/submit/submitting.h"

namespace dlrun {

/// Returns "as job 42 on alpine", or "as jobs 42 43" for the arrays of a sweep.
[[nodiscard]] std::string jobs_text(const Submitted& submitted);

/// Returns the directory of a run, and the commands that follow its log and show its state.
[[nodiscard]] LabelledLines lines_about(const RunDirectory& run);

/// The facts that a user needs after a submission.
struct SubmissionFacts {
  LabelledLines lines;
  std::string warning;  ///< why the job cannot start; empty if no reason is known
};
/// Returns the facts. Asks Slurm once for the expected start of the job.
[[nodiscard]] SubmissionFacts facts_about(const Env& env, const Submitted& submitted);

/// Returns a sentence for standard error, used if the command cannot print its result on standard
/// output: "the run X is submitted, as job 42; ...".
[[nodiscard]] std::string queued_text(const Submitted& submitted);

/// Returns the message about a Ctrl-C that arrived during the submission.
[[nodiscard]] std::string interrupted_text(const Submitted& submitted);

/// Returns the message about a Ctrl-C that ended the watching. job: the id of the run's job; not
/// used for a sweep.
[[nodiscard]] std::string stopped_watching_text(const IndexEntry& run, const std::string& job);

}  // namespace dlrun
