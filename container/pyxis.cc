// The backend for pyxis, a plugin of srun and sbatch. Options of pyxis as of version 0.24:
//   --container-image, -mounts, -workdir, -name, -save, -env
//   --[no-]container-mount-home, --[no-]container-remap-root, --[no-]container-entrypoint
//   --container-writable|readonly
// If an option is given twice, pyxis silently uses the last value. Therefore an option that takes a
// list, such as --container-mounts, is written once, with all values.

#include <algorithm>

#include <fmt/format.h>

#include "common/text.h"
#include "container/backends.h"
#include "container/image_name.h"
#include "container/mounts.h"

namespace dlrun {
namespace {

[[nodiscard]] std::string mount_text(const Mount& mount) {
  std::string text = mount.source + ":" + mount.target;
  if (!mount.flags.empty()) text += ":" + join(mount.flags, "+");
  return text;
}

/// Removes the option `name` from `options`, and returns the user's values of this option.
[[nodiscard]] std::vector<std::string> take_values(std::vector<UserSrunOption>& options,
                                                   std::string_view name) {
  std::vector<std::string> values;
  std::erase_if(options, [&](const UserSrunOption& option) {
    if (option.first != name) return false;
    const std::string list = option.second.value_or("");
    for (std::string_view value : split(list, ',')) {
      if (!value.empty()) values.emplace_back(value);
    }
    return true;
  });
  return values;
}

/// Adds the value unless the list has it.
void add_if_missing(std::vector<std::string>& list, std::string value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(std::move(value));
}

class Pyxis final : public ContainerBackend {
 public:
  [[nodiscard]] std::string_view name() const override { return "pyxis"; }

  [[nodiscard]] ExampleImage example_image(const std::string& name) const override {
    std::string image = name;
    image.replace(image.find('/'), 1, "#");
    return {image, "run by pyxis here"};
  }

  // Commas and colons are separators. No form of white space works in all versions: pyxis before
  // 0.24 needs \040, and pyxis from 0.24 on does not understand \040. A shell would interpret the
  // other characters, because pyxis writes mounts into a script for enroot, inside double quotes.
  [[nodiscard]] std::string_view unmountable_characters() const override { return ",:$`\"\\ \t"; }

  [[nodiscard]] std::vector<ContainerProblem> problems(const ContainerSpec& spec) const override {
    std::vector<ContainerProblem> found = mount_problems(spec, *this);
    if (spec.image) {
      const bool is_uri = spec.image->find("://") != std::string::npos;
      const bool is_file =
          !is_uri && (spec.image->ends_with(".sqsh") || spec.image->ends_with(".sif"));
      const bool is_of_daemon =
          spec.image->starts_with("dockerd://") || spec.image->starts_with("podman://");
      if (*spec.image == "/") {
        found.push_back(
            {"container.image", "container.image: '/' is not the name of an image", false});
      } else if (!is_file && !is_image_path(*spec.image) && !is_of_daemon) {
        if (const auto uri = enroot_uri(*spec.image); !uri)
          found.push_back({"container.image", "container.image: " + uri.error().message, false});
      } else if (is_file && spec.image->front() != '/') {
        found.push_back({"container.image",
                         fmt::format("container.image: pyxis reads '{}' as the name of an image in "
                                     "a registry; write ./{} for the file",
                                     printable(*spec.image), printable(*spec.image)),
                         true});
      }
      if (is_file && spec.image->ends_with(".sif")) {
        found.push_back(
            {"container.image",
             "container.image: a .sif file is an image of apptainer; pyxis expects a .sqsh file",
             false});
      }
    }
    return found;
  }

  [[nodiscard]] std::vector<ContainerOption> step_options(
      const StepContainer& container, std::vector<UserSrunOption>& user_options) const override {
    const ContainerSpec& spec = container.spec;
    std::vector<ContainerOption> options;
    if (spec.image)
      options.push_back({"--container-image", pyxis_image_name(*spec.image), "container.image"});
    if (spec.name) options.push_back({"--container-name", *spec.name, "container.name"});
    if (const auto mounts = mount_list(container, take_values(user_options, "container-mounts"));
        !mounts.empty()) {
      options.push_back(
          {"--container-mounts", join(mounts, ","), "container.mounts, folders that dlrun mounts"});
    }
    if (spec.workdir)
      options.push_back({"--container-workdir", *spec.workdir, "container.workdir"});
    // Always set these options, so that a site's defaults cannot change the result.
    options.push_back(
        {flag(spec.mount_home, "container-mount-home"), std::nullopt, "container.mount_home"});
    options.push_back(
        {flag(spec.remap_root, "container-remap-root"), std::nullopt, "container.remap_root"});
    options.push_back(
        {flag(spec.entrypoint, "container-entrypoint"), std::nullopt, "container.entrypoint"});
    options.push_back(
        {spec.writable.value_or(false) ? "--container-writable" : "--container-readonly",
         std::nullopt, "container.writable"});
    if (spec.save) options.push_back({"--container-save", *spec.save, "container.save"});
    std::vector<std::string> names;
    for (const std::string& name : container.overriding_names) add_if_missing(names, name);
    for (std::string& name : take_values(user_options, "container-env"))
      add_if_missing(names, std::move(name));
    if (!names.empty())
      options.push_back(
          {"--container-env", join(names, ","), "these override the image's variables"});
    return options;
  }

 private:
  /// Returns --NAME for true, and --no-NAME for false or without a value.
  [[nodiscard]] static std::string flag(const std::optional<bool>& value, std::string_view name) {
    return fmt::format("--{}{}", value.value_or(false) ? "" : "no-", name);
  }

  /// Returns the mounts of the spec, then those of launch.srun, then dlrun's own mounts, each once.
  [[nodiscard]] static std::vector<std::string> mount_list(const StepContainer& container,
                                                           std::vector<std::string> of_srun) {
    std::vector<std::string> mounts;
    const std::vector<Mount> all = all_mounts(container);
    for (const Mount& mount : container.spec.mounts) add_if_missing(mounts, mount_text(mount));
    for (std::string& text : of_srun) add_if_missing(mounts, std::move(text));
    for (const Mount& mount : std::span(all).subspan(container.spec.mounts.size()))
      add_if_missing(mounts, mount_text(mount));
    return mounts;
  }
};

}  // namespace

const ContainerBackend& pyxis_backend() {
  static const Pyxis backend;
  return backend;
}

}  // namespace dlrun
