#include "launcher/submit/spec_chain.h"

#include <utility>

#include "common/quoting.h"
#include "common/text.h"

namespace dlrun {
namespace {

/// One link of the chain: a spec that is read and planned.
struct Link {
  std::string file;
  Job job;
  std::optional<SweepPlan> sweep;
};

Result<Link> plan_link(const Context& context, Reporter& reporter, const std::string& file,
                       const SpecOptions& options) {
  SpecOptions file_options = options;
  file_options.file = file;
  Link link;
  link.file = file;
  DLRUN_TRY_ASSIGN(link.job, job_of_file(context, reporter, file_options));
  if (!link.job.experiment) {
    return fail(
        Errc::kUsage,
        "--chain: {} is a script without a spec, and only a spec can wait for a run; submit "
        "it with its own `#SBATCH --dependency`",
        printable(file));
  }
  if (link.job.is_search())
    return fail(Errc::kUsage,
                "--chain: {} has sweep.ask, and a search lasts until its last point has ended; "
                "submit it alone",
                printable(file));
  DLRUN_TRY_ASSIGN(link.sweep, plan_arrays(context, link.job, true));
  return link;
}

Result<Submitted> submit_link(Context& context, Reporter& reporter, RunInspector& inspector,
                              Link link) {
  Provenance provenance = provenance_of(context, link.file);
  const SweepPlan* const arrays = link.sweep ? &*link.sweep : nullptr;
  DLRUN_TRY_ASSIGN(const auto checked, check_job(context, reporter, inspector, link.job, arrays,
                                                 NextStep::kSubmission));
  if (arrays != nullptr)
    return submit_sweep(context, reporter, inspector, std::move(link.job), std::move(*link.sweep),
                        checked, provenance);
  return submit_job(context, reporter, inspector, std::move(link.job), checked, provenance);
}

}  // namespace

std::string command_that_submits(const SpecOptions& options,
                                 const std::vector<std::string>& runs_before) {
  std::vector<std::string> words{"dlrun", "submit", options.file};
  for (const std::string& set : options.set_arguments) words.insert(words.end(), {"--set", set});
  words.insert(words.end(), {"--set", fmt::format("after.ok=[{}]", join(runs_before, ", "))});
  if (options.runs_dir) words.insert(words.end(), {"--runs", *options.runs_dir});
  return shell_quote_all(words);
}

void add_dependency_on_run(Job& job, const RunDirectory& run, const std::string& option) {
  Experiment& experiment = *job.experiment;
  const std::string key = "after.ok";
  experiment.loaded.spec.after.ok.push_back(run.path.string());
  experiment.loaded.spec.origins.try_emplace(key, Origin{Origin::Kind::kSetOption, option, 0, 0});
  experiment.plan.after.push_back({"afterok", run.path.string(), key});
}

Result<Submitted> submit_planned(Context& context, Reporter& reporter, RunInspector& inspector,
                                 Job job) {
  Link link;
  link.file = job.file;
  link.job = std::move(job);
  return submit_link(context, reporter, inspector, std::move(link));
}

Result<> refuse_remote_call(Context& context, std::string_view option) {
  DLRUN_TRY_ASSIGN(const auto token, take_submission_token(context.env));
  if (!token) return {};
  return fail(Errc::kUsage,
              "{}: cannot be used with -H: it makes several submissions, and after a cut "
              "connection the repeated command would make them again; log in to the host, and "
              "submit there",
              option);
}

Result<SubmittedSequence> submit_spec_chain(Context& context, Reporter& reporter,
                                            RunInspector& inspector,
                                            const std::vector<std::string>& specs,
                                            const SpecOptions& options) {
  DLRUN_TRY(refuse_remote_call(context, "--chain"));
  std::vector<Link> links;
  for (const std::string& file : specs) {
    DLRUN_TRY_ASSIGN(auto link, plan_link(context, reporter, file, options));
    links.push_back(std::move(link));
  }
  SubmittedSequence chain;
  for (Link& link : links) {
    auto runs_before = link.job.experiment->loaded.spec.after.ok;
    if (!chain.submitted.empty())
      add_dependency_on_run(link.job, chain.submitted.back().run, "--chain");
    auto submitted = submit_link(context, reporter, inspector, std::move(link));
    if (!submitted) {
      if (chain.submitted.empty()) return tl::unexpected<Error>(std::move(submitted.error()));
      chain.failure = std::move(submitted.error());
      const std::size_t failed_index = chain.submitted.size();
      SpecOptions failed_options = options;
      failed_options.file = specs[failed_index];
      runs_before.push_back(chain.submitted.back().run.handle());
      const bool is_last = failed_index + 1 == specs.size();
      chain.advice = fmt::format(
          "{}{} not submitted. The jobs of the specs before it stay queued. `{}` submits it{}",
          failed_options.file, is_last ? " was" : " and the specs after it were",
          command_that_submits(failed_options, runs_before),
          is_last ? "" : "; then submit the specs after it in the same way");
      break;
    }
    chain.submitted.push_back(std::move(*submitted));
    const Submitted& last = chain.submitted.back();
    if (last.failure || last.is_interrupted) {
      // The caller reports why this submission is incomplete. The next spec is not submitted,
      // because its job would wait for this one.
      break;
    }
  }
  return chain;
}

}  // namespace dlrun
