#pragma once
// Implements `dlrun submit`: submits a job, a sweep or a search once, or only tries the submission
// out.

#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "launcher/submit/search.h"
#include "launcher/submit/submitting.h"

namespace dlrun {

enum class SubmitMode {
  kSubmit,
  kTestOnly,  ///< Slurm says whether and when the job would run
  kDryRun,    ///< nothing is written or submitted
};

/// The options of `dlrun submit`, except those that change the spec (SpecOptions).
struct SubmitChoices {
  SubmitMode mode = SubmitMode::kSubmit;
  bool watches = false;   ///< --watch: follow the job; an error for a search
  std::string continued;  ///< --continue: the search, as the user typed it; empty: a new search
};

/// kDryRun: what a submission would do.
struct DryRun {
  Job job;                         ///< for a sweep, its first array
  std::optional<SweepPlan> sweep;  ///< nullopt for a single job
  /// The path of the run's directory with placeholders: RUNS/NAME-YYYYMMDD-HHMMSS-xxxx.
  std::filesystem::path run;
  std::vector<std::string> sbatch_options;
};

/// kTestOnly: the job, and Slurm's answer about it.
struct TestOnlyAnswer {
  Job job;                         ///< for a sweep, its first array
  std::optional<SweepPlan> sweep;  ///< nullopt for a single job
  std::string answer;
};

using SubmitResult = std::variant<Submitted, Searched, DryRun, TestOnlyAnswer>;

/// Returns the provenance of a submission. git inspects the code in the background. Code that was
/// copied over ssh has no .git; the state of git is then in the file whose path is the value of
/// kGitStateVariable. Removes this variable, so that no job inherits it. file: the spec or the
/// script.
[[nodiscard]] Provenance provenance_of(Context& context, const std::string& file);

/// Submits a spec or a script, runs the search of a spec with sweep.ask, or only tries a submission
/// out. If the environment has a token and an earlier call with this token submitted the job,
/// returns that submission. Fails with kUsage if choices.continued is another user's run, and if
/// choices.continued is set but no search would run: the spec has no sweep.ask, or choices.mode is
/// not kSubmit. Also fails with kUsage for a search with a token or with choices.watches.
[[nodiscard]] Result<SubmitResult> submit_spec(Context& context, Reporter& reporter,
                                               RunInspector& inspector, const SpecOptions& options,
                                               const SubmitChoices& choices,
                                               Provenance& provenance);

/// Each function returns the JSON of `dlrun submit --json`; cli/OUTPUT.md documents it. The first
/// function asks Slurm once for the expected start of the job.
[[nodiscard]] nlohmann::ordered_json submission_json(const Env& env, const Submitted& submitted);
[[nodiscard]] nlohmann::ordered_json submission_json(const Searched& searched);
[[nodiscard]] nlohmann::ordered_json submission_json(const DryRun& dry_run);
[[nodiscard]] nlohmann::ordered_json submission_json(const TestOnlyAnswer& result);

}  // namespace dlrun
