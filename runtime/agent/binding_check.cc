#include "runtime/agent/binding_check.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/text.h"
#include "common/untrusted_file.h"
#include "runtime/agent/gpu_probe.h"
#include "runtime/agent/node_check.h"

namespace dlrun::agent {
namespace {

constexpr std::size_t kCpuListLimitBytes = 64U << 10U;

/// Returns the GPUs that the rank uses.
std::vector<GpuReading> gpus_of_rank(std::vector<GpuReading> visible, const Env& env,
                                     const World& world) {
  if (gpu_scope(env, world) == GpuScope::kOwn) return visible;
  const auto index = static_cast<std::size_t>(world.local_rank);
  if (index >= visible.size() || visible.size() < static_cast<std::size_t>(world.local_size))
    return {};
  return {visible[index]};
}

/// Returns true if a rank of this node may have GPUs: Slurm gave the job GPUs, or there is no
/// Slurm (gpu_scope()).
bool node_may_have_gpus(const Env& env, World world) {
  world.local_rank = 0;
  return gpu_scope(env, world) != GpuScope::kNone;
}

}  // namespace

std::optional<ProcessorSet> parse_processors(std::string_view list) {
  ProcessorSet processors;
  for (const auto part : split(trim(list), ',')) {
    if (part.empty()) continue;
    const auto dash = part.find('-');
    const auto first = parse_int(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_int(part.substr(dash + 1));
    const auto count = static_cast<std::int64_t>(processors.size());
    if (!first || !last || *first < 0 || *last < *first || *last >= count) return std::nullopt;
    for (auto number = *first; number <= *last; ++number)
      processors.set(static_cast<std::size_t>(number));
  }
  return processors;
}

std::string processor_list(const ProcessorSet& processors) {
  std::string list;
  for (std::size_t first = 0; first < processors.size(); ++first) {
    if (!processors.test(first)) continue;
    std::size_t last = first;
    while (last + 1 < processors.size() && processors.test(last + 1)) ++last;
    list += fmt::format("{}{}", list.empty() ? "" : ",", first);
    if (last > first) list += fmt::format("-{}", last);
    first = last;
  }
  return list;
}

std::string pci_device_name(std::string_view bus_id) {
  constexpr std::size_t kDomainDigits = 4;
  std::string name = lower_case(trim(bus_id));
  const auto colon = name.find(':');
  if (colon != std::string::npos && colon > kDomainDigits) name.erase(0, colon - kDomainDigits);
  return name;
}

std::optional<std::string> binding_problem(std::int64_t gpu, const ProcessorSet& near,
                                           const ProcessorSet& allowed) {
  if (near.none() || (near & allowed).any()) return std::nullopt;
  return fmt::format(
      "binding: none of the CPUs that a rank may use is near its GPU [GPU {} is near the CPUs {}, "
      "its rank may use {}];"
      " set launch.gpu_bind: closest, or another launch.cpu_bind",
      gpu, processor_list(near), processor_list(allowed));
}

std::vector<std::string> binding_problems(const Env& env, const World& world,
                                          const std::filesystem::path& devices) {
  if (!node_may_have_gpus(env, world)) return {};
  const auto tool = find_gpu_tool(env);
  if (!tool) return {fmt::format("binding: {}", kNoGpuTool)};
  const auto answer = ask_gpu_tool(env, *tool, tool->address_arguments);
  if (!answer) return {fmt::format("binding: {}", answer.error().message)};
  std::vector<std::string> problems;
  const auto visible = visible_gpus(tool->parse_addresses(*answer), visible_devices(env));
  const ProcessorSet allowed = own_processors();
  for (const GpuReading& gpu : gpus_of_rank(visible, env, world)) {
    const std::string name = pci_device_name(gpu.bus_id);
    if (name.empty() || name.find('/') != std::string::npos) continue;
    const auto text =
        read_untrusted(devices / name / "local_cpulist", kCpuListLimitBytes, Links::kFollow);
    const auto near = text ? parse_processors(*text) : std::nullopt;
    if (!near) continue;  // a container without this part of /sys
    if (auto problem = binding_problem(gpu.index, *near, allowed))
      problems.push_back(std::move(*problem));
  }
  return problems;
}

}  // namespace dlrun::agent
