// Tests `base`: a spec that inherits from others.

#include <doctest/doctest.h>

#include "common/files.h"
#include "launcher/spec/load.h"
#include "tests/contains.h"
#include "tests/temporary_directory.h"

namespace dlrun {
namespace {

struct SpecFolder {
  TemporaryDirectory folder;

  void write(const std::string& name, std::string_view text) {
    const auto path = folder.path() / name;
    std::filesystem::create_directories(path.parent_path());
    REQUIRE(write_file_atomic(path, text).has_value());
  }
  [[nodiscard]] auto load(const std::string& name, std::vector<std::string> sets = {}) const {
    LoadRequest request;
    request.file = name;
    request.set_arguments = std::move(sets);
    request.current_dir = folder.path();
    request.env.set("HOME", "/home/u");
    request.env.set("COMMON", "common");
    return load_spec(request);
  }
  [[nodiscard]] LoadedSpec loaded(const std::string& name,
                                  std::vector<std::string> sets = {}) const {
    auto result = load(name, std::move(sets));
    if (!result) FAIL(format_diagnostics(result.error()));
    return std::move(*result);
  }
  [[nodiscard]] std::string refused(const std::string& name,
                                    std::vector<std::string> sets = {}) const {
    const auto result = load(name, std::move(sets));
    REQUIRE_FALSE(result.has_value());
    return format_diagnostics(result.error());
  }
  [[nodiscard]] std::string path(const std::string& name) const {
    return (folder.path() / name).string();
  }
};

constexpr std::string_view kCommon = R"(name: common
resources: {nodes: 2, time: 1h, partition: gpu, mem: 4G}
environment:
  modules: [GCC, CUDA]
  vars: {A: base, B: base}
  setup: echo base
launch: {preset: torch, command: [python, base.py]}
)";

}  // namespace

TEST_CASE_FIXTURE(SpecFolder,
                  "maps of a base are merged, lists and values are replaced, and a value's origin "
                  "is the file that sets it") {
  write("common.yaml", kCommon);
  write("exp.yaml", R"(base: common.yaml
name: exp
resources: {nodes: 4}
environment:
  modules: [OpenMPI]
  vars: {B: own, C: own}
)");
  const LoadedSpec got = loaded("exp.yaml");
  CHECK(got.spec.name == "exp");
  CHECK(got.spec.resources.nodes->min == 4);
  CHECK(got.spec.resources.partition == "gpu");
  CHECK(got.spec.environment.modules_load == std::vector<std::string>{"OpenMPI"});
  CHECK(got.spec.launch.command == std::vector<std::string>{"python", "base.py"});
  CHECK(got.spec.environment.vars == NamedValues{{"B", "own"}, {"C", "own"}, {"A", "base"}});
  CHECK(describe(got.spec.origins.at("resources.nodes")) == "exp.yaml:3:20");
  CHECK(describe(got.spec.origins.at("resources.partition")) == "common.yaml:2:44");
  CHECK(describe(got.spec.origins.at("environment.vars.A")) == "common.yaml:5:13");
  CHECK(has(resolved_yaml(got), "partition: gpu  # common.yaml:2:44\n"));
  CHECK_FALSE(has(resolved_yaml(got), "base:"));
}

TEST_CASE_FIXTURE(SpecFolder, "null removes an inherited value, map entry, map or section") {
  write("common.yaml", kCommon);
  write("exp.yaml",
        "base: common.yaml\nresources: {mem: null, mem_per_cpu: 1G}\nenvironment: {vars: {A: "
        "null}, setup: null}\n");
  const LoadedSpec got = loaded("exp.yaml");
  CHECK_FALSE(got.spec.resources.mem.has_value());
  CHECK(got.spec.resources.mem_per_cpu == "1G");
  CHECK(got.spec.environment.vars == NamedValues{{"B", "base"}});
  CHECK_FALSE(got.spec.environment.setup.has_value());

  write("map.yaml", "base: common.yaml\nenvironment: {vars: null}\n");
  CHECK(loaded("map.yaml").spec.environment.vars.empty());
  CHECK_FALSE(loaded("map.yaml").spec.environment.modules_load.empty());
  write("section.yaml", "base: common.yaml\nenvironment: null\n");
  CHECK(loaded("section.yaml").spec.environment.vars.empty());
  CHECK(loaded("section.yaml").spec.environment.modules_load.empty());
  CHECK(loaded("exp.yaml", {"environment.vars=null"}).spec.environment.vars.empty());
  // A section whose lines are all commented out changes nothing.
  write("empty.yaml", "base: common.yaml\nenvironment:\n");
  CHECK(loaded("empty.yaml").spec.environment.modules_load.size() == 2);
}

