#pragma once
// The options of one component of a job with several programs: `lead ... --component NAME ...`
// (ENVIRONMENT.md, "Components").

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"
#include "common/record_words.h"
#include "common/result.h"

namespace dlrun::agent {

inline constexpr std::size_t kComponentsLimit = 32;
inline constexpr std::size_t kComponentNameLimitBytes = 32;

/// The condition under which a component is ready. Components that wait for it may then start.
struct ReadyCheck {
  enum class Kind {
    kJoined,  ///< all its ranks have joined
    kTcp,     ///< rank 0's port accepts connections
    kHttp,    ///< rank 0's port answers a GET of `path` with a code from 200 to 299
  };
  Kind kind = Kind::kJoined;
  std::string path{};
  /// kTcp, kHttp: time from the moment when all ranks have joined and have their data until the
  /// component must be ready. kJoined: time in which all ranks must join. nullopt: lead's default.
  std::optional<std::chrono::seconds> timeout{};
};

struct ComponentOptions {
  std::string name{};
  ComponentRole role = ComponentRole::kMain;
  ReadyCheck ready{};
  int retries = 0;  ///< how often a service may restart, while the other components go on
  /// Components that must be ready, or have ended with 0, before this one starts.
  std::vector<std::string> after{};
  int node_count = 0, rank_count = 0;
  std::optional<int> het_group{};   ///< index of its part of a heterogeneous job
  std::optional<int> first_node{};  ///< index of its first node in SLURM_JOB_NODELIST
  int port_count = 0;               ///< number of ports that rank 0 holds for the program: 0 or 1
  bool program_is_bundled = false;  ///< see LeadOptions
  std::string node_checks{};        ///< see LeadOptions
  /// The srun command line without `srun` and without the options that lead adds.
  std::vector<std::string> srun_arguments{};
};

/// Returns true for a letter, followed by letters, digits, '-' and '_'. The whole name has at most
/// kComponentNameLimitBytes bytes.
[[nodiscard]] bool is_component_name(std::string_view name);

/// Returns the component of this rank, from DLRUN_COMPONENT, which lead sets; empty if the job has
/// one program, if there is no lead, or if the name is not valid.
[[nodiscard]] std::string component_of(const Env& env);

/// Returns the X of DLRUN_COMPONENT_X_ADDR: the name in capitals, with '_' for '-'.
[[nodiscard]] std::string variable_word(std::string_view component);

/// Fails with kUsage if the name is not valid, or if an option is missing or contradicts another
/// option of the component.
[[nodiscard]] Result<> check_component(const ComponentOptions& component);

/// Fails with kUsage if there are more than kComponentsLimit components, or if they contradict each
/// other: two names with the same variables, an unknown name in --after, components that wait for
/// each other, no main component, or --het-group for only some of them.
[[nodiscard]] Result<> check_components(const std::vector<ComponentOptions>& components);

/// Returns the first main component, whose progress is the progress of the run. check_components()
/// must have succeeded.
[[nodiscard]] const ComponentOptions& first_main_component(
    const std::vector<ComponentOptions>& components);

}  // namespace dlrun::agent
