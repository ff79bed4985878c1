#pragma once
// How a job step enters a container. Each backend has its own file; backends.cc lists them.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/result.h"

namespace dlrun {

struct Mount {
  std::string source, target;      ///< absolute paths
  std::vector<std::string> flags;  ///< ro, rprivate, ...
  bool is_own = false;             ///< added by dlrun, not by the user
};

/// Values of the keys `container.*` of a spec.
struct ContainerSpec {
  std::optional<std::string> runtime, image, workdir, name, save;
  std::vector<Mount> mounts;
  std::optional<bool> writable, mount_home, remap_root, entrypoint;
};

/// The settings of a step's container: the user's and dlrun's own.
struct ContainerStep {
  ContainerSpec spec;
  /// Runs folder and agent; a mount is left out if a user's mount has its target.
  std::vector<Mount> own_mounts;
  /// Variables whose value in the job takes precedence over the image's.
  std::vector<std::string> env_names;
  std::vector<std::string> job_names;  ///< those of env_names that the script exports
  bool has_gpus = false;               ///< the step may have GPUs
};

/// One srun option: its name, its value (none for a flag) and the key of the spec that caused it.
struct ContainerOption {
  std::string option;
  std::optional<std::string> value;
  std::string key;
};

/// Quoted bash words and the key of the spec that caused them.
struct ContainerLine {
  std::string text, key;
};

/// Script text that enters a container without an srun plugin.
struct ContainerEntry {
  std::string batch;            ///< bash lines before the step starts
  std::string session;          ///< bash lines for `interactive`, which already runs on its node
  std::string join;             ///< bash lines for `attach`, which joins a running container
  bool tells_failures = false;  ///< batch sets dlrun_unmade to the reason if a container fails
  /// Between srun's options and the command; empty if srun's options enter the container.
  std::vector<ContainerLine> words;
};

/// A container option from the user's launch.srun, without leading dashes, and its value.
using ContainerUserOption = std::pair<std::string, std::optional<std::string>>;

struct ContainerProblem {
  std::string key;  ///< for example "container.mounts[0]"
  std::string message;
  bool is_warning = false;
};

class ContainerBackend {
 public:
  virtual ~ContainerBackend() = default;
  ContainerBackend() = default;
  ContainerBackend(const ContainerBackend&) = delete;
  ContainerBackend& operator=(const ContainerBackend&) = delete;

  [[nodiscard]] virtual std::string_view name() const = 0;
  /// Returns the characters that a mount's path must not contain.
  [[nodiscard]] virtual std::string_view cannot_mount() const = 0;
  /// Returns settings that this backend cannot express or would misread.
  [[nodiscard]] virtual std::vector<ContainerProblem> problems(const ContainerSpec& spec) const = 0;
  /// Returns srun options. Each list option appears once: the user's values of the same option are
  /// merged into it and removed from user_options. Empty if the backend uses only entry().
  [[nodiscard]] virtual std::vector<ContainerOption> step_options(
      const ContainerStep&, std::vector<ContainerUserOption>&) const {
    return {};
  }
  /// Returns script text that enters the container. Empty if the backend uses only step_options().
  [[nodiscard]] virtual ContainerEntry entry(const ContainerStep&) const { return {}; }
  /// Returns true if a variable's value reaches the container byte for byte. Otherwise
  /// the rank agent sets it.
  [[nodiscard]] virtual bool carries(std::string_view) const { return true; }
};

/// Returns the backend with this name, or nullptr if there is none.
[[nodiscard]] const ContainerBackend* find_container_backend(std::string_view name);
[[nodiscard]] std::vector<std::string_view> container_backend_names();

}  // namespace dlrun
