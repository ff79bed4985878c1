#include "cli/sweep.h"

#include "cli/terminal/print.h"
#include "cli/terminal/words.h"
#include "launcher/spec/sweep_points.h"

namespace dlrun {

Result<SweepPlan> prepare_sweep(const Cli& cli, const Prepared& prepared,
                                std::size_t max_array_size) {
  auto sweep = plan_sweep(prepared.request, prepared.loaded, prepared.inputs, {max_array_size});
  if (sweep) return std::move(*sweep);
  print_diagnostics(cli, sweep.error());
  return fail(Errc::kInvalid, "");
}

Result<Prepared> prepare_point(const Cli& cli, Prepared prepared, std::size_t number) {
  if (!prepared.is_sweep())
    return fail(Errc::kUsage, "--point: {} has no sweep", prepared.loaded.file);
  const auto points = sweep_points(prepared.loaded.spec.sweep);
  if (number >= points.size())
    return fail(Errc::kNotFound, "there is no point {}: the sweep's points are 0 to {}", number,
                points.size() - 1);
  LoadRequest request = prepared.request;
  request.text = prepared.loaded.text;
  request.point = points[number];
  auto loaded = load_spec(request);
  if (!loaded) {
    print_diagnostics(cli, loaded.error());
    return fail(Errc::kInvalid, "");
  }
  loaded->spec.sweep = {};
  std::erase_if(loaded->spec.origins,
                [](const auto& origin) { return origin.first.starts_with("sweep."); });
  auto plan = make_plan(*loaded, prepared.inputs);
  if (!plan) {
    print_diagnostics(cli, plan.error());
    return fail(Errc::kInvalid, "");
  }
  print_note(cli,
             fmt::format("point {} of {}: {}", number, points.size(), describe(points[number])));
  return Prepared{std::move(*loaded), std::move(*plan), std::move(request), prepared.inputs};
}

std::string size_text(const SweepPlan& sweep) {
  std::string text =
      fmt::format("{} point{}", sweep.points.size(), sweep.points.size() == 1 ? "" : "s");
  if (sweep.max_parallel) text += fmt::format(", {} at once", *sweep.max_parallel);
  if (sweep.arrays.size() > 1) text += fmt::format(", in {} arrays", sweep.arrays.size());
  const auto gpus = sum_of_hours(sweep, gpu_hours), cores = sum_of_hours(sweep, core_hours);
  if (gpus && *gpus > 0) text += fmt::format("; at most {:.1f} GPU-hours", *gpus);
  if (cores)
    text += fmt::format("{}{:.1f} core-hours", gpus && *gpus > 0 ? ", " : "; at most ", *cores);
  return text + ((gpus && *gpus > 0) || cores ? " altogether" : "");
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
    runs.push_back({fmt::format("{}/{}", run.id, i), run.name,
                    current_run_of(point_path(run.path, sweep->points[i])), run.created});
  }
  return runs;
}

}  // namespace dlrun
