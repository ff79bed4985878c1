#include "runtime/agent/gpu_tool.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "common/subprocess.h"
#include "common/text.h"

namespace dlrun::agent {
namespace {

constexpr std::uint64_t kMebi = 1U << 20U;

std::optional<std::uint64_t> bytes_of(std::string_view field, std::uint64_t unit) {
  const auto number = parse_int(field);
  constexpr std::int64_t kMost = std::int64_t{1} << 60;
  if (!number || *number < 0 || *number > kMost / static_cast<std::int64_t>(unit))
    return std::nullopt;
  return static_cast<std::uint64_t>(*number) * unit;
}

std::optional<double> percent_of(std::string_view field) {
  const auto percent = parse_double(field);
  return percent && *percent >= 0 && *percent <= 100 ? percent : std::nullopt;
}

std::optional<double> watts_of(std::string_view field) {
  // AMD's driver reports an unknown power as 65535. No GPU draws 10 kW.
  constexpr double kMostWatts = 1e4;
  const auto watts = parse_double(field);
  return watts && *watts >= 0 && *watts <= kMostWatts ? watts : std::nullopt;
}

/// Splits a line at its commas, except those in double quotes: amd-smi quotes lists of values.
std::vector<std::string> csv_fields(std::string_view line) {
  std::vector<std::string> fields(1);
  bool is_quoted = false;
  for (const char c : line) {
    if (c == '"') {
      is_quoted = !is_quoted;
    } else if (c == ',' && !is_quoted) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  for (std::string& field : fields) field = std::string(trim(field));
  return fields;
}

/// A column of AMD's tools: its name, and the function that stores a field.
struct AmdColumn {
  std::string_view name;
  void (*store)(GpuReading& reading, const std::string& field);
};

void store_index(GpuReading& reading, const std::string& field) {
  const std::string_view number =
      field.starts_with("card") ? std::string_view(field).substr(4) : std::string_view(field);
  reading.index = parse_int(number).value_or(-1);
}
void store_uuid(GpuReading& reading, const std::string& field) {
  reading.uuid = field;
}
void store_use(GpuReading& reading, const std::string& field) {
  reading.utilization_percent = percent_of(field);
}
void store_bus(GpuReading& reading, const std::string& field) {
  reading.bus_id = field;
}
/// Stores the power. Some versions of the tools have several columns for the power. All but one of
/// these columns are N/A, which must not replace the value.
void store_power(GpuReading& reading, const std::string& field) {
  if (const auto watts = watts_of(field)) reading.watts = watts;
}
void store_errors(GpuReading& reading, const std::string& field) {
  reading.uncorrected_errors = parse_int(field);
}

/// Parses lines of `index, uuid, value` as nvidia-smi prints them.
std::vector<GpuReading> parse_nvidia_values(std::string_view text,
                                            void (*store)(GpuReading&, const std::string&)) {
  std::vector<GpuReading> readings;
  for (const auto line : split(text, '\n')) {
    const auto fields = split(line, ',');
    const auto index = fields.size() == 3 ? parse_int(trim(fields[0])) : std::nullopt;
    if (!index) continue;
    GpuReading& reading = readings.emplace_back();
    reading.index = *index;
    reading.uuid = trim(fields[1]);
    store(reading, std::string(trim(fields[2])));
  }
  return readings;
}

constexpr std::array<AmdColumn, 18> kAmdColumns{{
    {"gpu", store_index},  // amd-smi
    {"gpu_uuid", store_uuid},
    {"gfx_activity", store_use},
    {"used_vram", [](GpuReading& r, const std::string& f) { r.used_bytes = bytes_of(f, kMebi); }},
    {"total_vram", [](GpuReading& r, const std::string& f) { r.total_bytes = bytes_of(f, kMebi); }},
    {"socket_power", store_power},
    {"current_socket_power", store_power},
    {"average_socket_power", store_power},
    {"total_uncorrectable_count", store_errors},
    {"gpu_bdf", store_bus},
    {"device", store_index},  // rocm-smi
    {"PCI Bus", store_bus},
    {"Unique ID", store_uuid},
    {"GPU use (%)", store_use},
    {"Average Graphics Package Power (W)", store_power},
    {"Current Socket Graphics Package Power (W)", store_power},
    {"VRAM Total Used Memory (B)",
     [](GpuReading& r, const std::string& f) { r.used_bytes = bytes_of(f, 1); }},
    {"VRAM Total Memory (B)",
     [](GpuReading& r, const std::string& f) { r.total_bytes = bytes_of(f, 1); }},
}};

}  // namespace

std::vector<GpuReading> GpuTool::parse_usage(std::string_view text) const {
  return is_amd ? parse_amd_csv(text) : parse_nvidia_csv(text);
}

std::vector<GpuReading> GpuTool::parse_memory_errors(std::string_view text) const {
  return is_amd ? parse_amd_csv(text) : parse_nvidia_values(text, store_errors);
}

std::vector<GpuReading> GpuTool::parse_addresses(std::string_view text) const {
  return is_amd ? parse_amd_csv(text) : parse_nvidia_values(text, store_bus);
}

std::string GpuTool::name() const {
  return std::filesystem::path(program).filename().string();
}

std::optional<GpuTool> find_gpu_tool(const Env& env) {
  if (auto program = find_program("nvidia-smi", env))
    return GpuTool{std::move(*program),
                   {"--query-gpu=index,uuid,utilization.gpu,memory.used,memory.total,power.draw",
                    "--format=csv,noheader,nounits"},
                   {"--query-gpu=index,uuid,ecc.errors.uncorrected.volatile.total",
                    "--format=csv,noheader,nounits"},
                   {"--query-gpu=index,uuid,pci.bus_id", "--format=csv,noheader,nounits"}};
  if (auto program = find_program("amd-smi", env))
    return GpuTool{std::move(*program),
                   {"metric", "--usage", "--mem-usage", "--power", "--csv"},
                   {"metric", "--ecc", "--csv"},
                   {"list", "--csv"},
                   true};
  if (auto program = find_program("rocm-smi", env))
    return GpuTool{std::move(*program),
                   {"--showuniqueid", "--showuse", "--showpower", "--showmeminfo", "vram", "--csv"},
                   {"--showuniqueid", "--csv"},
                   {"--showbus", "--csv"},
                   true};
  return std::nullopt;
}

std::optional<std::string_view> visible_devices(const Env& env) {
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"}) {
    if (const auto value = env.get(name)) return value;
  }
  return std::nullopt;
}

std::vector<GpuReading> parse_nvidia_csv(std::string_view text) {
  std::vector<GpuReading> readings;
  for (const auto line : split(text, '\n')) {
    const auto fields = split(line, ',');
    if (fields.size() != 5 && fields.size() != 6) continue;
    const auto index = parse_int(trim(fields[0]));
    if (!index) continue;
    GpuReading reading;
    reading.index = *index;
    reading.uuid = trim(fields[1]);
    reading.utilization_percent = percent_of(trim(fields[2]));
    reading.used_bytes = bytes_of(trim(fields[3]), kMebi);
    reading.total_bytes = bytes_of(trim(fields[4]), kMebi);
    if (fields.size() == 6) reading.watts = watts_of(trim(fields[5]));
    readings.push_back(std::move(reading));
  }
  return readings;
}

std::vector<GpuReading> parse_amd_csv(std::string_view text) {
  std::vector<GpuReading> readings;
  std::vector<const AmdColumn*> columns;
  for (const auto line : split(text, '\n')) {
    const auto fields = csv_fields(line);
    if (columns.empty()) {
      if (fields[0] != "gpu" && fields[0] != "device") continue;
      for (const std::string& name : fields) {
        const auto* found =
            std::find_if(kAmdColumns.begin(), kAmdColumns.end(),
                         [&](const AmdColumn& column) { return column.name == name; });
        columns.push_back(found == kAmdColumns.end() ? nullptr : found);
      }
      continue;
    }
    GpuReading reading;
    for (std::size_t i = 0; i < fields.size() && i < columns.size(); ++i) {
      if (columns[i] != nullptr) columns[i]->store(reading, fields[i]);
    }
    if (reading.index >= 0) readings.push_back(std::move(reading));
  }
  return readings;
}

}  // namespace dlrun::agent
