#include "runtime/bootstrap/world.h"

#include <string>

#include <doctest/doctest.h>

namespace dlrun {
namespace {

Env env_of_task() {
  return Env({{"SLURM_PROCID", "5"},
              {"SLURM_STEP_ID", "0"},
              {"SLURM_STEP_NUM_TASKS", "7"},
              {"SLURM_NTASKS", "99"},
              {"SLURM_LOCALID", "1"},
              {"SLURM_NODEID", "2"},
              {"SLURM_STEP_NUM_NODES", "4"},
              {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"}});
}

TEST_CASE("an empty environment is a world of one rank") {
  const auto world = read_world(Env{}, ProcessKind::kProgram);
  REQUIRE(world);
  CHECK(*world == World{});
  CHECK(to_string(world->source) == "no launcher");
}

TEST_CASE("a task of a step reads the step's numbers, not the job's") {
  for (const auto process : {ProcessKind::kProgram, ProcessKind::kRankAgent}) {
    const auto world = read_world(env_of_task(), process);
    REQUIRE(world);
    CHECK(*world == World{5, 7, 1, 2, 2, 4, WorldSource::kSlurm});
  }
}

TEST_CASE("the number of ranks on a node is read from Slurm's list with repeated groups") {
  auto env = env_of_task();
  env.set("SLURM_PROCID", "6");
  env.set("SLURM_LOCALID", "0");
  env.set("SLURM_NODEID", "3");
  CHECK(read_world(env, ProcessKind::kRankAgent)->local_size == 1);
}

TEST_CASE("DLRUN_* variables take precedence for a program, and SLURM_* for the rank agent") {
  auto env = env_of_task();
  env.set("DLRUN_RANK", "3");
  env.set("DLRUN_WORLD_SIZE", "4");
  env.set("DLRUN_LOCAL_RANK", "1");
  env.set("DLRUN_LOCAL_WORLD_SIZE", "2");
  env.set("DLRUN_NODE_RANK", "1");
  env.set("DLRUN_NNODES", "2");
  CHECK(*read_world(env, ProcessKind::kProgram) == World{3, 4, 1, 2, 1, 2, WorldSource::kDlrun});
  CHECK(read_world(env, ProcessKind::kRankAgent)->source == WorldSource::kSlurm);
}

TEST_CASE(
    "the batch script of Slurm 26.05, whose step id is negative, does not count as a task of a "
    "step") {
  for (const auto* id : {"-5", "4294967291"}) {
    CAPTURE(id);
    Env batch({{"SLURM_PROCID", "0"},
               {"SLURM_NTASKS", "8"},
               {"SLURM_STEP_ID", id},
               {"SLURM_NODEID", "0"}});
    CHECK(*read_world(batch, ProcessKind::kProgram) == World{});
    batch.set("OMPI_COMM_WORLD_RANK", "1");
    batch.set("OMPI_COMM_WORLD_SIZE", "2");
    CHECK(read_world(batch, ProcessKind::kProgram)->source == WorldSource::kOpenMpi);
  }
}

TEST_CASE("a batch script does not count as a task of a step, although it has SLURM_PROCID") {
  const Env batch({{"SLURM_PROCID", "0"},
                   {"SLURM_NTASKS", "8"},
                   {"SLURM_LOCALID", "0"},
                   {"SLURM_NODEID", "0"}});
  CHECK(*read_world(batch, ProcessKind::kProgram) == World{});
  CHECK(*read_world(batch, ProcessKind::kRankAgent) == World{});
}

TEST_CASE(
    "Open MPI's and PMI's variables are read if neither DLRUN_* nor SLURM_* variables describe a "
    "rank") {
  const Env open_mpi({{"OMPI_COMM_WORLD_RANK", "5"},
                      {"OMPI_COMM_WORLD_SIZE", "6"},
                      {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  CHECK(*read_world(open_mpi, ProcessKind::kProgram) ==
        World{5, 6, 1, 2, 2, 3, WorldSource::kOpenMpi});
  const Env pmi({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}});
  CHECK(*read_world(pmi, ProcessKind::kProgram) == World{1, 2, 1, 2, 0, 1, WorldSource::kPmi});
}

TEST_CASE(
    "incomplete, wrong or contradictory variables are refused, and the error shows which value is "
    "wrong") {
  struct Case {
    const char* name;
    const char* value;
    const char* says;
  };
  for (const auto& wrong : {
           Case{"SLURM_PROCID", "7", "rank 7 is not below the world size 7"},
           Case{"SLURM_PROCID", "-1", "SLURM_PROCID='-1'"},
           Case{"SLURM_PROCID", "1x", "SLURM_PROCID='1x'"},
           Case{"SLURM_PROCID", "", "SLURM_PROCID=''"},
           Case{"SLURM_LOCALID", "2", "local rank 2"},
           Case{"SLURM_NODEID", "9", "no node 9"},
           Case{"SLURM_STEP_NUM_TASKS", "99999999999", "SLURM_STEP_NUM_TASKS='99999999999'"},
           Case{"SLURM_STEP_TASKS_PER_NODE", "2(x3", "'2(x3'"},
           Case{"SLURM_STEP_TASKS_PER_NODE", "2(x0),1", "'2(x0),1'"},
           Case{"SLURM_STEP_TASKS_PER_NODE", "(x3)", "'(x3)'"},
           Case{"SLURM_STEP_TASKS_PER_NODE", "", "''"},
       }) {
    CAPTURE(wrong.name);
    CAPTURE(wrong.value);
    auto env = env_of_task();
    env.set(wrong.name, wrong.value);
    const auto world = read_world(env, ProcessKind::kRankAgent);
    REQUIRE_FALSE(world);
    CHECK(world.error().code == Errc::kInvalid);
    CHECK(world.error().message.find(wrong.says) != std::string::npos);
  }
  Env only_rank;
  only_rank.set("DLRUN_RANK", "0");
  const auto alone = read_world(only_rank, ProcessKind::kProgram);
  REQUIRE_FALSE(alone);
  CHECK(alone.error().message.find("DLRUN_WORLD_SIZE is not set") != std::string::npos);
}

}  // namespace
}  // namespace dlrun
