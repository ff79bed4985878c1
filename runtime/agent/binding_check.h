#pragma once
// Checks that a rank may run on processors near its GPU (health.preflight: binding). A rank on the
// other socket reaches its GPU over the link between the sockets.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"
#include "common/processors.h"
#include "runtime/bootstrap/world.h"

namespace dlrun::agent {

/// Parses the kernel's list of processors, such as "0-15,32-47". An empty list has no processors.
/// Returns nullopt for other text, and if a number is too large for a ProcessorSet.
[[nodiscard]] std::optional<ProcessorSet> parse_processors(std::string_view list);
/// Returns the processors in the form of the kernel's list.
[[nodiscard]] std::string processor_list(const ProcessorSet& processors);

/// Returns the sysfs name of a PCI device, such as "0000:c1:00.0" for the name
/// "00000000:C1:00.0", which the GPU's tool prints.
[[nodiscard]] std::string pci_device_name(std::string_view bus_id);

/// Returns a sentence if the rank may run on none of the processors near the GPU. near: the
/// processors that the kernel lists for the GPU. allowed: the processors that the rank may use. The
/// check passes if `near` is empty.
[[nodiscard]] std::optional<std::string> binding_problem(std::int64_t gpu, const ProcessorSet& near,
                                                         const ProcessorSet& allowed);

/// Returns the problems of the rank's GPUs. A rank that sees all GPUs of its node is taken to use
/// the GPU with the number of its local rank; with fewer GPUs than ranks, no GPU is checked. Runs
/// the GPU's tool (at most 60 s). A missing or failing tool also counts as a problem. There are no
/// problems if Slurm gave the job no GPUs, or if the list of visible devices contains no GPU.
/// devices: /sys/bus/pci/devices.
[[nodiscard]] std::vector<std::string> binding_problems(const Env& env, const World& world,
                                                        const std::filesystem::path& devices);

}  // namespace dlrun::agent
