// complete_earlier_submission() completes the submission of an earlier call with the same token,
// and returns its result. It returns nullopt if Slurm has no job of that call. The caller then
// submits the job: in token.run(), or as a new run if token.run() is empty.

#include <system_error>

#include "common/text.h"
#include "launcher/runs/index.h"
#include "launcher/runs/journal.h"
#include "launcher/runs/sweep_record.h"
#include "launcher/submit/follow_up_jobs.h"
#include "launcher/submit/sbatch_settings.h"
#include "launcher/submit/submit_once.h"
#include "launcher/submit/submitting.h"

namespace dlrun {
namespace {

RunDirectory directory_of_run(const std::filesystem::path& path) {
  const std::string id = path.filename().string();
  return {id, name_of_id(id), path, ""};
}

/// Deletes a run whose recording was interrupted. Nothing was submitted for it, because the journal
/// is written before sbatch is called. Fails with kInvalid if the run was not created by a
/// submission with this token.
Result<> delete_unrecorded(const Context& context, HeldToken& token) {
  if (!token.has_created_run())
    return fail(Errc::kInvalid,
                "{}: has no record of a submission, so it cannot be submitted again",
                printable(token.run().string()));
  std::error_code ignored;
  const auto run = token.run();
  if (const auto index = RunIndex::of_user(context.env))
    std::filesystem::remove(index->directory() / run.filename(), ignored);
  std::filesystem::remove_all(run, ignored);
  return token.store_run({}, true);
}

/// Submits the arrays that Slurm does not have, and returns the sweep.
Result<Submitted> continue_sweep(const Context& context, Reporter& reporter,
                                 RunInspector& inspector, const RunDirectory& run) {
  const auto sent = submit_missing_points(context, reporter, inspector,
                                          {run.id, run.name, run.path, run.created});
  // kUsage means that Slurm has all points already.
  if (!sent && sent.error().code != Errc::kUsage) return tl::unexpected(sent.error());
  DLRUN_TRY_ASSIGN(const auto sweep, read_sweep(run.path));
  Submitted submitted;
  submitted.run = run;
  submitted.is_interrupted = sent && sent->is_interrupted;
  for (std::size_t array = 0; array < sweep.array_count; ++array) {
    DLRUN_TRY_ASSIGN(auto journal, read_submission(array_path(run.path, array)));
    if (journal) submitted.submissions.push_back(std::move(*journal));
  }
  if (submitted.submissions.empty())
    return fail(Errc::kNotFound, "{}: has no journal of its arrays", printable(run.path.string()));
  submitted.points =
      Submitted::Points{sweep.points.size(), sweep.points.size(), sweep.max_parallel, std::nullopt};
  return submitted;
}

}  // namespace

Result<std::optional<Submitted>> complete_earlier_submission(const Context& context,
                                                             Reporter& reporter,
                                                             RunInspector& inspector,
                                                             HeldToken& token) {
  if (token.run().empty()) return std::optional<Submitted>();
  const RunDirectory run = directory_of_run(token.run());
  // submit.json is written before the first array is sent. Without it, no array was sent.
  const auto settings = read_sbatch_settings(run.path);
  const bool may_have_arrays =
      !token.has_created_run() || settings || settings.error().code != Errc::kNotFound;
  if (is_sweep(run.path) && may_have_arrays) {
    DLRUN_TRY_ASSIGN(auto submitted, continue_sweep(context, reporter, inspector, run));
    return std::optional(std::move(submitted));
  }
  DLRUN_TRY_ASSIGN(auto journal, read_submission(run.path));
  if (!journal) {
    DLRUN_TRY(delete_unrecorded(context, token));
    return std::optional<Submitted>();
  }
  if (journal->state == Submission::State::kIntent) {
    auto outcome =
        find_and_record_outcome(run.path, *journal, inspector.executor_of(journal->server));
    if (!outcome)
      return fail(Errc::kUnavailable,
                  "{}: Slurm does not answer now, so it is unknown whether Slurm has the job: {}",
                  run.id, outcome.error().message);
    journal = std::move(*outcome);
  }
  if (journal->state == Submission::State::kRefused)
    return fail(Errc::kRefused, "{}", journal->message);
  // Slurm has no such job. The caller submits in token.run().
  if (journal->state == Submission::State::kIntent) return std::optional<Submitted>();
  DLRUN_TRY_ASSIGN(auto later,
                   continue_follow_ups(context, reporter, inspector.executor_of(journal->server),
                                       run, *journal));
  Submitted submitted;
  submitted.run = run;
  submitted.submissions.push_back(std::move(*journal));
  submitted.follow_ups = std::move(later.submissions);
  submitted.is_interrupted = later.is_interrupted;
  return std::optional(std::move(submitted));
}

}  // namespace dlrun
