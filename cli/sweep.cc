#include "cli/sweep.h"

#include <cstdio>

#include <nlohmann/json.hpp>

#include "cli/json_or_null.h"
#include "cli/output.h"
#include "cli/recording.h"
#include "cli/report.h"
#include "common/text.h"
#include "launcher/executors/slurm_conf.h"
#include "launcher/spec/sweep_points.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

struct Sent {
  std::vector<Submission> arrays;
  bool interrupted = false;
};

/// What an array waits for: the user's own, and with max_parallel the array before it, since the throttle is each
/// array's own.
std::optional<std::string> dependency_of_array(const SubmitPlan& submit, const SweepPlan& sweep, const Sent& sent) {
  if (!sweep.max_parallel || sent.arrays.empty()) return submit.dependency;
  const std::string before = "afterany:" + sent.arrays.back().job.id;
  return submit.dependency ? *submit.dependency + "," + before : before;
}

Result<> submit_arrays(const Cli& cli, const RunDirectory& run, const SweepPlan& sweep, const SubmitPlan& plan,
                       Executor& executor, Sent& sent) {
  for (std::size_t i = 0; i < sweep.arrays.size(); ++i) {
    SubmitPlan submit = plan;
    submit.is_array = true;
    submit.dependency = dependency_of_array(plan, sweep, sent);
    const RunDirectory array{fmt::format("{}/array-{}", run.id, i), run.name, array_path(run.path, i), run.created};
    auto outcome = submit_once(cli, array, submit, executor);
    if (!outcome) {
      const std::string words =
          sent.arrays.empty() ? outcome.error().message
                              : fmt::format("{} of {} arrays are queued, and `dlrun cancel {}` ends them; the next: {}",
                                            sent.arrays.size(), sweep.arrays.size(), run.id, outcome.error().message);
      return fail(outcome.error().code, "{}", words);
    }
    sent.arrays.push_back(std::move(outcome->submission));
    sent.interrupted = sent.interrupted || outcome->interrupted;
    if (sent.interrupted && i + 1 < sweep.arrays.size())
      return fail(Errc::kInterrupted, "interrupted: {} of {} arrays are queued; `dlrun cancel {}` ends them", i + 1,
                  sweep.arrays.size(), run.id);
  }
  return {};
}

void tell(const Cli& cli, const RunDirectory& run, const SweepPlan& sweep, const Sent& sent, bool json) {
  if (json) {
    Json out;
    out["run"] = run.id;
    out["name"] = run.name;
    out["path"] = run.path.string();
    Json jobs = Json::array();
    for (const Submission& array : sent.arrays) jobs.push_back(array.job.id);
    out["jobs"] = std::move(jobs);
    const std::string cluster = sent.arrays.empty() ? "" : sent.arrays.front().job.cluster;
    out["cluster"] = cluster.empty() ? Json(nullptr) : Json(cluster);
    out["points"] = sweep.points.size();
    out["max_parallel"] = value_or_null(sweep.max_parallel);
    out["gpu_hours"] = value_or_null(sum_of_hours(sweep, gpu_hours));
    out["core_hours"] = value_or_null(sum_of_hours(sweep, core_hours));
    print_json(out);
    return;
  }
  std::vector<std::string> jobs;
  for (const Submission& array : sent.arrays) jobs.push_back(array.job.id);
  constexpr std::size_t kShown = 8;
  const bool is_cut = jobs.size() > kShown;
  if (is_cut) jobs.resize(kShown);
  fmt::print("{} {} as job{} {}{}\n", paint(cli.colour_out, Colour::kGreen, "submitted"),
             paint(cli.colour_out, Colour::kBold, run.id), sent.arrays.size() == 1 ? "" : "s", join(jobs, " "),
             is_cut ? fmt::format(" ... ({} arrays)", sent.arrays.size()) : "");
  fmt::print("  sweep      {}\n  directory  {}\n", size_text(sweep), run.path.string());
  fmt::print("  points     dlrun sweep {0}\n  state      dlrun status {0}\n  one point  dlrun logs -f {0}/0\n", run.id);
  std::fflush(stdout);
}

}  // namespace

Result<SweepPlan> prepare_sweep(const Cli& cli, const Prepared& prepared, std::size_t max_array_size) {
  auto sweep = plan_sweep(prepared.request, prepared.loaded, prepared.inputs, {max_array_size});
  if (sweep) return std::move(*sweep);
  print_diagnostics(cli, sweep.error());
  return fail(Errc::kInvalid, "");
}

