// Tests the options of an srun line for a step on the remaining nodes of the allocation.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/agent/step_on_nodes.h"

namespace dlrun::agent {
namespace {

using Words = std::vector<std::string>;

const Words kRemainingNodes{"n1", "n3", "n4"};
const JobLayout kLayout{.nodes = {"n1", "n2", "n3", "n4"}, .task_counts = {2, 2, 2, 1}};

TEST_CASE(
    "a step on the remaining nodes gets --nodes, --ntasks and --nodelist after srun's own "
    "options") {
  CHECK(step_on_nodes({"srun", "--mpi=pmix", "/a/dlrun-agent", "rank"}, kLayout, kRemainingNodes) ==
        Words{"srun", "--mpi=pmix", "--nodes=3", "--ntasks=5", "--nodelist=n[1,3-4]",
              "/a/dlrun-agent", "rank"});
}

TEST_CASE(
    "the user's arguments to srun that choose nodes or tasks are replaced, and all other arguments "
    "are kept") {
  for (const auto& users_options :
       {Words{"--nodes=4"}, Words{"--nodes", "4"}, Words{"-N4"}, Words{"-N", "4"},
        Words{"-n", "7", "--nodelist", "n[1-4]"}, Words{"-lw", "n2"}, Words{"--relative=1"}}) {
    CAPTURE(users_options.front());
    Words argv{"srun", "--label", "-K1", "--cpus-per-task", "4"};
    argv.insert(argv.end(), users_options.begin(), users_options.end());
    argv.insert(argv.end(),
                {"--exact", "apptainer", "exec", "--nodes=9", "image", "/a/dlrun-agent", "rank"});
    Words expected{"srun",    "--label",   "-K1",        "--cpus-per-task",     "4",
                   "--exact", "--nodes=3", "--ntasks=5", "--nodelist=n[1,3-4]", "apptainer",
                   "exec",    "--nodes=9", "image",      "/a/dlrun-agent",      "rank"};
    CHECK(step_on_nodes(argv, kLayout, kRemainingNodes) == expected);
  }
}

TEST_CASE(
    "the agent's path is never taken for the value of an srun option that dlrun does not know") {
  CHECK(step_on_nodes({"srun", "--new-flag", "/a/dlrun-agent", "rank", "--", "-N", "2"}, kLayout,
                      kRemainingNodes) == Words{"srun", "--new-flag", "--nodes=3", "--ntasks=5",
                                                "--nodelist=n[1,3-4]", "/a/dlrun-agent", "rank",
                                                "--", "-N", "2"});
}

TEST_CASE(
    "the number of tasks follows the step's own option, else the job's counts, else one task per "
    "node") {
  const Words argv{"srun", "/a/dlrun-agent", "rank"};
  CHECK(step_on_nodes(argv, kLayout, {"n1", "n4"})[2] == "--ntasks=3");
  CHECK(step_on_nodes(argv, {.nodes = kLayout.nodes, .task_counts = {2, 2}, .ntasks_per_node = 4},
                      kRemainingNodes)[2] == "--ntasks=12");
  CHECK(step_on_nodes(argv, {}, kRemainingNodes)[2] == "--ntasks=3");
  const auto with_own_option = step_on_nodes(
      {"srun", "--ntasks-per-node=3", "/a/dlrun-agent", "rank"}, kLayout, kRemainingNodes);
  CHECK(with_own_option == Words{"srun", "--ntasks-per-node=3", "--nodes=3", "--ntasks=9",
                                 "--nodelist=n[1,3-4]", "/a/dlrun-agent", "rank"});
}

TEST_CASE("Slurm's lists of task counts are parsed, and malformed lists are refused") {
  CHECK(parse_tasks_per_node("2(x3),1") == std::vector<int>{2, 2, 2, 1});
  CHECK(parse_tasks_per_node("16") == std::vector<int>{16});
  CHECK(parse_tasks_per_node("1,2(x2),3") == std::vector<int>{1, 2, 2, 3});
  for (const auto* wrong :
       {"", "2(x3", "2(x)", "2(x0)", "0", "-1", "2(x3)1", "2 ", "2,,1", "2(x9999999)", "x"}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_tasks_per_node(wrong));
  }
}

}  // namespace
}  // namespace dlrun::agent
