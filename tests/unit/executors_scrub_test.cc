// Tests which variables of the submitter's environment reach Slurm's commands and the job.

#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "common/files.h"
#include "launcher/executors/scrub.h"

using dlrun::Env;

TEST_CASE("scrubbing removes an outer job's and other launchers' variables") {
  Env env;
  for (const char* name : {"SLURM_JOB_ID",
                           "SLURM_CPU_BIND",
                           "SLURM_EXPORT_ENV",
                           "SBATCH_PARTITION",
                           "SALLOC_ACCOUNT",
                           "SRUN_DEBUG",
                           "SQUEUE_STATES",
                           "SACCT_FORMAT",
                           "SINFO_FORMAT",
                           "PMI_RANK",
                           "PMIX_RANK",
                           "PMI2_X",
                           "OMPI_COMM_WORLD_RANK",
                           "PYXIS_CONTAINER_IMAGE",
                           "RANK",
                           "WORLD_SIZE",
                           "LOCAL_RANK",
                           "MASTER_ADDR",
                           "MASTER_PORT",
                           "HOROVOD_RANK",
                           "DLRUN_RUN",
                           "DLRUN_TOKEN",
                           "DLRUN_SECRET",
                           "DLRUN_ATTEMPT",
                           "DLRUN_LEAD",
                           "DLRUN_RANK",
                           "DLRUN_JOB",
                           "LOCAL_WORLD_SIZE",
                           "DLRUN_STORE",
                           "DLRUN_COMPONENT",
                           "DLRUN_COMPONENT_SERVER_ADDR",
                           "DLRUN_HELD_PORT",
                           "DLRUN_HIDES_GPUS",
                           "NODE_RANK"}) {
    env.set(name, "outer");
  }
  CHECK(dlrun::scrubbed_for_slurm(env, true).values().empty());
}

TEST_CASE(
    "scrubbing keeps the variables with which Slurm's commands find Slurm, and those of the user") {
  Env env;
  for (const char* name : {"SLURM_CONF", "SLURM_CLUSTERS", "PATH", "HOME", "RANKING", "DLRUN_RUNS",
                           "DLRUN_SITE", "WANDB_API_KEY", "CUDA_VISIBLE_DEVICES", "SLURMISH"}) {
    env.set(name, "mine");
  }
  CHECK(dlrun::scrubbed_for_slurm(env, true).values() == env.values());
}

TEST_CASE("SLURM_JWT is kept only if munge is not available") {
  Env env;
  env.set("SLURM_JWT", "token");
  CHECK_FALSE(dlrun::scrubbed_for_slurm(env, true).has("SLURM_JWT"));
  CHECK(dlrun::scrubbed_for_slurm(env, false).has("SLURM_JWT"));
}

TEST_CASE("a job gets the log level of the submitting command, but not its log file") {
  Env env;
  env.set("DLRUN_LOG", "debug:/home/me/own.log");
  CHECK(dlrun::scrubbed_for_slurm(env, true).get("DLRUN_LOG") == "debug");
  env.set("DLRUN_LOG", "info");
  CHECK(dlrun::scrubbed_for_slurm(env, true).get("DLRUN_LOG") == "info");
}

TEST_CASE("scrubbing removes every DLRUN_ variable that ENVIRONMENT.md lists, except the user's") {
  const auto page = dlrun::read_file(DLRUN_SOURCE_DIR "/runtime/ENVIRONMENT.md", 1U << 20U);
  REQUIRE(page.has_value());
  constexpr std::string_view kPrefix = "DLRUN_";
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_";
  Env env;
  for (auto at = page->find(kPrefix); at != std::string::npos; at = page->find(kPrefix, at + 1)) {
    const std::string name = page->substr(at, page->find_first_not_of(kLetters, at) - at);
    const bool is_the_users = name == "DLRUN_RUNS" || name == "DLRUN_SITE" ||
                              name == "DLRUN_CONFIG" || name == "DLRUN_LOG" ||
                              name == "DLRUN_SBCAST_NODES";
    if (name != kPrefix && !is_the_users) env.set(name, "outer");
  }
  REQUIRE(env.values().size() > 10);
  const Env left = dlrun::scrubbed_for_slurm(env, true);
  for (const auto& [name, value] : left.values()) CHECK_MESSAGE(false, name);
}
