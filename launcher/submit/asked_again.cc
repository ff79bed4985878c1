// A submission that was asked for before with the same token: what came of it, and whether it goes
// on in the same run.

#include <system_error>

#include "launcher/runs/index.h"
#include "launcher/runs/journal.h"
#include "launcher/runs/sweep_record.h"
#include "launcher/submit/submitting.h"

namespace dlrun {
namespace {

RunDirectory directory_of(const std::filesystem::path& path) {
  const std::string id = path.filename().string();
  return {id, name_of_id(id), path, ""};
}

/// Deletes a run that was not recorded whole. Nothing can have been submitted for it, because its
/// journal comes before sbatch.
Result<> take_back(const Context& context, TokenClaim& claim) {
  std::error_code ignored;
  const auto run = claim.run();
  if (const auto index = RunIndex::of_user(context.env))
    std::filesystem::remove(index->directory() / run.filename(), ignored);
  std::filesystem::remove_all(run, ignored);
  return claim.name_run({});
}

/// Returns the sweep with the arrays that Slurm has, after submitting those that it lacks.
Result<Submitted> continue_sweep(const Context& context, Reporter& reporter,
                                 RunInspector& inspector, const RunDirectory& run) {
  auto missing =
      submit_missing(context, reporter, inspector, {run.id, run.name, run.path, run.created});
  if (missing || missing.error().code != Errc::kUsage) return missing;
  // Slurm has all points.
  DLRUN_TRY_ASSIGN(const auto sweep, read_sweep(run.path));
  Submitted submitted;
  submitted.run = run;
  for (std::size_t array = 0; array < sweep.arrays; ++array) {
    DLRUN_TRY_ASSIGN(auto journal, read_submission(array_path(run.path, array)));
    if (journal) submitted.submissions.push_back(std::move(*journal));
  }
  if (submitted.submissions.empty())
    return fail(Errc::kNotFound, "{}: has no journal of its arrays", run.path.string());
  submitted.points =
      Submitted::Points{sweep.points.size(), sweep.points.size(), sweep.max_parallel, std::nullopt};
  return submitted;
}

}  // namespace

Result<std::optional<Submitted>> earlier_submission(const Context& context, Reporter& reporter,
                                                    RunInspector& inspector, TokenClaim& claim) {
  if (claim.run().empty()) return std::optional<Submitted>();
  const RunDirectory run = directory_of(claim.run());
  if (is_sweep(run.path)) {
    DLRUN_TRY_ASSIGN(auto submitted, continue_sweep(context, reporter, inspector, run));
    return std::optional(std::move(submitted));
  }
  DLRUN_TRY_ASSIGN(auto journal, read_submission(run.path));
  if (!journal) {
    DLRUN_TRY(take_back(context, claim));
    return std::optional<Submitted>();
  }
  if (journal->state == Submission::State::kIntent) {
    auto settled = settle(run.path, *journal, inspector.executor_of(journal->server));
    if (!settled)
      return fail(Errc::kUnavailable,
                  "{}: whether Slurm took the job is not known, and it cannot be asked now: {}",
                  run.id, settled.error().message);
    journal = std::move(*settled);
  }
  if (journal->state == Submission::State::kRefused)
    return fail(Errc::kRefused, "{}", journal->message);
  if (journal->state == Submission::State::kIntent) return std::optional<Submitted>();
  Submitted submitted;
  submitted.run = run;
  submitted.submissions.push_back(std::move(*journal));
  return std::optional(std::move(submitted));
}

}  // namespace dlrun
