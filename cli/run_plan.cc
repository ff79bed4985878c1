#include "cli/run_plan.h"

#include "cli/terminal/print.h"
#include "common/untrusted_file.h"
#include "launcher/runs/tools.h"
#include "launcher/submit/experiment.h"

namespace dlrun {

Result<LaunchPlan> plan_of_run(const Cli& cli, const std::filesystem::path& run) {
  constexpr std::size_t kLimit = 2U << 20U;
  auto resolved = read_untrusted(run / "resolved.yaml", kLimit, Links::kRefuse);
  if (!resolved && resolved.error().code == Errc::kNotFound) {
    print_note(cli,
               "the run's script contains no spec: the session gets the plain environment of the "
               "node");
    return LaunchPlan{};
  }
  if (!resolved) return tl::unexpected(resolved.error());
  PlanInputs inputs;
  inputs.runs_dir = run.parent_path().string();
  const auto tools = tools_directory(inputs.runs_dir, cli.tools);
  inputs.agent_path = tools / "dlrun-agent";
  inputs.trainer_path = tools / "dlrun-trainer";
  DLRUN_TRY_ASSIGN(auto prepared, prepare_again(cli, (run / "resolved.yaml").string(),
                                                std::move(*resolved), inputs));
  return std::move(prepared.plan);
}

}  // namespace dlrun
