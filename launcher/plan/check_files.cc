#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>

#include <fmt/format.h>

#include "common/text.h"
#include "container/image_file.h"
#include "launcher/plan/plan.h"
#include "launcher/spec/derived.h"

namespace dlrun {
namespace {

/// Returns the script that the command passes to its interpreter or launcher (`python -u
/// train.py`); empty if there is none.
[[nodiscard]] std::string script_of(const std::vector<std::string>& command) {
  for (std::size_t i = 1; i < command.size(); ++i) {
    if (command[i] == "-c" || command[i] == "-m") break;
    if (command[i].ends_with(".py") || command[i].ends_with(".sh")) return command[i];
  }
  return {};
}

/// Returns path relative to folder; nullopt if path is not in folder.
[[nodiscard]] std::optional<std::string> below(const std::string& path, const std::string& folder) {
  const std::string relative = std::filesystem::path(path).lexically_relative(folder).string();
  if (relative.empty() || relative == ".." || relative.starts_with("../")) return std::nullopt;
  return relative;
}

/// Returns what is wrong with a relative script that runs in a container; empty if no problem is
/// known, since the image may hold the script.
[[nodiscard]] std::string script_in_container(const LoadedSpec& loaded, const std::string& script) {
  const ContainerSpec& container = loaded.spec.container;
  std::error_code error;
  const std::string here =
      (std::filesystem::path(start_folder(loaded)) / script).lexically_normal().string();
  const bool is_mounted =
      std::any_of(container.mounts.begin(), container.mounts.end(),
                  [&](const Mount& mount) { return below(here, mount.source).has_value(); });
  if (!is_mounted && !container.mount_home.value_or(false) &&
      std::filesystem::exists(here, error)) {
    return fmt::format(
        "the script '{}' is here, but in no mount, so that the container does not have it; "
        "`container: {{mounts: "
        "[.:/work], workdir: /work}}` starts the command in the spec's folder",
        printable(script));
  }
  if (!container.workdir) return {};
  const std::string inside =
      (std::filesystem::path(*container.workdir) / script).lexically_normal().string();
  const Mount* nearest = nullptr;
  for (const Mount& mount : container.mounts) {
    if (below(inside, mount.target) &&
        (nearest == nullptr || mount.target.size() > nearest->target.size()))
      nearest = &mount;
  }
  if (nearest == nullptr) return {};
  const auto source =
      (std::filesystem::path(nearest->source) / *below(inside, nearest->target)).lexically_normal();
  if (std::filesystem::exists(source, error) || error) return {};
  return fmt::format("the script '{}' does not exist here, which is {} in the container",
                     printable(source.string()), printable(inside));
}

}  // namespace

std::string start_folder(const LoadedSpec& loaded) {
  for (const SlurmOption& option : loaded.spec.slurm) {
    if (option.name == "chdir" && option.value)
      return (std::filesystem::path(loaded.folder) / *option.value).lexically_normal().string();
  }
  return loaded.folder;
}

std::vector<Diagnostic> check_files(const LoadedSpec& loaded) {
  const JobSpec& spec = loaded.spec;
  std::vector<Diagnostic> found;
  const auto warn = [&](const std::string& key, const std::string& message) {
    const auto origin = spec.origins.find(key);
    const Origin where = origin != spec.origins.end()
                             ? origin->second
                             : Origin{Origin::Kind::kFile, loaded.file, 0, 0};
    found.push_back(
        {Diagnostic::Severity::kWarning, where, key + ": " + message, line_under(loaded, where)});
  };
  const auto check = [&](const std::string& key, const std::string& path, std::string_view what) {
    std::error_code error;
    if (path.empty() || path[0] != '/' || std::filesystem::exists(path, error)) return;
    // A path that this user cannot look at may exist for the job.
    if (error && error != std::errc::no_such_file_or_directory &&
        error != std::errc::not_a_directory)
      return;
    warn(key, fmt::format("{} '{}' does not exist here", what, printable(path)));
  };
  const auto check_image = [&] {
    const std::string image = spec.container.image.value_or("");
    std::error_code error;
    if (image.empty() || image[0] != '/' || !std::filesystem::exists(image, error)) return;
    const std::string why = why_no_image(image, container_runtime(spec, loaded.site));
    if (!why.empty())
      warn("container.image",
           fmt::format("no container can be made of '{}': {}", printable(image), why));
  };
  std::error_code ignored;
  if (start_folder(loaded) != loaded.folder)
    check("slurm.chdir", start_folder(loaded), "the folder, in which the job starts,");
  for (std::size_t i = 0; i < spec.container.mounts.size(); ++i) {
    check(fmt::format("container.mounts[{}]", i), spec.container.mounts[i].source,
          "the mount's source");
  }
  check("container.image", spec.container.image.value_or(""), "the image");
  check_image();
  if (spec.container.save && std::filesystem::is_directory(*spec.container.save, ignored))
    warn("container.save",
         fmt::format("'{}' is a folder; give the file to write", printable(*spec.container.save)));
  check("environment.venv", spec.environment.venv ? *spec.environment.venv + "/bin/activate" : "",
        "the script");
  check("environment.conda.name", spec.environment.conda_name.value_or(""), "the prefix");
  for (const std::string& path : spec.environment.modules_use)
    check("environment.modules.use", path, "the folder");
  // dlrun makes the folder itself if there are downloads.
  if (loaded.preset.is_trainer && spec.train.downloads.empty())
    check("train.data.path", spec.train.data_path.value_or(""), "the folder");
  if (!spec.container.image && !spec.launch.command.empty()) {
    check("launch.command", spec.launch.command[0], "the program");
    const std::string script = script_of(spec.launch.command);
    if (!script.empty())
      check("launch.command",
            (std::filesystem::path(start_folder(loaded)) / script).lexically_normal().string(),
            "the script");
  }
  if (const std::string script = script_of(spec.launch.command);
      spec.container.image && !script.empty() && script.front() != '/') {
    if (const std::string problem = script_in_container(loaded, script); !problem.empty())
      warn("launch.command", problem);
  }
  return found;
}

}  // namespace dlrun
