#include "launcher/view/component_lines.h"

#include <fmt/format.h>

#include "common/text.h"
#include "launcher/spec/component_layout.h"
#include "launcher/spec/component_specs.h"

namespace dlrun {
namespace {

[[nodiscard]] std::string counted(std::int64_t number, std::string_view unit) {
  return fmt::format("{} {}{}", number, unit, number == 1 ? "" : "s");
}

[[nodiscard]] std::string line_of_component(const ComponentSpec& component, const JobSpec& job) {
  const NodeRequest request = request_of(job);
  std::string line = fmt::format("{}: {}, {} with {} each, {} per rank", component.name,
                                 component.is_service ? "service" : "main",
                                 counted(nodes_of(job), "node"), counted(request.ranks, "rank"),
                                 counted(job.resources.cpus_per_task.value_or(1), "CPU"));
  const std::string& type = request.gpus.type;
  if (request.gpus.count > 0)
    line += fmt::format(", {} per node",
                        counted(request.gpus.count, type.empty() ? "GPU" : type + " GPU"));
  if (!component.shares.empty()) line += fmt::format(", on the nodes of {}", component.shares);
  if (!component.after.empty()) line += fmt::format(", after {}", join(component.after, ", "));
  return line;
}

}  // namespace

std::vector<std::string> component_lines(const LoadedSpec& loaded) {
  if (loaded.spec.components.empty()) return {};
  const auto specs = loaded_specs_of_components(loaded);
  const ComponentLayout layout = layout_of(loaded.spec, specs);
  std::vector<std::string> lines;
  lines.push_back(
      layout.is_hetjob
          ? fmt::format("a heterogeneous job of {} parts", layout.components_in_part_order.size())
          : fmt::format("one allocation of {}", counted(layout.nodes, "node")));
  for (std::size_t i = 0; i < specs.size(); ++i)
    lines.push_back(line_of_component(loaded.spec.components[i], specs[i].spec));
  return lines;
}

}  // namespace dlrun
