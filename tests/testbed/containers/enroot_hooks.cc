#include "enroot_hooks.h"

#include <unistd.h>

#include <cstdlib>
#include <sstream>

namespace stand_in {
namespace {

/// Returns the variables of this process whose names start with `start`.
[[nodiscard]] Environment variables_starting_with(const std::string& start) {
  Environment found;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string pair = *at;
    const auto equals = pair.find('=');
    if (pair.starts_with(start) && equals != std::string::npos)
      found[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  return found;
}

/// Adds the variables of the job step to `environment`: SLURM_* and PMI_*, and also PMIX_* if
/// SLURM_MPI_TYPE is unset or starts with `pmix`. If there are PMIX_*, returns the line of an fstab
/// that mounts the folder of the host's PMIx server at the same path in the container. The mount
/// creates its mount point, and fails if the host has no such folder.
/// Outside of a job step, adds nothing.
[[nodiscard]] Words run_slurm_pmi_hook(Environment& environment) {
  const std::string job = variable("SLURM_JOB_ID");
  const std::string step = variable("SLURM_STEP_ID");
  if (job.empty() || step.empty()) return {};
  for (const auto& [name, value] : variables_starting_with("SLURM_")) environment[name] = value;
  for (const auto& [name, value] : variables_starting_with("PMI_")) environment[name] = value;
  const Environment pmix_variables = variables_starting_with("PMIX_");
  const std::string type = variable("SLURM_MPI_TYPE");
  if (pmix_variables.empty() || (!type.empty() && !type.starts_with("pmix"))) return {};
  for (const auto& [name, value] : pmix_variables) environment[name] = value;
  const std::string spool = variable("DLRUN_STAND_IN_SPOOL", "/var/spool/slurmd");
  const std::string folder = variable("PMIX_SERVER_TMPDIR", spool + "/pmix." + job + "." + step);
  return {folder + " " + folder + " x-create=dir,bind,rw,nosuid,noexec,nodev,private"};
}

/// If the image sets PYTORCH_VERSION, sets the variables of torch.distributed from those of the job
/// step, and OMP_NUM_THREADS to 1. Keeps the values that `environment` already has.
void run_slurm_pytorch_hook(Environment& environment) {
  if (environment.count("PYTORCH_VERSION") == 0) return;
  const auto set_if_absent = [&](const char* name, const std::string& value) {
    if (!value.empty()) environment.emplace(name, value);
  };
  const std::string nodes = variable("SLURM_STEP_NODELIST");
  set_if_absent("MASTER_ADDR", nodes.substr(0, nodes.find_first_of("[,")));
  const std::string job = variable("SLURM_JOB_ID");
  if (!job.empty())
    set_if_absent("MASTER_PORT",
                  std::to_string(std::strtol(job.c_str(), nullptr, 10) % 4536 + 61000));
  set_if_absent("WORLD_SIZE", variable("SLURM_NTASKS"));
  set_if_absent("RANK", variable("SLURM_PROCID"));
  set_if_absent("LOCAL_RANK", variable("SLURM_LOCALID"));
  set_if_absent("OMP_NUM_THREADS", "1");
}

/// Runs nvidia-container-cli with the devices and capabilities in NVIDIA's variables. The values in
/// this process's environment override those of the image. Does nothing if NVIDIA_VISIBLE_DEVICES
/// is unset, empty or `void`.
void run_nvidia_hook(const fs::path& root, const Environment& environment) {
  const auto value_of = [&](const std::string& name) {
    const auto found = environment.find(name);
    return variable(name.c_str(), found == environment.end() ? "" : found->second);
  };
  const std::string devices = value_of("NVIDIA_VISIBLE_DEVICES");
  if (devices.empty() || devices == "void") return;
  Words words{"nvidia-container-cli", "--user", "configure", "--no-cgroups"};
  if (devices != "none") words.push_back("--device=" + devices);
  const std::string capabilities = value_of("NVIDIA_DRIVER_CAPABILITIES");
  std::istringstream list(capabilities.empty() ? "utility" : capabilities);
  for (std::string one; std::getline(list, one, ',');) words.push_back("--" + one);
  words.push_back(root);
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  ::setenv("PATH", (variable("PATH") + ":" + self.parent_path().string()).c_str(), 1);
  run(std::move(words));
}

}  // namespace

Words run_hooks(const fs::path& root, Environment& environment) {
  const Words mounts = run_slurm_pmi_hook(environment);
  run_slurm_pytorch_hook(environment);
  run_nvidia_hook(root, environment);
  return mounts;
}

}  // namespace stand_in
