#include "launcher/executors/scrub.h"

#include <sys/stat.h>

#include <string_view>
#include <vector>

namespace dlrun {
namespace {

const std::vector<std::string_view>& denied_patterns() {
  static const std::vector<std::string_view> patterns = {
      // Slurm's own: the variables of an outer job, defaults that override the script, and the
      // user's time format, which could be relative ("12:30") and so be ambiguous at midnight.
      "SLURM_*", "SBATCH_*", "SALLOC_*", "SRUN_*", "SQUEUE_*", "SACCT_*", "SINFO_*",
      // Variables with which an outer job's ranks find each other.
      "PMI*", "OMPI_*", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK",
      "MASTER_*", "HOROVOD_*",
      // Options of pyxis, such as the image of an outer container.
      "PYXIS_*",
      // Variables of an outer dlrun job. DLRUN_RUNS, DLRUN_SITE and DLRUN_SBCAST_NODES stay: the
      // user sets them.
      "DLRUN_RUN", "DLRUN_TOKEN", "DLRUN_CHAIN", "DLRUN_JOB", "DLRUN_ATTEMPT", "DLRUN_LEAD",
      "DLRUN_SECRET", "DLRUN_RANK", "DLRUN_WORLD_SIZE", "DLRUN_LOCAL_RANK",
      "DLRUN_LOCAL_WORLD_SIZE", "DLRUN_NODE_RANK", "DLRUN_NNODES", "DLRUN_ADDR",
      "DLRUN_MASTER_ADDR", "DLRUN_MASTER_PORT", "DLRUN_STORE", "DLRUN_PROGRESS",
      "DLRUN_CHECKPOINT_DIR", "DLRUN_COMPONENT*", "DLRUN_DOWNLOADS", "DLRUN_HELD_PORT",
      "DLRUN_HIDES_GPUS"};
  return patterns;
}

}  // namespace

Env scrubbed_for_slurm(const Env& env, bool has_munge) {
  std::vector<std::string_view> keep = {"SLURM_CONF", "SLURM_CLUSTERS"};
  if (!has_munge) keep.push_back("SLURM_JWT");
  Env result = env;
  result.remove_matching(denied_patterns(), keep);
  // Keeps the level of DLRUN_LOG (LEVEL:FILE): the programs of a job log into the run's folder, not
  // into the file of this command.
  if (const auto log = env.get("DLRUN_LOG"))
    result.set("DLRUN_LOG", log->substr(0, log->find(':')));
  return result;
}

bool munge_is_available() {
  struct stat info {};
  for (const char* path : {"/run/munge/munge.socket.2", "/var/run/munge/munge.socket.2"}) {
    if (::stat(path, &info) == 0 && S_ISSOCK(info.st_mode)) return true;
  }
  return false;
}

}  // namespace dlrun
