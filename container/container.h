#pragma once
// The interface of the container backends, through which a job step enters a container. Each
// backend has its own file; backends.h lists them.

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
  bool is_from_dlrun = false;      ///< added by dlrun, not by the user
};

/// Values of the keys `container.*` of a spec.
struct ContainerSpec {
  std::optional<std::string> runtime, image, workdir, name, save;
  std::vector<Mount> mounts;
  std::optional<bool> writable, mount_home, remap_root, entrypoint;
};

/// The container of a job step: the settings of the user and those of dlrun.
struct StepContainer {
  ContainerSpec spec;
  /// Mounts that dlrun adds: the runs folder, the agent's folder, and the folders of other keys,
  /// such as download.path, stage and train.data.path. If a user's mount has the same target, only
  /// the user's mount is made.
  std::vector<Mount> dlrun_mounts;
  /// Names of the variables whose value in the job takes precedence over the image's value.
  std::vector<std::string> overriding_names;
  /// The names in overriding_names that the script exports; for an interactive session, also the
  /// names of the secrets.
  std::vector<std::string> exported_names;
  bool may_have_gpus = false;  ///< the step may have GPUs
};

/// One srun option. The script shows `comment` beside the option: the key of the spec for which the
/// option is set, or another reason.
struct ContainerOption {
  std::string option;                ///< the name, with its dashes
  std::optional<std::string> value;  ///< nullopt: the option is a flag
  std::string comment;
};

/// One or several quoted bash words, and the comment that the script shows beside them, as in
/// ContainerOption.
struct ContainerWords {
  std::string text, comment;
};

/// Script text that enters a container without an srun plugin.
struct ContainerEnterScript {
  std::string batch;    ///< bash lines before the step starts
  std::string session;  ///< bash lines for `interactive`, which already runs on its node
  std::string attach;   ///< bash lines for `attach`, which starts a command beside the ranks
  /// True if `batch` writes the reason into the shell variable dlrun_container_error when it cannot
  /// make a container.
  bool reports_failure = false;
  /// Words between srun's options and the command; empty if srun's options enter the container.
  std::vector<ContainerWords> words;
};

/// An option in the user's launch.srun: its name without leading dashes, and its value.
using UserSrunOption = std::pair<std::string, std::optional<std::string>>;

struct ContainerProblem {
  std::string key;  ///< the key of the spec, such as "container.mounts[0]"
  std::string message;
  bool is_warning = false;
};

/// The kind of an image, according to its first bytes.
enum class ImageKind { kFolder, kSquashfs, kSif, kOther };

/// The way in which programs in a container find NVIDIA's driver.
enum class GpuDriverSource {
  kByHook,    ///< a hook mounts the driver if the job or the image sets variables NVIDIA_*
  kByOption,  ///< an option of the tool mounts the driver
  kInImage,   ///< the image must contain the driver
};

/// A command that prints a tool's version.
struct VersionCommand {
  std::string program, argument;
};

/// An example of container.image, and a remark about it: a command that makes such an image, or the
/// tool that runs it.
struct ExampleImage {
  std::string image, remark;
};

class ContainerBackend {
 public:
  virtual ~ContainerBackend() = default;
  ContainerBackend() = default;
  ContainerBackend(const ContainerBackend&) = delete;
  ContainerBackend& operator=(const ContainerBackend&) = delete;

  [[nodiscard]] virtual std::string_view name() const = 0;
  /// Returns commands that print the tool's version on a login node, the preferred one first.
  /// Returns none for a tool that only srun can use.
  [[nodiscard]] virtual std::vector<VersionCommand> version_commands() const { return {}; }
  /// Returns an example for an image in a registry. name: REGISTRY/PATH.
  [[nodiscard]] virtual ExampleImage example_image(const std::string& name) const;
  /// Returns the image's name in the form that this tool expects.
  [[nodiscard]] virtual std::string native_image_name(const std::string& name) const {
    return name;
  }
  /// Returns the reason why the tool cannot use an image of this kind; empty if it can.
  [[nodiscard]] virtual std::string why_unusable(ImageKind kind, std::string_view path) const;
  [[nodiscard]] virtual GpuDriverSource gpu_driver_source() const {
    return GpuDriverSource::kByHook;
  }
  /// Returns the characters that a mount's path must not contain.
  [[nodiscard]] virtual std::string_view unmountable_characters() const = 0;
  /// Returns a problem for each setting that this backend cannot express or would misread.
  [[nodiscard]] virtual std::vector<ContainerProblem> problems(const ContainerSpec& spec) const = 0;
  /// Returns srun options. An option that takes a list, such as --container-mounts, appears once,
  /// with dlrun's values and the user's values; the function removes the user's own option from
  /// user_options. Returns none if the backend uses only enter_script().
  [[nodiscard]] virtual std::vector<ContainerOption> step_options(
      const StepContainer&, std::vector<UserSrunOption>& /*user_options*/) const {
    return {};
  }
  /// Returns script text that enters the container; empty if the backend uses only step_options().
  [[nodiscard]] virtual ContainerEnterScript enter_script(const StepContainer&) const { return {}; }
  /// Returns true if this value of a variable reaches the container byte for byte. Otherwise the
  /// rank agent sets the variable inside the container.
  [[nodiscard]] virtual bool carries_value(std::string_view /*value*/) const { return true; }
};

/// Returns the backend with this name, or nullptr if there is none.
[[nodiscard]] const ContainerBackend* find_container_backend(std::string_view name);
/// Returns the names of all backends, in the order in which help texts list them.
[[nodiscard]] std::vector<std::string_view> container_backend_names();
/// Returns the names of all backends except `none` as text: "pyxis, enroot, apptainer or
/// charliecloud".
[[nodiscard]] std::string container_tools_text();

}  // namespace dlrun
