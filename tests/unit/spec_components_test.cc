// Tests the components of a spec: inheritance, the nodes of each component, and mistakes.
#include <filesystem>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "common/files.h"
#include "launcher/spec/component_layout.h"
#include "launcher/spec/component_specs.h"
#include "tests/contains.h"
#include "tests/temporary_directory.h"
#include "tests/unit/load_checks.h"

namespace dlrun {
namespace {

constexpr std::string_view kTop =
    "resources: {time: 1m, cpus_per_task: 2, mem: 1G}\nlaunch: {command: [x]}\n";

LoadRequest components_request(std::string_view components, std::string_view top = kTop) {
  LoadRequest request;
  request.file = "exp.yaml";
  request.text = fmt::format("{}components: [{}]\n", top, components);
  request.current_dir = "/exp";
  return request;
}

ComponentLayout layout(const LoadedSpec& loaded) {
  return layout_of(loaded.spec, loaded_specs_of_components(loaded));
}

TEST_CASE("a component inherits the spec's values, and its own values replace them") {
  const LoadedSpec spec = loaded(components_request(
      "{name: a}, {name: b, nodes: 3, mem: 2G, vars: {X: '2', Y: '3'}, launch: {command: [y]}}",
      "resources: {time: 1m, cpus_per_task: 2, mem: 1G}\nlaunch: {command: [x], cpu_bind: cores}\n"
      "environment: {vars: {X: '1', Z: '9'}}\n"));
  const JobSpec a = loaded_spec_of_component(spec, 0).spec,
                b = loaded_spec_of_component(spec, 1).spec;
  CHECK(a.launch.command == std::vector<std::string>{"x"});
  CHECK(a.resources.mem == "1G");
  CHECK(nodes_of(a) == 1);
  CHECK(b.launch.command == std::vector<std::string>{"y"});
  CHECK(b.launch.cpu_bind == "cores");
  CHECK(b.resources.mem == "2G");
  CHECK(b.resources.cpus_per_task == 2);
  CHECK(nodes_of(b) == 3);
  CHECK(b.environment.vars == NamedValues{{"Z", "9"}, {"X", "2"}, {"Y", "3"}});
  CHECK(b.origins.at("resources.mem").line == 4);
  CHECK(b.origins.at("resources.cpus_per_task").line == 1);
}

TEST_CASE("a null in a component removes the inherited value, also after the spec is resolved") {
  const std::string_view top =
      "resources: {time: 1m, cpus_per_task: 2, qos: high, mem: 1G}\nlaunch: {command: [x]}\n"
      "container: {runtime: pyxis, image: i, mounts: [/a]}\n";
  const LoadedSpec first = loaded(components_request(
      "{name: a, qos: ~, container: {image: null, mounts: null, runtime: none}}, {name: b}", top));
  LoadRequest again;
  again.file = "resolved.yaml";
  again.text = resolved_yaml(first);
  again.current_dir = "/elsewhere";
  for (const LoadedSpec& spec : {first, loaded(again)}) {
    const JobSpec a = loaded_spec_of_component(spec, 0).spec,
                  b = loaded_spec_of_component(spec, 1).spec;
    CHECK_FALSE(a.resources.qos.has_value());
    CHECK_FALSE(a.container.image.has_value());
    CHECK(a.container.mounts.empty());
    CHECK(b.resources.qos == "high");
    CHECK(b.container.image == "i");
    CHECK(b.container.mounts.size() == 1);
  }
}

TEST_CASE("a resolved spec keeps every key of a component") {
  const LoadedSpec first = loaded(components_request(
      "{name: s-1, role: service, nodes: 2, tasks_per_node: 2, gpus_per_node: 'a100:2', ready: "
      "{http: /health, timeout: 10m}, retry: {max: 2}, launch: {preset: torch, command: [p, "
      "'{port}', \"it's\\n$x\"], srun: {unbuffered: true}}}, {name: m, after: s-1, gpus_per_node: "
      "{type: a100, count: 1}, container: {runtime: none}}, {name: e, shares: m, after: [s-1, "
      "m]}"));
  LoadRequest again;
  again.file = "resolved.yaml";
  again.text = resolved_yaml(first);
  again.current_dir = "/elsewhere";
  const LoadedSpec second = loaded(again);
  const auto text_of = [](const LoadedSpec& spec) {
    std::string text;
    for (const ComponentSpec& component : spec.spec.components) {
      for (const EffectiveValue& value : own_values_of_component(component))
        text += fmt::format("{}={}\n", value.key, value.text);
    }
    return text;
  };
  CHECK(text_of(first) == text_of(second));
  CHECK(has(text_of(first), "components.s-1.ready.timeout=600\n"));
  CHECK(has(text_of(first), "components.s-1.launch.srun.unbuffered=true\n"));
  CHECK(has(text_of(first), "components.e.after=[\"s-1\", \"m\"]\n"));
  CHECK(second.spec.components[0].own.launch.command[2] == "it's\n$x");
}

TEST_CASE(
    "a service has one task per node by default, and a main component without torchrun one for "
    "each GPU") {
  const LoadedSpec spec = loaded(components_request(
      "{name: s, role: service, gpus_per_node: 4}, {name: m, gpus_per_node: 4}, {name: t, "
      "gpus_per_node: 4, launch: {preset: torchrun}}, {name: two, role: service, tasks_per_node: "
      "2}"));
  const auto ranks = [&](std::size_t index) {
    return request_of(loaded_spec_of_component(spec, index).spec).ranks;
  };
  CHECK(ranks(0) == 1);
  CHECK(ranks(1) == 4);
  CHECK(ranks(2) == 1);
  CHECK(ranks(3) == 2);
}

TEST_CASE(
    "components get nodes in the order of the spec, and the requests of components that share "
    "nodes are added") {
  const LoadedSpec spec = loaded(components_request(
      "{name: a, nodes: 2, gpus_per_node: 2, mem: 4G}, {name: b, nodes: 3, tasks_per_node: 4}, "
      "{name: c, shares: a, gpus_per_node: 1, cpus_per_task: 5, mem: 512M}"));
  const ComponentLayout found = layout(spec);
  CHECK_FALSE(found.is_hetjob);
  REQUIRE(found.groups.size() == 2);
  CHECK(found.nodes == 5);
  CHECK(found.group_of(0).first_node == 0);
  CHECK(found.group_of(1).first_node == 2);
  CHECK(&found.group_of(2) == &found.group_of(0));
  CHECK(found.groups[0].request.gpus.count == 3);
  CHECK(found.groups[0].request.cpus == 2 * 2 + 5);
  CHECK(found.groups[0].request.mem_mib == 4096 + 512);
  CHECK(found.common_request.gpus.count == 3);
  CHECK(found.common_request.cpus == 9);
  CHECK(found.common_request.mem_mib == 4608);
}

TEST_CASE("components that one allocation cannot have together make a heterogeneous job") {
  const auto is_hetjob = [](std::string_view components, std::string_view more_top = "") {
    return layout(loaded(components_request(components, fmt::format("{}{}", kTop, more_top))))
        .is_hetjob;
  };
  CHECK(is_hetjob("{name: a, partition: cpu}, {name: b, partition: gpu}"));
  CHECK(is_hetjob("{name: a, constraint: x}, {name: b}"));
  CHECK(is_hetjob("{name: a, account: x}, {name: b}"));
  CHECK(is_hetjob("{name: a, qos: x}, {name: b}"));
  CHECK(is_hetjob("{name: a, gpus_per_node: 'a100:1'}, {name: b, gpus_per_node: 'v100:1'}"));
  CHECK_FALSE(is_hetjob("{name: a, gpus_per_node: 'a100:1'}, {name: b, gpus_per_node: 0}"));
  CHECK_FALSE(is_hetjob("{name: a, partition: gpu}, {name: b, partition: gpu}"));
  CHECK(is_hetjob("{name: a}, {name: b}", "hetjob: true\n"));
  CHECK(layout(loaded(components_request(
                   "{name: s, role: service, partition: cpu}, {name: m}, {name: n}")))
            .components_in_part_order == std::vector<std::size_t>{1, 0, 2});
}

TEST_CASE("the errors about components show line and column, and say what to do") {
  const auto check_refusal = [](std::string_view components, std::string_view message,
                                std::string_view top = kTop) {
    const std::string found = refused(components_request(components, top));
    INFO(found);
    CHECK(has(found, message));
  };
  check_refusal("{name: a}, {name: a}",
                "exp.yaml:3:32: error: component 'a': another component has");
  check_refusal("{name: a-b}, {name: A_B}", "DLRUN_COMPONENT_A_B_ADDR; choose another name");
  check_refusal("{name: 1a}",
                "exp.yaml:3:21: error: components[0]: '1a' cannot be the name of a component");
  check_refusal("{nodes: 1}", "components[0]: name is missing");
  check_refusal("{name: a, node: 1}", "component 'a': unknown key 'node'; did you mean 'nodes'?");
  check_refusal("{name: a, nodes: x}", "exp.yaml:3:31: error: component 'a': nodes: ");
  check_refusal("{name: a, nodes: '1-2'}", "a component needs one number of nodes");
  check_refusal("{name: a, role: service}", "one of them must have role: main");
  check_refusal("{name: a, after: b}", "after: there is no component 'b'; did you mean 'a'?");
  check_refusal("{name: a, after: b}, {name: b, after: c}, {name: c, after: b}", "b -> c -> b");
  check_refusal("{name: a, after: a}", "a -> a");
  check_refusal("{name: a, shares: a}", "shares: a component cannot share its own nodes");
  check_refusal("{name: a}, {name: b, shares: a}, {name: c, shares: b}",
                "'b' has no nodes of its own");
  check_refusal("{name: a}, {name: b, shares: a, nodes: 2}",
                "the component has 2 nodes, but 'a' has only 1");
  check_refusal("{name: a}, {name: b, shares: a}", "a component without mem would take all",
                "resources: {time: 1m}\nlaunch: {command: [x]}\n");
  check_refusal("{name: a, launch: {command: [y, '{port}']}}",
                "{port} is the reserved port of a service");
  check_refusal("{name: a, launch: {command: [y, '+++']}}", "the start of the next component");
  check_refusal("{name: a, ready: tcp}", "http and tcp are for a service");
  check_refusal("{name: a}, {name: b}", "one by one with --set, or remove hetjob",
                "resources: {time: 1m}\nlaunch: {command: [x]}\nhetjob: true\n"
                "sweep: {parameters: {environment.vars.X: [1, 2]}}\n");
  check_refusal("{name: a, retry: {max: 1}}", "only a service restarts alone");
  check_refusal("{name: a}", "launch.agent: false", "launch: {command: [x], agent: false}\n");
  check_refusal("{name: a}", "resources.gres cannot be given with components",
                "resources: {gres: 'gpu:1'}\nlaunch: {command: [x]}\n");
  check_refusal("{name: a}", "retry.grow.mem cannot be given with components",
                "resources: {time: 1m, mem: 1G}\nlaunch: {command: [x]}\n"
                "retry: {max: 2, on: [oom], grow: {mem: 2, max: 4G}}\n");
  check_refusal("{name: a}, {name: b, launch: {srun: {overlap: true}}}",
                "launch.srun: the step of a component cannot have --overlap");
  check_refusal(
      "{name: a}, {name: b}", "component 'b': launch.preset: another component is also the bundled",
      "resources: {time: 1m}\nlaunch: {preset: trainer}\ntrain: {data: {dataset: digits}}\n");
}

TEST_CASE(
    "outputs, node checks, profiles and environments of the spec apply to each component that can "
    "use them") {
  const auto top = [](std::string_view more) { return fmt::format("{}{}", kTop, more); };
  const LoadedSpec spec = loaded(components_request(
      "{name: a}, {name: b, nodes: 2, gpus_per_node: 1}",
      top("outputs: [{from: $TMPDIR/x, to: out}]\nhealth: {preflight: [gpu, disk, binding]}\n"
          "profile: {tool: perf, ranks: [1]}\n")));
  const JobSpec a = loaded_spec_of_component(spec, 0).spec,
                b = loaded_spec_of_component(spec, 1).spec;
  CHECK(a.outputs.front().to == "out/a");
  CHECK(b.outputs.front().to == "out/b");
  CHECK(a.health.preflight.size() == 1);
  CHECK(b.health.preflight.size() == 3);
  CHECK(has(refused(components_request("{name: a}, {name: b, nodes: 2}",
                                       top("profile: {tool: perf, ranks: [2]}\n"))),
            "profile.ranks: there is no rank 2"));
  CHECK(has(refused(components_request("{name: a}", top("download: {path: /d}\n"))),
            "download.path: download.files is missing"));
  const std::string_view uv =
      "environment: {uv: ./project}\ncontainer: {runtime: pyxis, image: i}\n";
  CHECK(has(refused(components_request("{name: a}, {name: b}", top(uv))),
            "environment.uv.project: the ranks run in a container"));
  CHECK(loaded(components_request("{name: a}, {name: b, container: {runtime: none, image: null}}",
                                  top(uv)))
            .spec.environment.uv_project.has_value());
}

TEST_CASE("keys that the parts of a heterogeneous job cannot have are refused") {
  const auto check_refusal = [](std::string_view second, std::string_view more,
                                std::string_view message) {
    const std::string found = refused(
        components_request(fmt::format("{{name: a, partition: cpu}}, {{name: b, {}}}", second),
                           fmt::format("{}{}", kTop, more)));
    INFO(found);
    CHECK(has(found, message));
  };
  check_refusal("shares: a, partition: gpu", "",
                "the parts of a heterogeneous job have no node in common");
  check_refusal("partition: gpu", "sweep: {parameters: {environment.vars.X: [1, 2]}}\n",
                "Slurm has no arrays of such jobs");
  check_refusal("partition: gpu", "hetjob: false\n",
                "hetjob is false, but the components differ in");
  check_refusal("partition: gpu", "environment: {setup_node: date}\n", "environment.setup_node: ");
  check_refusal("partition: gpu", "submit: {via: slurmrestd, url: 'unix:/s'}\n",
                "with sbatch only");
  CHECK(has(refused(components_request("{name: a}", fmt::format("{}hetjob: true\n", kTop))),
            "has at least two components"));
  LoadRequest alone = components_request("");
  alone.text = fmt::format("{}hetjob: true\n", kTop);
  CHECK(has(refused(alone), "hetjob: components is missing"));
}

TEST_CASE("components that share a node and need more GPUs than the node has are refused") {
  TemporaryDirectory folder;
  std::filesystem::create_directories(folder.path() / "sites");
  const auto refused_at = [&](std::string_view site) {
    REQUIRE(write_file_atomic(folder.path() / "sites" / "small.yaml", site, 0600));
    LoadRequest request =
        components_request("{name: a, gpus_per_node: 3}, {name: b, shares: a, gpus_per_node: 2}",
                           fmt::format("site: small\n{}", kTop));
    request.config_dirs = {folder.path()};
    return refused(request);
  };
  constexpr std::string_view kErrorOfSite =
      "'a' and 'b' need 5 GPUs on a node, but site 'small' has at most 4";
  constexpr std::string_view kErrorOfPartition =
      "'a' and 'b' need 5 GPUs on a node, but a node of the partition has 4";
  constexpr std::string_view kPartition =
      "default_partition: p\npartitions: {p: {gpus_per_node: 4}}\n";
  CHECK(has(refused_at("max_gpus_per_node: 4\n"), kErrorOfSite));
  CHECK(has(refused_at(kPartition), kErrorOfPartition));
  CHECK(has(refused_at(fmt::format("max_gpus_per_node: 8\n{}", kPartition)), kErrorOfPartition));
  CHECK(has(refused_at(fmt::format("max_gpus_per_node: 4\n{}", kPartition)), kErrorOfSite));
}

TEST_CASE("the parameters of a sweep replace fields such as {lr} in components, and {port} stays") {
  LoadRequest request = components_request(
      "{name: s, role: service, launch: {command: [serve, '{lr}', '{port}']}}, {name: m, vars: {L: "
      "'{lr}'}}",
      fmt::format("{}sweep: {{parameters: {{lr: [0.5, 0.25]}}}}\n", kTop));
  const LoadedSpec first_point = loaded(request);
  CHECK(first_point.spec.components[0].own.launch.command ==
        std::vector<std::string>{"serve", "0.5", "{port}"});
  CHECK(first_point.spec.components[1].own.environment.vars == NamedValues{{"L", "0.5"}});
  CHECK(has(resolved_yaml(first_point), "{lr}"));
}

}  // namespace
}  // namespace dlrun
