#include "launcher/submit/local_run_notes.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "common/subprocess.h"
#include "launcher/spec/derived.h"
#include "launcher/spec/key_name.h"

namespace dlrun {
namespace {

/// Returns the number of ranks of the job without its spare nodes; nullopt if Slurm chooses the
/// number.
std::optional<std::int64_t> ranks_of_job(const Resources& resources, const LaunchPlan& plan) {
  if (resources.ntasks) return resources.ntasks;
  if (!resources.nodes) return plan.local_ranks;
  if (resources.nodes->min != resources.nodes->max) return std::nullopt;
  return resources.nodes->min * plan.local_ranks;
}

}  // namespace

std::optional<std::string> fewer_ranks_note(const LoadedSpec& loaded, const LaunchPlan& plan) {
  const auto asked = ranks_of_job(loaded.spec.resources, plan);
  if (!asked || *asked <= plan.local_ranks) return std::nullopt;
  // A launcher such as torchrun is one task per node, and starts the processes of its node.
  const bool is_launcher = loaded.preset.is_node_launcher;
  const std::int64_t factor = is_launcher ? nproc_per_node(loaded.spec).value_or(1) : 1;
  return fmt::format(
      "this machine counts as one node, so {} of the {} {} of the spec run here. `--set "
      "resources.nodes=1 --set {}={}` runs all of them here",
      plan.local_ranks * factor, *asked * factor, is_launcher ? "processes" : "ranks",
      is_launcher ? "launch.nproc_per_node"_key : "resources.tasks_per_node"_key, *asked * factor);
}

bool is_without_gpu(const Env& env, const std::filesystem::path& devices) {
  // The files of the drivers of NVIDIA (also on Jetson and in WSL), AMD and Intel.
  constexpr std::array kFiles{"nvidiactl", "nvidia0", "nvmap", "dxg", "kfd", "dri"};
  constexpr std::array kPrograms{"nvidia-smi", "amd-smi", "rocm-smi", "xpu-smi"};
  return std::none_of(kFiles.begin(), kFiles.end(),
                      [&](const char* file) {
                        std::error_code error;
                        return std::filesystem::exists(devices / file, error) || error;
                      }) &&
         std::none_of(kPrograms.begin(), kPrograms.end(),
                      [&](const char* program) { return find_program(program, env).has_value(); });
}

std::optional<std::string> missing_gpu_note(const LoadedSpec& loaded, const Env& env,
                                            const std::filesystem::path& devices) {
  if (has_gpus(loaded.spec, loaded.site) != true || !is_without_gpu(env, devices))
    return std::nullopt;
  return "this machine has no GPU: the programs see none of the GPUs that the spec requests";
}

}  // namespace dlrun