TEST_CASE_FIXTURE(
    SpecFolder,
    "a chain of bases works, and paths are relative to the folder of the file that contains them") {
  write("site/root.yaml", "resources: {time: 2h, partition: root}\nenvironment: {venv: ./venv}\n");
  write("team/common.yaml",
        "base: ../site/root.yaml\nresources: {partition: team}\nlaunch: {command: [./run.sh]}\n");
  write("own/exp.yaml", "base: ../team/${COMMON}.yaml\nresources: {nodes: 3}\n");
  const LoadedSpec got = loaded("own/exp.yaml");
  CHECK(got.spec.resources.partition == "team");
  CHECK(got.spec.resources.time == "02:00:00");
  CHECK(got.spec.environment.venv == path("site/venv"));
  CHECK(got.folder == path("own"));
  CHECK(got.spec.name == "exp");
  REQUIRE(got.bases.size() == 2);
  CHECK(got.bases[1].name == "site/root.yaml");
}

TEST_CASE_FIXTURE(SpecFolder, "--set can change or remove the base") {
  write("common.yaml", kCommon);
  write("other.yaml", "resources: {partition: other, time: 1m}\nlaunch: {command: [x]}\n");
  write("exp.yaml", "base: common.yaml\n");
  CHECK(loaded("exp.yaml", {"base=other.yaml"}).spec.resources.partition == "other");
  CHECK_FALSE(loaded("exp.yaml", {"base=null"}).spec.resources.partition.has_value());
}

TEST_CASE_FIXTURE(SpecFolder, "a cycle of bases is refused at the line that closes it") {
  write("a.yaml", "name: a\nbase: b.yaml\n");
  write("b.yaml", "base: a.yaml\n");
  CHECK(has(refused("a.yaml"),
            "b.yaml:1:7: error: base: the spec inherits from itself: a.yaml -> b.yaml -> a.yaml\n"
            "    1 | base: a.yaml\n"
            "      |       ^\n"));
  write("self.yaml", "base: ./self.yaml\n");
  CHECK(has(refused("self.yaml"), "self.yaml -> self.yaml"));
  std::filesystem::create_symlink(path("self.yaml"), path("link.yaml"));
  CHECK(has(refused("link.yaml"), "link.yaml -> self.yaml"));
}

TEST_CASE_FIXTURE(
    SpecFolder,
    "errors in a base are reported with the base's line, together with errors in the spec") {
  write("common.yaml", "resources:\n  nodez: 2\nlaunch: {command: [x]}\n");
  write("exp.yaml", "base: common.yaml\nresources: {tasks_per_node: 0}\n");
  const std::string errors = refused("exp.yaml");
  CHECK(has(errors, "exp.yaml:2:29: error: resources.tasks_per_node"));
  CHECK(has(errors, "common.yaml:2:3: error: unknown key 'nodez' in resources"));
  CHECK(has(errors, "    2 |   nodez: 2\n"));
  CHECK(errors.find("exp.yaml:2:29") < errors.find("common.yaml:2:3"));

  // A check across several keys fails because of a value from the base.
  write("common.yaml", "resources: {time: 1m, gres: gpu:2}\nlaunch: {command: [x]}\n");
  write("exp.yaml", "base: common.yaml\nresources: {gpus_per_node: 2}\n");
  CHECK(has(refused("exp.yaml"),
            "common.yaml:1:29: error: resources.gres and resources.gpus_per_node exclude each "
            "other\n    1 | resources: {time: 1m, gres: gpu:2}\n"));
}

