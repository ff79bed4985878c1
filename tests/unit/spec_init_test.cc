// Tests the specs that `dlrun init` writes: they are valid at every site and contain the answers.

#include <doctest/doctest.h>

#include "launcher/spec/init_spec.h"
#include "launcher/spec/load.h"
#include "launcher/spec/sites.h"
#include "tests/contains.h"

namespace dlrun {
namespace {

LoadedSpec spec_of_text(const std::string& text) {
  LoadRequest request;
  request.file = "exp.yaml";
  request.text = text;
  request.current_dir = "/exp";
  request.env.set("HOME", "/home/u");
  auto result = load_spec(request);
  if (!result) FAIL(text << format_diagnostics(result.error()));
  return std::move(*result);
}

std::string text_of(InitAnswers answers, const SiteProfile& site) {
  return init_spec_text(answers_with_defaults(std::move(answers), site), site);
}

TEST_CASE(
    "the spec of init loads without an error or a warning at every site, in each of its "
    "partitions") {
  for (const std::string& name : site_names({})) {
    const SiteProfile site = find_site(name, {})->profile;
    InitAnswers answers;
    answers.site = name;
    INFO(name);
    CHECK(format_diagnostics(spec_of_text(text_of(answers, site)).warnings) == "");
    for (const auto& [partition, profile] : site.partitions) {
      INFO(partition);
      answers.partition = partition;
      const LoadedSpec spec = spec_of_text(text_of(answers, site));
      CHECK(format_diagnostics(spec.warnings) == "");
      CHECK(spec.spec.resources.partition == partition);
      CHECK((spec.spec.resources.gpus_per_node->count > 0) ==
            (profile.gpus_per_node.value_or(0) > 0));
    }
  }
}

TEST_CASE("the commented keys in the spec of init give a valid spec when they are uncommented") {
  for (const std::string& name : site_names({})) {
    const SiteProfile site = find_site(name, {})->profile;
    InitAnswers answers;
    answers.site = name;
    std::string text = text_of(answers, site), uncommented;
    for (std::size_t at = 0; at < text.size();) {
      const auto end = text.find('\n', at);
      std::string line = text.substr(at, end - at);
      at = end + 1;
      const auto hash = line.find("# ");
      const bool is_key = hash != std::string::npos && line.find_first_not_of(' ') == hash &&
                          has(line, ": ") && line.find("`") == std::string::npos &&
                          !line.starts_with("# An ") && !line.starts_with("#   dlrun");
      const bool is_section = line == "# environment:" || line == "# container:";
      // The text already sets a command, so the suggested one stays a comment.
      if ((is_key || is_section) && !has(line, "# command:")) line.erase(hash, 2);
      uncommented += line + "\n";
    }
    INFO(uncommented);
    LoadRequest request;
    request.file = "exp.yaml";
    request.text = uncommented;
    request.current_dir = "/exp";
    request.env.set("HOME", "/home/u");
    const auto result = load_spec(request);
    if (!result) FAIL(format_diagnostics(result.error()));
  }
}

TEST_CASE(
    "init suggests one GPU's share of the node's CPUs for each task, or all CPUs for a job without "
    "GPUs") {
  SiteProfile site;
  site.default_partition = "gpu";
  site.partitions["gpu"].cpus_per_node = 64;
  site.partitions["gpu"].gpus_per_node = 4;
  InitAnswers answers;
  answers.gpus_per_node = Gpus{"", 1};
  CHECK(has(text_of(answers, site), "# cpus_per_task: 16 "));
  answers.gpus_per_node = Gpus{"", 4};
  CHECK(has(text_of(answers, site), "# cpus_per_task: 16 "));
  answers.gpus_per_node = Gpus{"", 0};
  CHECK(has(text_of(answers, site), "# cpus_per_task: 64 "));
}

TEST_CASE("every answer to init is in the spec unchanged") {
  InitAnswers answers;
  answers.name = "my-run";
  answers.nodes = 2;
  answers.gpus_per_node = Gpus{"a100", 3};
  answers.tasks_per_node = 3;
  answers.cpus_per_task = 5;
  answers.mem = "10G";
  answers.time = "2h";
  answers.partition = "grete:shared";
  answers.account = "x: y # z";
  answers.modules = {"GCC/8.3.0", "#odd"};
  answers.venv = "/v e/n'v";
  answers.preset = "torch";
  answers.command = {"python", "-u", "a b.py", "--x={1}", "null", "", "\"q\"", "- ["};
  const SiteProfile site = find_site("grete", {})->profile;
  const JobSpec spec = spec_of_text(text_of(answers, site)).spec;
  CHECK(spec.name == "my-run");
  CHECK(spec.resources.nodes->min == 2);
  CHECK(spec.resources.gpus_per_node->type == "a100");
  CHECK(spec.resources.gpus_per_node->count == 3);
  CHECK(spec.resources.tasks_per_node == 3);
  CHECK(spec.resources.cpus_per_task == 5);
  CHECK(spec.resources.mem == "10G");
  CHECK(spec.resources.time == "02:00:00");
  CHECK(spec.resources.account == "x: y # z");
  CHECK(spec.environment.modules_load == answers.modules);
  CHECK(spec.environment.venv == "/v e/n'v");
  CHECK(spec.launch.preset == "torch");
  CHECK(spec.launch.command == answers.command);
}

TEST_CASE(
    "the spec of init with an image starts the command in the spec's folder with every container "
    "runtime") {
  for (const char* runtime : {"pyxis", "enroot", "apptainer", "charliecloud"}) {
    InitAnswers answers;
    answers.image = "./a.sqsh";
    answers.runtime = runtime;
    const ContainerSpec container =
        spec_of_text(text_of(answers, find_site("generic", {})->profile)).spec.container;
    CHECK(container.runtime == runtime);
    CHECK(container.image == "/exp/a.sqsh");
    REQUIRE(container.mounts.size() == 1);
    CHECK(container.mounts[0].source == "/exp");
    CHECK(container.mounts[0].target == "/work");
    CHECK(container.workdir == "/work");
  }
}

TEST_CASE(
    "an image in a registry gets the form that the container runtime of --runtime or of the site "
    "needs") {
  const auto image = [](const char* site, std::optional<std::string> runtime, const char* name) {
    InitAnswers answers;
    answers.site = site;
    answers.image = name;
    answers.runtime = std::move(runtime);
    return spec_of_text(text_of(answers, find_site(site, {})->profile))
        .spec.container.image.value_or("");
  };
  for (const char* site : {"juwels", "jureca", "grete", "emmy"}) {
    CHECK(image(site, {}, "nvcr.io/nvidia/pytorch:24.05-py3") ==
          "docker://nvcr.io/nvidia/pytorch:24.05-py3");
    CHECK(image(site, {}, "nvcr.io#nvidia/pytorch:24.05-py3") ==
          "docker://nvcr.io/nvidia/pytorch:24.05-py3");
    CHECK(image(site, {}, "./a.sif") == "/exp/a.sif");
    CHECK(image(site, "auto", "oras://ghcr.io/a/b") == "oras://ghcr.io/a/b");
    CHECK(image(site, "pyxis", "ubuntu") == "ubuntu");
  }
  CHECK(image("generic", "apptainer", "ubuntu") == "docker://ubuntu");
}

TEST_CASE("init suggests a time within the partition's limit, and one slice of a sliced GPU") {
  SiteProfile site;
  site.default_partition = "p";
  site.partitions["p"].max_time_seconds = 600;
  CHECK(answers_with_defaults({}, site).time == "00:10:00");
  site.partitions["p"].max_time_seconds = 86400;
  CHECK(answers_with_defaults({}, site).time == "1h");
  InitAnswers slices;
  slices.partition = "grete:interactive";
  const auto gpus = answers_with_defaults(slices, find_site("grete", {})->profile).gpus_per_node;
  CHECK(gpus->type == "2g.10gb");
  CHECK(gpus->count == 1);
}

}  // namespace
}  // namespace dlrun
