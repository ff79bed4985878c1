// Tests the command line and the environment of a rank's program.

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/agent/program_env.h"

namespace dlrun::agent {
namespace {

TEST_CASE("a preset's words come before the program's words, which stay unchanged") {
  RankOptions options;
  for (const auto* word :
       {"torchrun", "--nproc-per-node={nproc_per_node}", "--node-rank={node_rank}", "--"}) {
    options.words.push_back(*Template::parse(word));
  }
  options.program = {"train.py", "{rank}", ""};
  TemplateValues fields;
  fields.world = {.rank = 1, .size = 2, .node_rank = 1, .nnodes = 2};
  fields.nproc_per_node = 4;
  CHECK(program_argv(options, fields) == std::vector<std::string>{"torchrun", "--nproc-per-node=4",
                                                                  "--node-rank=1", "--", "train.py",
                                                                  "{rank}", ""});
}

TEST_CASE("a program finds the same checkpoint folder in every attempt of its run") {
  Env agent_env;
  agent_env.set("DLRUN_RUN", "/runs/mnist-1");
  agent_env.set("DLRUN_CHECKPOINT_DIR", "/runs/outer-1/ckpt");  // inherited from an outer job
  for (const char* attempt : {"0", "1"}) {
    agent_env.set("DLRUN_ATTEMPT", attempt);
    const auto env = program_env(agent_env, RankOptions{}, TemplateValues{});
    REQUIRE(env);
    CHECK(env->get("DLRUN_CHECKPOINT_DIR") == "/runs/mnist-1/ckpt");
    CHECK(env->get("DLRUN_ATTEMPT") == attempt);
  }
}

TEST_CASE(
    "a variable that is too long for Linux is refused before the program starts, with its name and "
    "size") {
  const Endpoint endpoint{"10.0.100.100", 4000};
  RankOptions options;
  options.templates.push_back(*EnvTemplate::parse("TF_CONFIG={tf_config}"));
  TemplateValues fields;
  fields.world.size = 5000;
  fields.addresses = std::vector<Endpoint>(5000, endpoint);
  REQUIRE(program_env({}, options, fields));
  fields.world.size = 8000;
  fields.addresses = std::vector<Endpoint>(8000, endpoint);
  const auto env = program_env({}, options, fields);
  REQUIRE_FALSE(env);
  CHECK(env.error().message.starts_with("TF_CONFIG would be "));
}

}  // namespace
}  // namespace dlrun::agent