TEST_CASE_FIXTURE(
    SpecFolder,
    "a base that is missing, not a map or not YAML is refused, and the error shows the line") {
  write("exp.yaml", "name: x\nbase: none.yaml\n");
  CHECK(has(refused("exp.yaml"),
            "exp.yaml:2:7: error: base: " + path("none.yaml") + ": No such file"));
  write("none.yaml", "[a, b]\n");
  CHECK(has(refused("exp.yaml"), "none.yaml:1:1: error: a spec is a map of keys, not a list"));
  write("none.yaml", "a: [b\n");
  CHECK(has(refused("exp.yaml"), "none.yaml:2:1: error: "));
  write("exp.yaml", "base: [a.yaml]\n");
  CHECK(has(refused("exp.yaml"), "exp.yaml:1:7: error: base: expected text, not a list"));
  write("exp.yaml", "base: ${NO_SUCH}/a.yaml\n");
  CHECK(has(refused("exp.yaml"),
            "exp.yaml:1:7: error: base: ${NO_SUCH} is not set in this environment"));
}

TEST_CASE_FIXTURE(
    SpecFolder,
    "an error shows no text of a base that is not a spec, because `base` may name any file") {
  write("exp.yaml", "base: private\n");
  for (const char* text :
       {"-----BEGIN OPENSSH PRIVATE KEY-----\nsecretword\n", "secretword\n", "!secretword x\n",
        "*secretword\n", "[secretword]\n", "github.com: {oauth_token: secretword}\n",
        "secretword: 1\nsecretword: 2\n", "a: 'secretword\n", "secretword: [\n", "secretword:\tx\n",
        "machine x login y password secretword: z\n"}) {
    CAPTURE(text);
    write("private", text);
    const auto errors = refused("exp.yaml");
    CHECK(has(errors, "private:"));
    CHECK(has(errors, "a base's text is not shown"));
    CHECK_FALSE(has(errors, "secretword"));
    CHECK_FALSE(has(errors, "PRIVATE KEY"));
  }
}

TEST_CASE_FIXTURE(SpecFolder,
                  "keys that an unreadable base may contain are not reported as missing") {
  write("exp.yaml", "base: nowhere.yaml\nresources: {nodez: 1}\n");
  const auto errors = refused("exp.yaml");
  CHECK(has(errors, "exp.yaml:1:7: error: base: "));
  CHECK(has(errors, "nodez"));
  CHECK_FALSE(has(errors, "resources.time is not given"));
  CHECK_FALSE(has(errors, "launch.command"));
}

TEST_CASE_FIXTURE(SpecFolder,
                  "the limits on bytes and YAML nodes apply to all files of a spec together, and a "
                  "spec has at most 32 files") {
  const std::string filler(600'000, '#');
  write("common.yaml", filler + "\n" + std::string(kCommon));
  write("exp.yaml", "base: common.yaml\n");
  CHECK(load("exp.yaml").has_value());
  write("exp.yaml", "base: common.yaml\n" + filler);
  CHECK(has(refused("exp.yaml"), "common.yaml: error: "));

  std::string list = "environment: {setup: x, modules: [a";
  for (int i = 0; i < 60'000; ++i) list += ",a";
  write("common.yaml", list + "]}\nlaunch: {command: [x]}\n");
  write("exp.yaml", "base: common.yaml\n");
  CHECK(load("exp.yaml").has_value());
  write("exp.yaml", "base: common.yaml\n" + list + "]}\n");
  CHECK(has(refused("exp.yaml"), "more than"));

  for (int i = 0; i < 40; ++i)
    write(std::to_string(i) + ".yaml", "base: " + std::to_string(i + 1) + ".yaml\n");
  CHECK(has(refused("0.yaml"), "base: the spec and its bases are more than 32 files"));
}

}  // namespace dlrun
