// Submits a run again, or the missing points of a sweep. The recorded script defines the job. The
// recorded spec is planned again for the parts that a script cannot express.

#include <utility>

#include "common/json_read.h"
#include "common/text.h"
#include "common/untrusted_file.h"
#include "launcher/runs/ownership.h"
#include "launcher/runs/resolve.h"
#include "launcher/runs/sweep_record.h"
#include "launcher/spec/yaml_document.h"
#include "launcher/submit/cancellation.h"
#include "launcher/submit/known_bad_exclusion.h"
#include "launcher/submit/submitting.h"

namespace dlrun {
namespace {

/// Returns the folder from which sbatch is called: the folder from which the earlier run was
/// submitted, or the current folder if that folder is gone. Relative paths in a script written by
/// hand start there.
std::filesystem::path submit_directory_of(const Context& context,
                                          const std::filesystem::path& run) {
  constexpr std::size_t kLimit = 1U << 20U;
  std::string directory;
  if (const auto text = read_untrusted(run / "provenance.json", kLimit, Links::kRefuse)) {
    if (const auto json = json_read::object_of(*text))
      directory = json_read::text(*json, "directory");
  }
  std::error_code error;
  return std::filesystem::is_directory(directory, error) ? std::filesystem::path(directory)
                                                         : context.current_dir;
}

/// Returns the folder in the run's copy of the code where the script starts again; nullopt without
/// code.snapshot. Fails with kNotFound if the copy is gone.
Result<std::optional<std::string>> folder_in_code_copy(const IndexEntry& run,
                                                       const RunFacts& facts) {
  if (!facts.submission || facts.submission->chdir.empty()) return std::optional<std::string>();
  const std::string& folder = facts.submission->chdir;
  std::error_code error;
  if (std::filesystem::is_directory(folder, error)) return std::optional(folder);
  return fail(Errc::kNotFound,
              "{}: the copy of the code that it ran, {}, is gone; `dlrun submit` of its spec makes "
              "a new copy",
              run.id, printable(folder));
}

/// Returns the value of a map's key; nullptr if the node is no map or has no such key.
const YamlNode* value_in(const YamlDocument& document, const YamlNode* map, std::string_view key) {
  if (map == nullptr || map->kind != YamlNode::Kind::kMap) return nullptr;
  for (std::size_t i = 0; i + 1 < map->items.size(); i += 2) {
    if (document.at(map->items[i]).text == key) return &document.at(map->items[i + 1]);
  }
  return nullptr;
}

/// Returns true if the script alone does not describe the job of a resolved spec: the spec has
/// `after`, downloads, or an environment of uv, pixi, spack, uenv or EESSI.
bool needs_spec(std::string_view resolved_yaml) {
  const auto document = parse_yaml(resolved_yaml);
  if (!document || document->nodes.empty()) return true;  // planning the spec reports the mistake
  const YamlNode* root = &document->at(document->root);
  const YamlNode* data = value_in(*document, value_in(*document, root, "train"), "data");
  const YamlNode* environment = value_in(*document, root, "environment");
  for (const std::string_view tool : {"uv", "pixi", "spack", "uenv", "eessi"}) {
    if (value_in(*document, environment, tool) != nullptr) return true;
  }
  return value_in(*document, root, "after") != nullptr ||
         value_in(*document, root, "download") != nullptr ||
         value_in(*document, data, "download") != nullptr;
}

Result<Job> job_of_run(const Context& context, const IndexEntry& run, const RunFacts& facts) {
  auto text = read_untrusted(run.path / "job.sh", kScriptLimitBytes, Links::kRefuse);
  if (!text) {
    return fail(text.error().code, "{}: has no script to submit again: {}", run.id,
                text.error().message);
  }
  DLRUN_TRY_ASSIGN(auto code_folder, folder_in_code_copy(run, facts));
  ScriptRequests requests = parse_script_requests(*text, run.name);
  // The new run of a point gets its own name. With the sweep's name, the new run would be the
  // newest of that name, and the name would no longer find the sweep.
  const auto slash = run.id.rfind('/');
  requests.name =
      slash == std::string::npos
          ? run.name
          : fmt::format("{}-{}", name_of_id(run.id.substr(0, slash)), run.id.substr(slash + 1));
  if (!requests.is_named) requests.job_name = requests.name;
  const auto sweep = sweep_of_point(run.path);
  requests.runs_dir = (sweep ? *sweep : run.path).parent_path().string();
  Job job = job_of_script_text(Job::Source::kRun, std::move(*text), std::move(requests),
                               submit_directory_of(context, run.path));
  job.file = (run.path / "job.sh").string();
  job.earlier_run = run.path;
  job.settings.chdir = std::move(code_folder);
  if (facts.submission) job.settings.server = facts.submission->server;
  job.known_bad = known_bad_settings_of_run(run.path);
  DLRUN_TRY_ASSIGN(job.experiment,
                   recorded_experiment_if_needed(context, run.path, !job.requests.secrets.empty()));
  return job;
}

/// The lock of a single point that is submitted again. It is held until Slurm has the job. Without
/// it, the sweep's record would lose one of two concurrent resubmissions.
struct LockedPoint {
  SubmissionLock lock;
  /// True if another dlrun submits the sweep's missing points; checked after taking `lock`.
  bool is_sweep_locked = false;
};

/// Locks `run` if it is a point of a sweep; otherwise returns nullopt. text: the run as the user
/// named it.
Result<std::optional<LockedPoint>> lock_point(const Context& context, const std::string& text,
                                              const IndexEntry& run) {
  const auto slash = run.id.rfind('/');
  if (slash == std::string::npos) return std::optional<LockedPoint>();
  // `run` may be a later run of the point, in another folder. The lock is always in the directory
  // of the point itself.
  auto point = run.path;
  auto sweep = sweep_of_point(point);
  if (!sweep) {
    const auto typed_slash = text.rfind('/');
    DLRUN_TRY_ASSIGN(const auto entry,
                     find_run(context.env, context.current_dir,
                              typed_slash == std::string::npos ? run.id.substr(0, slash)
                                                               : text.substr(0, typed_slash)));
    DLRUN_TRY_ASSIGN(const auto record, read_sweep(entry.path));
    sweep = entry.path;
    point = point_path(
        entry.path,
        record.points.at(static_cast<std::size_t>(*parse_int(run.id.substr(slash + 1)))));
  }
  auto lock = SubmissionLock::take(point);
  if (!lock && lock.error().code == Errc::kRefused)
    return fail(Errc::kRefused, "{}: another dlrun is submitting it again", run.id);
  if (!lock) return tl::unexpected(lock.error());
  const bool is_sweep_locked = is_being_submitted(*sweep);
  return std::optional(LockedPoint{std::move(*lock), is_sweep_locked});
}

/// Refuses a run that ran without Slurm. Unless `force`, also refuses a run that may still have a
/// job.
Result<> check_can_resubmit(const IndexEntry& run, const RunStatus& status, bool force) {
  if (status.job.cluster == kLocalCluster) {
    return fail(Errc::kUsage,
                "{}: ran on this machine, without Slurm; `dlrun run {}` runs it again", run.id,
                printable((run.path / "resolved.yaml").string()));
  }
  if (is_submission_open(status) && !force) {
    return fail(Errc::kUnavailable,
                "{0}: dlrun does not know whether Slurm has its job ({1}), and submitting it again "
                "could run the job twice. Ask `dlrun status {0}` when Slurm answers, or give "
                "--force",
                run.id, status.detail);
  }
  if (!is_inactive(status.state) && !force && is_ending_after_cancel(status)) {
    return fail(Errc::kUsage,
                "{0}: was cancelled, but the processes of its job {1} are still being ended, and "
                "two jobs may write the same files. Wait for the end with `dlrun wait {0}`, then "
                "submit it again, or give --force",
                run.id, status.job.id);
  }
  if (!is_inactive(status.state) && !force) {
    return fail(Errc::kUsage,
                "{}: is still {} (job {}), and two jobs may write the same files. Cancel it first, "
                "or give --force",
                run.id, word(status.state), status.job.id);
  }
  return {};
}

/// Returns the submission of an earlier call with the same token. `-H` repeats the token of a
/// submission after a cut connection (held_token.h). Returns nullopt without a token, and if Slurm
/// has no such job. is_point: `run` is a point of a sweep; the path of the new run is then recorded
/// in this point's directory.
Result<std::optional<Submitted>> complete_earlier_resubmission(const Context& context,
                                                               Reporter& reporter,
                                                               RunInspector& inspector,
                                                               const IndexEntry& run, bool is_point,
                                                               HeldToken* token) {
  if (token == nullptr) return std::optional<Submitted>();
  DLRUN_TRY_ASSIGN(auto earlier, complete_earlier_submission(context, reporter, inspector, *token));
  std::error_code error;
  if (earlier && is_point && !std::filesystem::equivalent(run.path, earlier->run.path, error))
    DLRUN_TRY(write_successor(run.path, earlier->run.path));
  return earlier;
}

/// Submits the missing points of a sweep.
Result<Submitted> resubmit_sweep(const Context& context, Reporter& reporter,
                                 RunInspector& inspector, const IndexEntry& run, HeldToken* token) {
  DLRUN_TRY_ASSIGN(auto earlier,
                   complete_earlier_resubmission(context, reporter, inspector, run, false, token));
  if (earlier) return std::move(*earlier);
  if (token != nullptr) DLRUN_TRY(token->store_run(run.path, false));
  return submit_missing_points(context, reporter, inspector, run);
}

}  // namespace

Result<std::optional<Experiment>> recorded_experiment_if_needed(const Context& context,
                                                                const std::filesystem::path& run,
                                                                bool has_secrets) {
  constexpr std::size_t kLimit = 16U << 20U;
  const auto file = run / "resolved.yaml";
  auto text = read_untrusted(file, kLimit, Links::kRefuse);
  if (!text && text.error().code == Errc::kNotFound)
    return std::optional<Experiment>();  // the script was written by hand
  if (!text) return tl::unexpected(text.error());
  if (!has_secrets && !needs_spec(*text)) return std::optional<Experiment>();
  PlanInputs inputs;
  inputs.runs_dir = run.parent_path().string();
  inputs.agent_path = context.bin_dir / "dlrun-agent";
  inputs.trainer_path = context.bin_dir / "dlrun-trainer";
  inputs.target = Target::kSlurm;
  auto experiment = prepare_again(context, file.string(), std::move(*text), inputs);
  if (experiment) return std::optional(std::move(*experiment));
  Error error = std::move(experiment.error());
  error.message = fmt::format(
      "{}: this dlrun or this site refuses the spec, and the script alone is not the whole job: "
      "only the spec has the runs that the job waits for, its secrets, downloads and "
      "environments. Correct the spec and use `dlrun submit`",
      file.string());
  return tl::unexpected(std::move(error));
}

Result<Submitted> resubmit(const Context& context, Reporter& reporter, RunInspector& inspector,
                           const std::string& run_argument, bool force, HeldToken* token) {
  DLRUN_TRY_ASSIGN(auto run, find_run(context.env, context.current_dir, run_argument));
  DLRUN_TRY(require_own(run.id, run.path, "submit it again"));
  if (is_sweep(run.path)) return resubmit_sweep(context, reporter, inspector, run, token);
  DLRUN_TRY_ASSIGN(auto locked, lock_point(context, run_argument, run));
  if (locked) {
    run.path = current_run_of(run.path);  // read again under the lock
    DLRUN_TRY(require_own(run.id, run.path, "submit it again"));
  }
  DLRUN_TRY_ASSIGN(auto earlier, complete_earlier_resubmission(context, reporter, inspector, run,
                                                               locked.has_value(), token));
  if (earlier) return std::move(*earlier);
  DLRUN_TRY_ASSIGN(const auto status, inspector.inspect(run.path));
  DLRUN_TRY(check_can_resubmit(run, status, force));
  const bool is_missing =
      status.state == RunState::kNotSubmitted || status.state == RunState::kRefused;
  if (locked && locked->is_sweep_locked && is_missing) {
    return fail(Errc::kRefused,
                "{}: another dlrun is submitting the missing points of the sweep; try again when "
                "that is done",
                run.id);
  }
  DLRUN_TRY_ASSIGN(auto job, job_of_run(context, run, status.facts));
  DLRUN_TRY_ASSIGN(const auto checked,
                   check_job(context, reporter, inspector, job, nullptr, NextStep::kResubmission));
  Provenance provenance(job.code_dir, context.env, context.argv, context.tools.hash);
  provenance.set_repeated_run(run.id);
  provenance.set_submit_directory(job.settings.submit_directory);
  const auto record_successor = [&](const RunDirectory& made) -> Result<> {
    if (!locked) return {};
    auto written = write_successor(run.path, made.path);
    locked.reset();
    return written;
  };
  return submit_job(context, reporter, inspector, std::move(job), checked, provenance, token,
                    record_successor);
}

}  // namespace dlrun
