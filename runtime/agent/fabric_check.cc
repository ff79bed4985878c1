#include "runtime/agent/fabric_check.h"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>

#include "common/text.h"
#include "common/untrusted_file.h"
#include "runtime/agent/gpu_probe.h"
#include "runtime/agent/node_check.h"

namespace dlrun::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kAttributeLimitBytes = 4096;

/// One port of an adapter, as sysfs describes it.
struct InfinibandPort {
  std::string name;   ///< adapter and port, for example mlx5_0/1
  std::string state;  ///< for example ACTIVE, INIT or DOWN
  bool has_link = false;
  std::int64_t gbps = 0;
};

/// Returns the value of a sysfs file without the number before it: "ACTIVE" for "4: ACTIVE".
std::string attribute(const fs::path& file) {
  const auto text = read_untrusted(file, kAttributeLimitBytes, Links::kFollow).value_or("");
  const auto colon = text.find(':');
  return std::string(trim(colon == std::string::npos ? text : text.substr(colon + 1)));
}

std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (auto at = fs::directory_iterator(folder, error); !error && at != fs::directory_iterator();
       at.increment(error))
    entries.push_back(at->path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

/// Returns the ports whose link layer is InfiniBand. The folder also has adapters for Ethernet.
std::vector<InfinibandPort> ports_in(const fs::path& folder) {
  std::vector<InfinibandPort> ports;
  for (const fs::path& adapter : sorted_entries(folder)) {
    for (const fs::path& port : sorted_entries(adapter / "ports")) {
      if (attribute(port / "link_layer") != "InfiniBand") continue;
      const std::string rate = attribute(port / "rate");  // 200 Gb/sec (4X HDR)
      ports.push_back({printable(adapter.filename().string() + "/" + port.filename().string()),
                       printable(attribute(port / "state")),
                       attribute(port / "phys_state") == "LinkUp",
                       parse_int(rate.substr(0, rate.find_first_of(" ."))).value_or(0)});
    }
  }
  return ports;
}

/// Returns the text without the escape sequences with which nvidia-smi underlines its header.
std::string without_escapes(std::string_view text) {
  std::string plain;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\x1b') {
      plain += text[at];
      continue;
    }
    while (at < text.size() && text[at] != 'm') ++at;
  }
  return plain;
}

/// Returns true for the name of a GPU in the matrix: GPU0, GPU1, ...
bool is_gpu_name(std::string_view cell) {
  return cell.size() > 3 && cell.starts_with("GPU") && parse_int(cell.substr(3)).has_value();
}

}  // namespace

Result<FabricFigures> FabricFigures::parse(std::string_view words) {
  FabricFigures figures;
  for (const auto word : split(words, ',')) {
    const auto equals = word.find('=');
    const auto name = word.substr(0, equals);
    const auto value = equals == std::string_view::npos ? "" : word.substr(equals + 1);
    const auto number = parse_int(value);
    const bool is_number = number && *number >= 0;
    if (name == "gpu_link" && value == "nvlink") {
      figures.needs_nvlink = true;
    } else if (name == "infiniband_ports" && is_number) {
      figures.infiniband_ports = number;
    } else if (name == "infiniband_gbps" && is_number) {
      figures.infiniband_gbps = number;
    } else if (name == "all_reduce" && is_number) {
      figures.all_reduce = number;
    } else if (name == "node_all_reduce" && is_number) {
      figures.node_all_reduce = number;
    } else {
      return fail(
          Errc::kUsage,
          "--fabric: '{}' is none of infiniband_ports=N, infiniband_gbps=N, gpu_link=nvlink, "
          "all_reduce=N and node_all_reduce=N",
          printable(word));
    }
  }
  return figures;
}

std::vector<std::string> infiniband_problems(const FabricFigures& figures, const fs::path& folder) {
  std::vector<std::string> problems;
  std::int64_t active_count = 0;
  for (const InfinibandPort& port : ports_in(folder)) {
    if (port.state != "ACTIVE") {
      if (port.has_link)
        problems.push_back(
            fmt::format("fabric: the InfiniBand port {} has a link, but its state is {}, expected "
                        "ACTIVE; a subnet manager must configure it",
                        port.name, port.state));
      continue;
    }
    ++active_count;
    if (figures.infiniband_gbps && port.gbps < *figures.infiniband_gbps)
      problems.push_back(
          fmt::format("fabric: the InfiniBand port {} runs at {} Gb/s, expected at least {}",
                      port.name, port.gbps, *figures.infiniband_gbps));
  }
  if (figures.infiniband_ports && active_count < *figures.infiniband_ports)
    problems.push_back(fmt::format("fabric: {} InfiniBand port{} active, expected at least {}{}",
                                   active_count, active_count == 1 ? " is" : "s are",
                                   *figures.infiniband_ports,
                                   active_count == 0 ? "; programs would use sockets" : ""));
  return problems;
}

std::vector<std::string> gpu_link_problems(std::string_view matrix) {
  std::vector<std::string> problems;
  const std::string plain = without_escapes(matrix);
  std::vector<std::string_view> columns;
  for (const auto line : split(plain, '\n')) {
    std::vector<std::string_view> cells;
    for (const auto cell : split(line, '\t')) cells.push_back(trim(cell));
    if (columns.empty()) {  // the header has an empty first cell
      if (cells.size() > 1 && is_gpu_name(cells[1])) columns = cells;
      continue;
    }
    if (cells.empty() || !is_gpu_name(cells[0])) continue;
    for (std::size_t i = 1; i < cells.size() && i < columns.size(); ++i) {
      // The matrix has two cells for each pair of GPUs. Only one of them is checked.
      const bool is_later = is_gpu_name(columns[i]) &&
                            parse_int(columns[i].substr(3)) > parse_int(cells[0].substr(3));
      if (!is_later || cells[i].starts_with("NV")) continue;
      problems.push_back(fmt::format("fabric: {} and {} are connected over {}, expected NVLink",
                                     cells[0], columns[i], printable(cells[i])));
    }
  }
  if (columns.empty()) problems.emplace_back("fabric: nvidia-smi shows no links between GPUs");
  return problems;
}

std::vector<std::string> fabric_problems(const FabricFigures& figures, const Env& env,
                                         const World& world, const fs::path& infiniband) {
  if (world.local_rank != 0) return {};
  auto problems = infiniband_problems(figures, infiniband);
  if (!figures.needs_nvlink || gpu_scope(env, world) == GpuScope::kNone) return problems;
  const auto tool = find_gpu_tool(env);
  const auto matrix =
      tool && !tool->is_amd
          ? ask_gpu_tool(env, *tool, {"topo", "-m"})
          : Result<std::string>(fail(Errc::kNotFound,
                                     "the site expects NVLink, but nvidia-smi is not on the PATH"));
  if (!matrix) {
    problems.push_back(fmt::format("fabric: {}", matrix.error().message));
    return problems;
  }
  for (auto& problem : gpu_link_problems(*matrix)) problems.push_back(std::move(problem));
  return problems;
}

}  // namespace dlrun::agent
