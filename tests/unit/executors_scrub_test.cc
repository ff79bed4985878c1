#include <doctest/doctest.h>

#include "launcher/executors/scrub.h"

using dlrun::Env;

TEST_CASE("scrubbing removes an outer job's and other launchers' variables") {
  Env env;
  for (const char* name :
       {"SLURM_JOB_ID", "SLURM_CPU_BIND", "SLURM_EXPORT_ENV",     "SBATCH_PARTITION",      "SALLOC_ACCOUNT",
        "SRUN_DEBUG",   "SQUEUE_STATES",  "SACCT_FORMAT",         "SINFO_FORMAT",          "PMI_RANK",
        "PMIX_RANK",    "PMI2_X",         "OMPI_COMM_WORLD_RANK", "PYXIS_CONTAINER_IMAGE", "RANK",
        "WORLD_SIZE",   "LOCAL_RANK",     "MASTER_ADDR",          "MASTER_PORT",           "HOROVOD_RANK",
        "DLRUN_RUN",    "DLRUN_TOKEN",    "DLRUN_SECRET",         "DLRUN_ATTEMPT",         "DLRUN_LEAD",
        "DLRUN_RANK",   "DLRUN_JOB"}) {
    env.set(name, "outer");
  }
  CHECK(dlrun::scrubbed_for_slurm(env, true).values().empty());
}

TEST_CASE("scrubbing keeps where Slurm is and what is the user's own") {
  Env env;
  for (const char* name : {"SLURM_CONF", "SLURM_CLUSTERS", "PATH", "HOME", "RANKING", "DLRUN_RUNS", "DLRUN_SITE",
                           "WANDB_API_KEY", "CUDA_VISIBLE_DEVICES", "SLURMISH"}) {
    env.set(name, "mine");
  }
  CHECK(dlrun::scrubbed_for_slurm(env, true).values() == env.values());
}

TEST_CASE("a Slurm token stays only where munge cannot say who asks") {
  Env env;
  env.set("SLURM_JWT", "token");
  CHECK_FALSE(dlrun::scrubbed_for_slurm(env, true).has("SLURM_JWT"));
  CHECK(dlrun::scrubbed_for_slurm(env, false).has("SLURM_JWT"));
}
