#pragma once
// The programs that report a node's GPUs: nvidia-smi, and amd-smi or rocm-smi on nodes with AMD
// GPUs.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"

namespace dlrun::agent {

struct GpuReading {
  std::int64_t index = -1;
  std::string uuid;
  std::optional<double> utilization_percent;  ///< nullopt if the device does not report it (MIG)
  std::optional<std::uint64_t> used_bytes, total_bytes;
  std::optional<std::int64_t> uncorrected_errors{};  ///< number of uncorrected memory errors
  std::string bus_id{};                              ///< the PCI address
  std::optional<double> watts{};                     ///< power that the device draws now
};

/// A program that reports GPUs, with its arguments.
struct GpuTool {
  std::string program;                       ///< its path
  std::vector<std::string> usage_arguments;  ///< for utilisation, memory and power
  /// For uncorrected memory errors. rocm-smi does not report them: its arguments only list the
  /// GPUs.
  std::vector<std::string> memory_error_arguments;
  std::vector<std::string> address_arguments;  ///< for the PCI addresses
  bool is_amd = false;
  /// Returns the name of the program.
  [[nodiscard]] std::string name() const;
  /// Parses the output of the program that ran with usage_arguments.
  [[nodiscard]] std::vector<GpuReading> parse_usage(std::string_view text) const;
  /// Parses the output of the program that ran with memory_error_arguments.
  [[nodiscard]] std::vector<GpuReading> parse_memory_errors(std::string_view text) const;
  /// Parses the output of the program that ran with address_arguments.
  [[nodiscard]] std::vector<GpuReading> parse_addresses(std::string_view text) const;
};

/// Returns the first of nvidia-smi, amd-smi and rocm-smi that is on env's PATH; nullopt if none is.
[[nodiscard]] std::optional<GpuTool> find_gpu_tool(const Env& env);

/// Returns the list of GPUs that a program may use: the value of the first of CUDA_VISIBLE_DEVICES,
/// ROCR_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES that is set, for example by Slurm. Returns nullopt
/// if none of them is set.
[[nodiscard]] std::optional<std::string_view> visible_devices(const Env& env);

/// Parses lines of `index, uuid, utilization.gpu, memory.used, memory.total, power.draw` as
/// nvidia-smi prints them with csv,noheader,nounits. The last field may be missing. Skips other
/// lines.
[[nodiscard]] std::vector<GpuReading> parse_nvidia_csv(std::string_view text);

/// Parses the CSV of amd-smi and rocm-smi. Finds the columns by their names in the header,
/// and skips unknown columns. Also skips lines before the header, such as warnings.
[[nodiscard]] std::vector<GpuReading> parse_amd_csv(std::string_view text);

}  // namespace dlrun::agent
