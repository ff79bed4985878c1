// Tests presets: the built-in ones, a user's own, and presets that are refused.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "common/files.h"
#include "common/text.h"
#include "launcher/plan/plan.h"
#include "launcher/spec/embedded.h"
#include "launcher/spec/load.h"
#include "launcher/spec/spec_keys.h"
#include "tests/contains.h"
#include "tests/temporary_directory.h"
#include "tests/unit/load_checks.h"

namespace dlrun {
namespace {

LoadRequest with_launch(const std::string& launch, const std::string& resources = "time: 1m") {
  LoadRequest request;
  request.file = "exp.yaml";
  request.text = "resources: {" + resources + "}\nlaunch: {command: [x], " + launch + "}\n";
  request.current_dir = "/exp";
  return request;
}

LaunchPlan planned(const LoadRequest& request, Target target = Target::kSlurm) {
  auto plan = make_plan(loaded(request), {"/runs", "/runs/.agents/h/dlrun-agent",
                                          "/runs/.agents/h/dlrun-trainer", target});
  if (!plan) FAIL(format_diagnostics(plan.error()));
  return std::move(*plan);
}

std::string value_of_option(const std::vector<PlannedOption>& options, std::string_view name) {
  for (const auto& option : options) {
    if (option.option == name) return option.value.value_or("");
  }
  return "(none)";
}

/// A user's preset own.yaml in a config folder.
struct OwnPreset {
  TemporaryDirectory folder;
  /// Writes the preset, and returns the request for a spec that uses it.
  LoadRequest write_and_request(std::string_view yaml) {
    std::filesystem::create_directories(folder.path() / "presets");
    REQUIRE(write_file_atomic(folder.path() / "presets" / "own.yaml", yaml, 0600));
    auto request = with_launch("preset: own");
    request.config_dirs = {folder.path()};
    return request;
  }
};

TEST_CASE(
    "for every built-in file, the compiled tables equal the nodes that the YAML reader makes of "
    "it") {
  for (const EmbeddedFile& file : embedded_files()) {
    INFO(file.name);
    const auto read = parse_yaml(file.text);
    REQUIRE(read);
    const YamlDocument built = document_of(file);
    CHECK(built.root == read->root);
    CHECK(built.expanded_nodes == read->expanded_nodes);
    REQUIRE(built.nodes.size() == read->nodes.size());
    for (std::size_t id = 0; id < built.nodes.size(); ++id) {
      const YamlNode &one = built.nodes[id], &other = read->nodes[id];
      CHECK(one.kind == other.kind);
      CHECK(one.is_plain == other.is_plain);
      CHECK(one.line == other.line);
      CHECK(one.column == other.column);
      CHECK(one.text == other.text);
      CHECK(one.items == other.items);
    }
  }
}

TEST_CASE(
    "built-in presets that need only a command give a plan, and set no *_VISIBLE_DEVICES "
    "variable") {
  int preset_count = 0;
  for (const EmbeddedFile& file : embedded_files()) {
    if (!file.name.starts_with("presets/")) continue;
    ++preset_count;
    const auto name = std::filesystem::path(file.name).stem().string();
    INFO(name);
    if (name == "trainer") continue;
    if (name == "ray" || name == "vllm") {
      CHECK(has(refused(with_launch("preset: " + name)), "give the job components"));
      continue;
    }
    const auto plan = planned(with_launch("preset: " + name));
    for (const auto& variable : plan.rank_templates)
      CHECK_FALSE(has(variable.name, "VISIBLE_DEVICES"));
    for (const auto& variable : plan.prologue.vars)
      CHECK_FALSE(has(variable.name, "VISIBLE_DEVICES"));
  }
  CHECK(preset_count == 13);
}

TEST_CASE("a preset that sets a variable with which Slurm binds GPUs is refused") {
  OwnPreset own;
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"}) {
    for (const char* section : {"env", "vars"}) {
      const auto errors =
          refused(own.write_and_request(fmt::format("{}:\n  {}: 0\n", section, name)));
      CHECK(has(errors, fmt::format("own.yaml:2:{}: error: {}: Slurm sets this variable",
                                    5 + std::string_view(name).size(), name)));
    }
  }
}

TEST_CASE("a user's own preset is found, and its errors are reported with file, line and column") {
  OwnPreset own;
  const auto plan = planned(own.write_and_request(
      "words: [mylauncher, \"--rank={rank}\"]\nenv: {PEERS: \"{addresses}\"}\n"));
  REQUIRE(plan.rank_options.size() == 2);
  CHECK(plan.rank_options[1].value == "--rank={rank}");
  CHECK(plan.rank_templates[0].name == "PEERS");
  CHECK(has(refused(own.write_and_request("env:\n  A: \"{rnak}\"\n")),
            "own.yaml:2:6: error: A: there is no field '{rnak}'; did you mean '{rank}'?"));
  CHECK(has(refused(own.write_and_request("words: [x, \"{\"]\n")),
            "own.yaml:1:12: error: an unpaired brace"));
  CHECK(has(refused(own.write_and_request("tasks: two\n")), "is not one of: gpu node"));
  CHECK(planned(own.write_and_request("env: {A: \"{{}}\"}\n")).rank_templates[0].value == "{{}}");
}

TEST_CASE("the launcher, the agent and ENVIRONMENT.md have the same template fields") {
  const auto page = read_file(DLRUN_SOURCE_DIR "/runtime/ENVIRONMENT.md", 1U << 20U);
  REQUIRE(page);
  const auto agent = read_file(DLRUN_SOURCE_DIR "/runtime/agent/template.cc", 1U << 20U);
  REQUIRE(agent);
  std::size_t agent_field_count = 0;
  for (std::size_t at = 0; (at = agent->find("Field{\"", at)) != std::string::npos; ++at)
    ++agent_field_count;
  CHECK(agent_field_count == template_fields().size());
  for (const auto& field : template_fields()) {
    INFO(field.name);
    CHECK(has(*page, fmt::format("| `{{{}}}` |", field.name)));
    CHECK(has(*agent, fmt::format("Field{{\"{}\"", field.name)));
  }
}

TEST_CASE("torchrun as the program of preset torch causes a warning, and no other preset does") {
  const auto warnings = [](const std::string& preset, const std::string& program) {
    const auto found =
        loaded(spec_request("resources: {time: 1m, tasks_per_node: 1}\nlaunch: {preset: " + preset +
                            ", command: [" + program + ", train.py]}\n"));
    return format_diagnostics(found.warnings);
  };
  const char* const kMessage = "each rank would start a torchrun of its own";
  CHECK(has(warnings("torch", "torchrun"), kMessage));
  CHECK(has(warnings("lightning", "/opt/bin/torchrun"), kMessage));
  CHECK_FALSE(has(warnings("torch", "python"), kMessage));
  CHECK_FALSE(has(warnings("plain", "torchrun"), kMessage));
}

TEST_CASE("torchrun: a node has one task, with launch.nproc_per_node ranks or one rank per GPU") {
  const auto by_gpus =
      planned(with_launch("preset: torchrun", "time: 1m, nodes: 2, gpus_per_node: 4"));
  CHECK(value_of_option(by_gpus.directives, "--ntasks-per-node") == "1");
  CHECK(value_of_option(by_gpus.rank_options, "--nproc-per-node") == "4");
  CHECK(value_of_option(planned(with_launch("preset: torchrun, nproc_per_node: 3")).rank_options,
                        "--nproc-per-node") == "3");
  CHECK(value_of_option(planned(with_launch("preset: torchrun")).rank_options,
                        "--nproc-per-node") == "1");
  CHECK(value_of_option(
            planned(with_launch("preset: torchrun", "time: 1m, gpus_per_task: 2")).rank_options,
            "--nproc-per-node") == "2");
  CHECK(value_of_option(
            planned(with_launch("preset: torchrun", "time: 1m, gres: 'gpu:a100:4'")).rank_options,
            "--nproc-per-node") == "4");
  CHECK(planned(with_launch("preset: torchrun", "time: 1m, gpus_per_node: 4"), Target::kLocal)
            .local_ranks == 1);
  CHECK(has(refused(with_launch("preset: torchrun", "time: 1m, gpus: 8, nodes: 2")),
            "launch.nproc_per_node is missing"));
  CHECK(has(refused(with_launch("preset: torchrun", "time: 1m, ntasks: 8, nodes: 2")),
            "needs one task per node"));
  CHECK(planned(with_launch("preset: torchrun", "time: 1m, ntasks: 2, nodes: 2")).requested.tasks ==
        2);
}

TEST_CASE(
    "launch.agent is true by default, and false is ignored in local runs and refused if the agent "
    "is needed") {
  CHECK(planned(with_launch("preset: torch, agent: true")).agent ==
        planned(with_launch("preset: torch")).agent);
  CHECK(planned(with_launch("preset: torch, agent: false")).agent.empty());
  CHECK_FALSE(planned(with_launch("preset: torch, agent: false"), Target::kLocal).agent.empty());
  for (const char* preset :
       {"torchrun", "mpi", "plain", "accelerate", "deepspeed", "lightning", "jax"}) {
    CHECK(planned(with_launch(fmt::format("preset: {}, agent: false", preset))).agent.empty());
  }
  CHECK(has(refused(with_launch("preset: tensorflow, agent: false")),
            "asks for {tf_config}, which only the agent knows"));
  auto trainer = with_launch("");
  trainer.text =
      "resources: {time: 1m}\ntrain: {data: {dataset: digits}}\nlaunch: {agent: false}\n";
  CHECK(has(refused(trainer),
            "exp.yaml:3:17: error: launch.agent: false: the preset 'trainer' needs the agent"));
}

TEST_CASE(
    "the help of launch.agent lists the keys that need the agent, and without it each key is "
    "refused") {
  struct Case {
    const char* key;
    const char* spec_lines;
  };
  const std::vector<Case> cases{
      {"components", "components: [{name: a}]\n"},
      {"environment.secrets", "environment: {secrets: [API_KEY]}\n"},
      {"stage", "stage: [{from: a, to: $T/x}]\n"},
      {"outputs", "outputs: [{from: $T/x, to: out}]\n"},
      {"retry", "retry: {max: 1}\n"},
      {"health", "health: {hang_after: 5m}\n"},
      {"profile", "profile: nsys\n"},
      {"notify", "notify: {command: [mail]}\n"},
      {"track", "track: {tensorboard: true}\n"},
      {"sweep.pack", "sweep: {parameters: {lr: [1, 2]}, pack: 2}\n"},
      {"sweep.stop_early", "sweep: {parameters: {lr: [1, 2]}, stop_early: {metric: loss}}\n"},
  };
  std::string listed;
  for (const Case& one : cases) {
    CAPTURE(one.key);
    listed += (listed.empty() ? "" : &one == &cases.back() ? " or " : ", ") + std::string(one.key);
    auto request = with_launch("");
    request.text = "resources: {time: 1m}\nlaunch: {command: [x, \"{lr}\"], agent: false}\n" +
                   std::string(one.spec_lines);
    CHECK(has(refused(request), "error: launch.agent: false: "));
  }
  CHECK(has(find_key("launch.agent")->help, "must not use " + listed + "."));
}

TEST_CASE(
    "launch.roles are passed to the agent and checked, and launch keys that the preset ignores "
    "cause warnings") {
  const auto plan =
      planned(with_launch("preset: tensorflow, roles: {ps: 1, chief: 1}", "time: 1m, nodes: 3"));
  CHECK(value_of_option(plan.rank_options, "--roles") == "chief=1,ps=1");
  CHECK(planned(with_launch("preset: tensorflow")).rank_options.empty());
  CHECK(has(
      refused(with_launch("preset: tensorflow, roles: {ps: 4, chief: 1}", "time: 1m, nodes: 3")),
      "asks for 5 ranks, but the job has 3"));
  CHECK(has(refused(with_launch("preset: tensorflow, roles: {ps: 3}", "time: 1m, nodes: 3")),
            "no rank is a worker"));
  CHECK(has(refused(with_launch("preset: tensorflow, roles: {chief: 2}", "time: 1m, nodes: 3")),
            "launch.roles.chief"));
  const auto nproc_warnings = loaded(with_launch("preset: torch, nproc_per_node: 4")).warnings;
  REQUIRE(nproc_warnings.size() == 1);
  CHECK(has(nproc_warnings[0].message, "with 'torch' every task is a rank"));
  const auto warnings =
      loaded(with_launch("preset: torch, roles: {ps: 1}", "time: 1m, nodes: 3")).warnings;
  REQUIRE(warnings.size() == 1);
  CHECK(has(warnings[0].message, "the preset 'torch' gives ranks no roles"));
}

}  // namespace
}  // namespace dlrun