Result<Prepared> prepare_point(const Cli& cli, Prepared prepared, std::size_t number) {
  if (!prepared.is_sweep()) return fail(Errc::kUsage, "--point: {} has no sweep", prepared.loaded.file);
  const auto points = sweep_points(prepared.loaded.spec.sweep);
  if (number >= points.size())
    return fail(Errc::kNotFound, "there is no point {}: the sweep's points are 0 to {}", number, points.size() - 1);
  LoadRequest request = prepared.request;
  request.text = prepared.loaded.text;
  request.point = points[number];
  auto loaded = load_spec(request);
  if (!loaded) {
    print_diagnostics(cli, loaded.error());
    return fail(Errc::kInvalid, "");
  }
  loaded->spec.sweep = {};
  std::erase_if(loaded->spec.origins, [](const auto& origin) { return origin.first.starts_with("sweep."); });
  auto plan = make_plan(*loaded, prepared.inputs);
  if (!plan) {
    print_diagnostics(cli, plan.error());
    return fail(Errc::kInvalid, "");
  }
  print_note(cli, fmt::format("point {} of {}: {}", number, points.size(), describe(points[number])));
  return Prepared{std::move(*loaded), std::move(*plan), std::move(request), prepared.inputs};
}

std::string size_text(const SweepPlan& sweep) {
  std::string text = fmt::format("{} point{}", sweep.points.size(), sweep.points.size() == 1 ? "" : "s");
  if (sweep.max_parallel) text += fmt::format(", {} at once", *sweep.max_parallel);
  if (sweep.arrays.size() > 1) text += fmt::format(", in {} arrays", sweep.arrays.size());
  const auto gpus = sum_of_hours(sweep, gpu_hours), cores = sum_of_hours(sweep, core_hours);
  if (gpus && *gpus > 0) text += fmt::format("; at most {:.1f} GPU-hours", *gpus);
  if (cores) text += fmt::format("{}{:.1f} core-hours", gpus && *gpus > 0 ? ", " : "; at most ", *cores);
  return text + ((gpus && *gpus > 0) || cores ? " altogether" : "");
}

Result<int> submit_sweep(const Cli& cli, const Prepared& prepared, const SubmitPlan& plan, Provenance& provenance,
                         RunInspector& inspector, const Follow& follow) {
  const auto sweep = prepare_sweep(cli, prepared, max_array_size(cli.env, plan.clusters.value_or("")));
  if (!sweep) return tl::unexpected(sweep.error());
  if (!prepared.plan.agent.empty()) DLRUN_TRY(stage(cli, prepared.plan.runs_dir));
  const auto run = record_sweep(cli, prepared, *sweep, plan.secrets);
  if (!run) return tl::unexpected(run.error());
  SubmitPlan submit = plan;
  if (prepared.plan.snapshot) {
    auto snapshot = snapshot_for(cli, prepared.plan, *run);
    if (!snapshot) return tl::unexpected(snapshot.error());
    submit.chdir = std::move(*snapshot);
  }
  provenance.set_image(prepared.loaded.spec.container.image.value_or(""));
  Sent sent;
  const auto done = submit_arrays(cli, *run, *sweep, submit, inspector.executor_of(submit.server), sent);
  if (auto written = provenance.write(run->path); !written) {
    print_warning(cli, fmt::format("where the run came from is not recorded: {}", written.error().message));
  }
  if (!done && done.error().code != Errc::kUnavailable && done.error().code != Errc::kTimeout) {
    // What was not taken will not read its secrets.
    for (const PlannedPoint& point : sweep->points) {
      if (point.array >= sent.arrays.size())
        remove_secrets(array_path(run->path, point.array) / std::to_string(point.task));
    }
  }
  if (!done && sent.arrays.empty()) return tl::unexpected(done.error());
  tell(cli, *run, *sweep, sent, follow.json);
  if (!done) return tl::unexpected(done.error());
  if (sent.interrupted) {
    print_note(cli, fmt::format("interrupted, but Slurm has taken the jobs; `dlrun cancel {}` ends them", run->id));
    return kExitInterrupted;
  }
  if (!follow.watch) return kExitOk;
  return watch_to_the_end(cli, inspector, {run->id, run->name, run->path, run->created}, sent.arrays.front().job.id,
                          follow.json);
}

Result<std::vector<IndexEntry>> runs_of(const IndexEntry& run) {
  std::vector<IndexEntry> runs;
  if (!is_sweep(run.path)) {
    runs.push_back(run);
    return runs;
  }
  const auto sweep = read_sweep(run.path);
  if (!sweep) return tl::unexpected(sweep.error());
  for (std::size_t i = 0; i < sweep->points.size(); ++i) {
    runs.push_back({fmt::format("{}/{}", run.id, i), run.name, current_run_of(point_path(run.path, sweep->points[i])),
                    run.created});
  }
  return runs;
}

}  // namespace dlrun
