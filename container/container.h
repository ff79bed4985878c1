#pragma once
// How a step enters a container: one backend a file, one table of them in backends.cc.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/result.h"

namespace dlrun {

struct Mount {
  std::string source, target;      ///< absolute
  std::vector<std::string> flags;  ///< ro, rprivate, ...
  bool is_own = false;             ///< dlrun's own, not the user's
};

/// The keys `container.*` of a spec.
struct ContainerSpec {
  std::optional<std::string> runtime, image, workdir, name, save;
  std::vector<Mount> mounts;
  std::optional<bool> writable, mount_home, remap_root, entrypoint;
};

/// What a step needs of its container: the user's wishes, and what dlrun adds.
struct ContainerStep {
  ContainerSpec spec;
  std::vector<Mount> own_mounts;  ///< the runs folder, the agent: each is left out where a user's
                                  ///< mount has its target
  std::vector<std::string> env_names;  ///< variables whose job value must beat the image's
  std::vector<std::string> job_names;  ///< those of them that the script exports
  bool has_gpus = false;               ///< GPUs may be there
};

/// One srun option: name, value (none: a flag) and the spec's key that made it.
struct ContainerOption {
  std::string option;
  std::optional<std::string> value;
  std::string key;
};

/// Words of bash, quoted as they need to be, and the spec's key that made them.
struct ContainerLine {
  std::string text, key;
};

/// What a script needs where srun has no plugin that enters the container.
struct ContainerEntry {
  std::string batch;            ///< lines of bash, before the step starts
  std::string session;          ///< the same for `interactive`, which is on its node already
  std::string join;             ///< the same for `attach`, beside tasks that run in the container
  bool tells_failures = false;  ///< batch leaves in dlrun_unmade why a container could not be made
  std::vector<ContainerLine>
      words;  ///< between srun's options and the command; empty: srun enters by its own options
};

/// A word of the user's own about the container's options (launch.srun), without the leading
/// dashes.
using ContainerUserOption = std::pair<std::string, std::optional<std::string>>;

struct ContainerProblem {
  std::string key;  ///< "container.mounts[0]"
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
  /// The characters that the path of a mount cannot hold.
  [[nodiscard]] virtual std::string_view cannot_mount() const = 0;
  /// What this backend cannot express, or would read otherwise than the user means.
  [[nodiscard]] virtual std::vector<ContainerProblem> problems(const ContainerSpec& spec) const = 0;
  /// srun's options. Each list option appears once: the user's words of the same option are merged
  /// into it and taken out of user_options. Nothing where entry() is all.
  [[nodiscard]] virtual std::vector<ContainerOption> step_options(
      const ContainerStep&, std::vector<ContainerUserOption>&) const {
    return {};
  }
  /// Nothing where step_options() is all.
  [[nodiscard]] virtual ContainerEntry entry(const ContainerStep&) const { return {}; }
  /// Whether a variable's value arrives byte for byte; the rank agent sets one that does not.
  [[nodiscard]] virtual bool carries(std::string_view) const { return true; }
};

/// Nothing for a name that no backend has.
[[nodiscard]] const ContainerBackend* find_container_backend(std::string_view name);
[[nodiscard]] std::vector<std::string_view> container_backend_names();

}  // namespace dlrun
