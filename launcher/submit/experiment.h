#pragma once
// Makes an experiment from the user's command line: the spec with the origin of each value, and the
// plan that is made from it. submit, render, check, interactive and run start here.

#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/plan.h"
#include "launcher/plan/sweep_plan.h"
#include "launcher/runs/carried_spec.h"
#include "launcher/submit/context.h"
#include "launcher/submit/reporter.h"

namespace dlrun {

/// The spec that the user names on the command line, and the options that override its values.
struct SpecOptions {
  std::string file;                        ///< "-" is standard input
  std::vector<std::string> set_arguments;  ///< --set
  std::optional<std::string> runs_dir;     ///< --runs
  /// The job runs in an allocation that the user already has (run --here, submit --in).
  bool uses_existing_allocation = false;
  std::int64_t rehearsal_s = 0;  ///< the seconds of a rehearsal; 0: the job is no rehearsal
};

/// A spec that was read and planned. `request` and `inputs` are kept, because each point of a sweep
/// is read and planned again from them.
struct Experiment {
  LoadedSpec loaded;
  LaunchPlan plan;  ///< for a sweep, the plan of its first point
  LoadRequest request;
  PlanInputs inputs;
  [[nodiscard]] bool is_sweep() const { return loaded.spec.sweep.is_given(); }
};

/// Loads the spec and makes the plan. Reports the warnings. Fails with kInvalid and the problems of
/// the spec or the plan, with kNotFound if there is no such file, and with kIo if standard input
/// cannot be read.
[[nodiscard]] Result<Experiment> prepare_experiment(const Context& context, Reporter& reporter,
                                                    const SpecOptions& options, Target target);

/// Returns the error (kInvalid) about a script that is given where a spec is expected. file: the
/// script, as the user has named it.
[[nodiscard]] Error script_is_no_spec(const std::string& file);

/// Does the same as prepare_experiment(). If `point` is set (--point), then does the same as
/// prepare_point().
[[nodiscard]] Result<Experiment> prepare_spec_or_point(const Context& context, Reporter& reporter,
                                                       const SpecOptions& options, Target target,
                                                       const std::optional<std::size_t>& point);

/// Plans a resolved spec again. The values keep their recorded origins. Ignores the environment of
/// this process. file: the name in diagnostics; its folder is the spec's folder.
[[nodiscard]] Result<Experiment> prepare_again(const Context& context, const std::string& file,
                                               std::string resolved_yaml, const PlanInputs& inputs);

/// Plans the spec that a rendered script carries. Edits of the script are not in the plan.
[[nodiscard]] Result<Experiment> prepare_carried(const Context& context,
                                                 const CarriedSpec& carried);

/// Plans all points of a sweep. Fails with kInvalid and the problems that plan_sweep() returns.
[[nodiscard]] Result<SweepPlan> prepare_sweep(const Experiment& experiment,
                                              std::size_t max_array_size);

/// Returns one point as a single experiment, for --point. Fails with kNotFound if the sweep has no
/// point of this number, and with kUsage if the spec has no sweep.
[[nodiscard]] Result<Experiment> prepare_point(Reporter& reporter, Experiment experiment,
                                               std::size_t number);

/// Returns errors and warnings about files, mounts and the image of the job that are missing or
/// unsuitable on this machine.
[[nodiscard]] std::vector<Diagnostic> check_files_and_image(const Context& context,
                                                            const LoadedSpec& loaded);

/// Checks that a run can be created in the runs folder, and copies the agent, the trainer and their
/// modules into that folder if they are missing there. Warns if other users could replace the
/// copies. uses_trainer: the job cannot run without the trainer. Fails as check_can_create_run_in()
/// and copy_missing_tools() do.
[[nodiscard]] Result<> prepare_runs_folder(const Context& context, Reporter& reporter,
                                           const std::string& runs_dir, bool uses_trainer);

}  // namespace dlrun
