#include "launcher/spec/init_spec.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/text.h"
#include "container/backends.h"
#include "launcher/spec/value_syntax.h"
#include "launcher/spec/yaml_page.h"
#include "launcher/spec/yaml_text.h"

namespace dlrun {
namespace {

[[nodiscard]] const PartitionProfile* find_partition(const SiteProfile& site,
                                                     std::string_view name) {
  const auto found = site.partitions.find(name);
  return found == site.partitions.end() ? nullptr : &found->second;
}

[[nodiscard]] std::string flow_list(const std::vector<std::string>& words) {
  std::vector<std::string> quoted;
  for (const std::string& word : words) quoted.push_back(yaml_text(word));
  return "[" + join(quoted, ", ") + "]";
}

/// Returns the site's partitions, separated by commas: "batch, gpu, gpu-short".
[[nodiscard]] std::string partition_names(const SiteProfile& site) {
  std::vector<std::string> names;
  for (const auto& [name, partition] : site.partitions) names.push_back(name);
  return join(names, ", ");
}

void write_resources(YamlPage& page, const InitAnswers& a, const SiteProfile& site) {
  page.begin_section("resources");
  page.add_line(fmt::format("  nodes: {}", a.nodes.value_or(1)));
  const std::int64_t gpus = a.gpus_per_node ? a.gpus_per_node->count : 0;
  page.add_line(fmt::format("  gpus_per_node: {}",
                            a.gpus_per_node ? yaml_text(format_gpus(*a.gpus_per_node)) : "0"),
                gpus == 0                  ? "TYPE:N for a type, such as a100:4"
                : site.gpu_style == "gres" ? "becomes --gres=gpu:N here"
                                           : "becomes --gpus-per-node");
  if (a.tasks_per_node) {
    page.add_line(fmt::format("  tasks_per_node: {}", *a.tasks_per_node));
  } else {
    page.add_line(fmt::format("  # tasks_per_node: {}", std::max<std::int64_t>(gpus, 1)),
                  "ranks on each node; default: one for each GPU, or 1");
  }
  const PartitionProfile* partition =
      find_partition(site, a.partition.value_or(site.default_partition));
  const std::int64_t tasks = a.tasks_per_node.value_or(std::max<std::int64_t>(gpus, 1));
  if (a.cpus_per_task) {
    page.add_line(fmt::format("  cpus_per_task: {}", *a.cpus_per_task));
  } else if (partition != nullptr && partition->cpus_per_node) {
    // A job with some of a node's GPUs gets the same share of the CPUs.
    const std::int64_t node_gpus =
        std::max<std::int64_t>(partition->gpus_per_node.value_or(0), gpus);
    const std::int64_t cpus =
        gpus > 0 ? *partition->cpus_per_node * gpus / node_gpus : *partition->cpus_per_node;
    page.add_line(fmt::format("  # cpus_per_task: {}", std::max<std::int64_t>(cpus / tasks, 1)),
                  fmt::format("a node has {} CPUs", *partition->cpus_per_node));
  } else {
    page.add_line("  # cpus_per_task: 8", "for data loaders and threads");
  }
  page.add_line(a.mem ? "  mem: " + yaml_text(*a.mem) : "  # mem: 64G",
                a.mem ? "" : "memory of each node; default: the partition's");
  page.add_line("  time: " + yaml_text(a.time.value_or("1h")),
                "Slurm ends the job after this time; short jobs start sooner");
  if (a.partition) {
    page.add_line("  partition: " + yaml_text(*a.partition),
                  site.partitions.empty() ? "" : "one of: " + partition_names(site));
  } else {
    page.add_line("  # partition: " +
                      yaml_text(site.default_partition.empty() ? "gpu" : site.default_partition),
                  site.partitions.empty()
                      ? "`sinfo -s` lists the partitions; default: Slurm's default partition"
                      : "one of: " + partition_names(site));
  }
  page.add_line(a.account ? "  account: " + yaml_text(*a.account) : "  # account: project",
                a.account ? "" : "if the cluster requires one; or set $SBATCH_ACCOUNT");
}

void write_environment(YamlPage& page, const InitAnswers& a) {
  if (a.modules.empty() && !a.conda && !a.venv) {
    page.add_line("");
    page.add_line("# environment:");
    page.add_line("#   modules: [CUDA, PyTorch]", "loaded with module load");
    page.add_line("#   conda: my-env", "or venv: ~/venv");
    page.add_line("#   vars: {OMP_NUM_THREADS: 8}");
    return;
  }
  page.begin_section("environment");
  if (!a.modules.empty())
    page.add_line("  modules: " + flow_list(a.modules), "loaded with module load, in this order");
  if (a.conda) page.add_line("  conda: " + yaml_text(*a.conda));
  if (a.venv) page.add_line("  venv: " + yaml_text(*a.venv));
}

/// Returns the runtime's backend; pyxis's backend for an unknown runtime, so that init_spec_text()
/// has an example image to write. load_spec() refuses the unknown runtime later.
[[nodiscard]] const ContainerBackend& backend_of(std::string_view runtime) {
  const ContainerBackend* backend = find_container_backend(runtime);
  return backend != nullptr ? *backend : pyxis_backend();
}

void write_container(YamlPage& page, const InitAnswers& a, const SiteProfile& site) {
  const std::string runtime = runtime_of(a, site);
  constexpr std::string_view kMounts = "mounts: [.:/work]", kWorkdir = "workdir: /work";
  constexpr std::string_view kMountsComment =
      "this file's folder; add more as SOURCE:TARGET[:FLAGS]";
  constexpr std::string_view kWorkdirComment = "the program starts in this folder";
  constexpr std::string_view kExampleImage = "nvcr.io/nvidia/pytorch:24.05-py3";
  const bool gives_runtime = a.runtime && *a.runtime != "auto";
  if (a.image) {
    page.begin_section("container");
    if (gives_runtime) page.add_line("  runtime: " + yaml_text(*a.runtime));
    page.add_line("  image: " + yaml_text(*a.image), gives_runtime ? "" : "run by " + runtime);
    page.add_line(fmt::format("  {}", kMounts), kMountsComment);
    page.add_line(fmt::format("  {}", kWorkdir), kWorkdirComment);
  } else if (runtime != "none") {
    page.add_line("");
    page.add_line("# container:");
    if (gives_runtime) page.add_line("#   runtime: " + yaml_text(*a.runtime));
    const auto [image, remark] = backend_of(runtime).example_image(std::string(kExampleImage));
    page.add_line(fmt::format("#   image: {}", image), remark);
    page.add_line(fmt::format("#   {}", kMounts), kMountsComment);
    page.add_line(fmt::format("#   {}", kWorkdir), kWorkdirComment);
  }
}

void write_launch(YamlPage& page, const InitAnswers& a) {
  page.begin_section("launch");
  constexpr std::string_view kCommandComment = "runs once for each rank, in this file's folder";
  page.add_line("  preset: " + yaml_text(a.preset.value_or("plain")),
                "torch, mpi, ...: `dlrun explain launch.preset`");
  if (a.command.empty()) {
    page.add_line(
        R"yaml(  command: [sh, -c, 'echo "rank $DLRUN_RANK of $DLRUN_WORLD_SIZE on $(uname -n)"'])yaml");
    page.add_line("  # command: [python, -u, train.py]",
                  fmt::format("your program; {}", kCommandComment));
  } else {
    page.add_line("  command: " + flow_list(a.command), kCommandComment);
  }
}

}  // namespace

std::string runtime_of(const InitAnswers& answers, const SiteProfile& site) {
  const std::string asked = answers.runtime.value_or("auto");
  return asked == "auto" ? site.container_runtime : asked;
}

InitAnswers answers_with_defaults(InitAnswers answers, const SiteProfile& site) {
  if (!answers.name) answers.name = "hello";
  if (!answers.nodes) answers.nodes = 1;
  const PartitionProfile* partition =
      find_partition(site, answers.partition.value_or(site.default_partition));
  if (!answers.gpus_per_node) {
    Gpus gpus;
    if (partition != nullptr) {
      gpus.count = partition->gpus_per_node.value_or(0);
      // If the GPUs are divided into slices (MIG, such as 1g.5gb), a first job gets one slice.
      const bool is_sliced =
          std::any_of(partition->gpu_types.begin(), partition->gpu_types.end(),
                      [](const std::string& type) { return type.find("g.") != std::string::npos; });
      if (is_sliced && gpus.count > 0) gpus = {partition->gpu_types.front(), 1};
    }
    answers.gpus_per_node = gpus;
  }
  if (!answers.time) {
    constexpr std::int64_t kHour = 3600;
    const std::int64_t longest =
        partition != nullptr ? partition->max_time_seconds.value_or(kHour) : kHour;
    answers.time = longest < kHour ? format_time_limit(longest) : "1h";
  }
  if (answers.image)
    answers.image = backend_of(runtime_of(answers, site)).native_image_name(*answers.image);
  return answers;
}

std::string init_spec_text(const InitAnswers& a, const SiteProfile& site) {
  YamlPage page;
  page.add_line(fmt::format("# An experiment for dlrun, on {}.", site.name == "generic"
                                                                     ? "a Slurm cluster"
                                                                     : "site '" + site.name + "'"));
  page.add_line("#   dlrun check FILE    lists all problems before the job is queued");
  page.add_line("#   dlrun submit FILE --watch");
  page.add_line("# `dlrun explain KEY` describes any key.");
  page.add_line("name: " + yaml_text(a.name.value_or("hello")));
  if (a.site) {
    page.add_line("site: " + yaml_text(*a.site), site.help);
  }
  write_resources(page, a, site);
  write_environment(page, a);
  write_container(page, a, site);
  write_launch(page, a);
  return page.take();
}

}  // namespace dlrun
