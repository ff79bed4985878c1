// Implements start_folder() and check_files() of plan.h.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "common/files.h"
#include "common/text.h"
#include "container/image_file.h"
#include "launcher/plan/plan.h"
#include "launcher/spec/component_specs.h"
#include "launcher/spec/derived.h"
#include "launcher/spec/key_name.h"

namespace dlrun {
namespace {

/// Returns the index of the script in a command such as `python -u train.py`: the index of the
/// first argument that ends with .py or .sh. Returns 0 if there is no such argument, or if -c or -m
/// precedes it.
[[nodiscard]] std::size_t index_of_script(const std::vector<std::string>& command) {
  for (std::size_t i = 1; i < command.size(); ++i) {
    if (command[i] == "-c" || command[i] == "-m") break;
    if (command[i].ends_with(".py") || command[i].ends_with(".sh")) return i;
  }
  return 0;
}

/// Returns "; did you mean 'train.py'?" if a file with a similar name is in the same folder; else
/// "".
[[nodiscard]] std::string suggestion_for(const std::filesystem::path& missing) {
  const auto similar = similar_name_beside(missing, [](const auto&) { return true; });
  return similar ? fmt::format("; did you mean '{}'?", printable(*similar)) : "";
}

/// Returns the path relative to the folder; "." for the folder itself; nullopt if the path is not
/// in the folder.
[[nodiscard]] std::optional<std::string> relative_path_in(const std::string& path,
                                                          const std::string& folder) {
  const std::string relative = std::filesystem::path(path).lexically_relative(folder).string();
  if (relative.empty() || relative == ".." || relative.starts_with("../")) return std::nullopt;
  return relative;
}

/// Checks a script that runs in a container. script: a relative path. Returns the problem, or "" if
/// none is found; the image may still lack the script.
[[nodiscard]] std::string problem_of_script_in_container(const LoadedSpec& loaded,
                                                         const std::string& script) {
  const ContainerSpec& container = loaded.spec.container;
  std::error_code error;
  const std::string here =
      (std::filesystem::path(start_folder(loaded)) / script).lexically_normal().string();
  const bool is_mounted = std::any_of(
      container.mounts.begin(), container.mounts.end(),
      [&](const Mount& mount) { return relative_path_in(here, mount.source).has_value(); });
  if (!is_mounted && !container.mount_home.value_or(false) &&
      std::filesystem::exists(here, error)) {
    return fmt::format(
        "the script '{}' is in no mount, so the container does not have it; set `container: "
        "{{mounts: [.:/work], workdir: /work}}` to mount the spec's folder",
        printable(script));
  }
  if (!container.workdir) return {};
  const std::string inside =
      (std::filesystem::path(*container.workdir) / script).lexically_normal().string();
  const Mount* innermost = nullptr;
  for (const Mount& mount : container.mounts) {
    if (relative_path_in(inside, mount.target) &&
        (innermost == nullptr || mount.target.size() > innermost->target.size()))
      innermost = &mount;
  }
  if (innermost == nullptr) return {};
  const auto source =
      (std::filesystem::path(innermost->source) / *relative_path_in(inside, innermost->target))
          .lexically_normal();
  if (std::filesystem::exists(source, error) || error) return {};
  return fmt::format("the script '{}' ({} in the container) does not exist here{}",
                     printable(source.string()), printable(inside), suggestion_for(source));
}

}  // namespace

std::string start_folder(const LoadedSpec& loaded) {
  for (const SlurmOption& option : loaded.spec.slurm) {
    if (option.name == "chdir" && option.value)
      return (std::filesystem::path(loaded.folder) / *option.value).lexically_normal().string();
  }
  return loaded.folder;
}

namespace {

/// Looks for the files that a job needs, and collects a problem for each file that is missing or
/// has the wrong kind.
class FileCheck {
 public:
  explicit FileCheck(const LoadedSpec& loaded) : loaded_(loaded), spec_(loaded.spec) {}

  [[nodiscard]] std::vector<Diagnostic> run() && {
    check_start_folder();
    check_container();
    check_environment();
    check_program();
    check_stage();
    check_notify_command();
    return std::move(problems_);
  }

 private:
  void warn(const std::string& key, const std::string& message,
            std::optional<std::size_t> item = std::nullopt) {
    report(Diagnostic::Severity::kWarning, key, message, item);
  }
  /// Reports a problem at the place of the key, or of the item with this index in the key's list.
  void report(Diagnostic::Severity severity, const std::string& key, const std::string& message,
              std::optional<std::size_t> item) {
    auto origin = spec_.origins.end();
    if (item) origin = spec_.origins.find(fmt::format("{}[{}]", key, *item));
    if (origin == spec_.origins.end()) origin = spec_.origins.find(key);
    const Origin where = origin != spec_.origins.end()
                             ? origin->second
                             : Origin{Origin::Kind::kFile, loaded_.file, 0, 0};
    problems_.push_back({severity, where, key + ": " + message, source_line_of(loaded_, where)});
  }

  /// Reports an absolute path that does not exist. Any other value may be a name, such as that of a
  /// conda environment, and is not checked. role: the use of the path, such as "the image", for the
  /// message. item: the index of the path in the key's list.
  void report_if_missing(const std::string& key, const std::string& path, std::string_view role,
                         Diagnostic::Severity severity = Diagnostic::Severity::kWarning,
                         std::optional<std::size_t> item = std::nullopt) {
    std::error_code error;
    if (path.empty() || path[0] != '/' || std::filesystem::exists(path, error)) return;
    // A path that cannot be read here may exist on the nodes.
    if (error && error != std::errc::no_such_file_or_directory &&
        error != std::errc::not_a_directory)
      return;
    report(
        severity, key,
        fmt::format("{} '{}' does not exist here{}", role, printable(path), suggestion_for(path)),
        item);
  }

  /// Warns if notify.command starts with the path of a program, and no file has this path.
  void check_notify_command() {
    const auto& command = spec_.notify.command;
    if (command.empty() || command.front().find('/') == std::string::npos) return;
    report_if_missing("notify.command"_key,
                      (std::filesystem::path(start_folder(loaded_)) / command.front())
                          .lexically_normal()
                          .string(),
                      "the program");
  }

  void check_image(const std::string& image) {
    report_if_missing("container.image"_key, image, "the image");
    std::error_code error;
    if (image.empty() || image[0] != '/' || !std::filesystem::exists(image, error)) return;
    const auto* backend = find_container_backend(container_runtime(spec_, loaded_.site));
    const std::string why = backend == nullptr ? "" : why_unusable_as_image(image, *backend);
    if (!why.empty())
      warn("container.image"_key,
           fmt::format("no container can be made of '{}': {}", printable(image), why));
  }

  void check_start_folder() {
    if (start_folder(loaded_) != loaded_.folder)
      report_if_missing("slurm.chdir", start_folder(loaded_), "the start folder");
  }

  void check_container() {
    for (std::size_t i = 0; i < spec_.container.mounts.size(); ++i) {
      report_if_missing(fmt::format("container.mounts[{}]", i), spec_.container.mounts[i].source,
                        "the mount's source");
    }
    check_image(spec_.container.image.value_or(""));
    std::error_code ignored;
    if (spec_.container.save && std::filesystem::is_directory(*spec_.container.save, ignored))
      warn("container.save"_key, fmt::format("'{}' is a folder; give the file to write",
                                             printable(*spec_.container.save)));
  }

  void check_environment() {
    report_if_missing("environment.venv"_key,
                      spec_.environment.venv ? *spec_.environment.venv + "/bin/activate" : "",
                      "the script");
    report_if_missing("environment.conda.name"_key, spec_.environment.conda_name.value_or(""),
                      "the prefix");
    for (const std::string& path : spec_.environment.modules_use)
      report_if_missing("environment.modules.use"_key, path, "the folder");
  }

  void check_program() {
    // dlrun creates the folder if there are downloads.
    if (loaded_.preset.is_trainer && spec_.train.downloads.empty())
      report_if_missing("train.data.path"_key, spec_.train.data_path.value_or(""), "the folder");
    const std::size_t index = index_of_script(spec_.launch.command);
    const std::string script = index > 0 ? spec_.launch.command[index] : "";
    if (!spec_.container.image && !spec_.launch.command.empty()) {
      report_if_missing("launch.command"_key, spec_.launch.command[0], "the program",
                        Diagnostic::Severity::kWarning, 0);
      if (!script.empty())
        report_if_missing(
            "launch.command"_key,
            (std::filesystem::path(start_folder(loaded_)) / script).lexically_normal().string(),
            "the script", Diagnostic::Severity::kWarning, index);
    }
    if (spec_.container.image && !script.empty() && script.front() != '/') {
      if (const std::string problem = problem_of_script_in_container(loaded_, script);
          !problem.empty())
        warn("launch.command"_key, problem, index);
    }
  }

  /// Returns true if path is a file that dlrun fetches before the job is queued, or the folder that
  /// receives such files.
  [[nodiscard]] bool will_be_fetched(const std::string& path) const {
    const auto is_among = [&](const std::optional<std::string>& folder,
                              const std::vector<Download>& files) {
      if (!folder) return false;
      const auto name = relative_path_in(path, *folder);
      return name &&
             (*name == "." ? !files.empty()
                           : std::any_of(files.begin(), files.end(),
                                         [&](const Download& one) { return one.file == *name; }));
    };
    return is_among(spec_.download.path, spec_.download.files) ||
           (loaded_.preset.is_trainer && is_among(spec_.train.data_path, spec_.train.downloads));
  }

  void check_stage() {
    for (std::size_t i = 0; i < spec_.stage.size(); ++i) {
      const StagedData& one = spec_.stage[i];
      const std::string key = fmt::format("stage[{}]", i);
      if (will_be_fetched(one.from)) continue;
      report_if_missing(key, one.from, "the source", Diagnostic::Severity::kError);
      std::error_code ignored;
      if (one.unpack && std::filesystem::is_directory(one.from, ignored))
        warn(key, fmt::format("unpack: '{}' is a folder, not an archive", printable(one.from)));
    }
  }

  const LoadedSpec& loaded_;
  const JobSpec& spec_;
  std::vector<Diagnostic> problems_;
};

}  // namespace

std::vector<Diagnostic> check_files(const LoadedSpec& loaded) {
  auto specs = loaded_specs_of_components(loaded);
  if (specs.empty()) return FileCheck(loaded).run();
  std::vector<Diagnostic> problems;
  std::set<std::pair<std::string, std::string>> seen;  // components inherit the same values
  for (const LoadedSpec& component : specs) {
    for (Diagnostic& one : FileCheck(component).run()) {
      if (!seen.emplace(describe(one.where), one.message).second) continue;
      one.line = source_line_of(loaded, one.where);
      problems.push_back(std::move(one));
    }
  }
  return problems;
}

}  // namespace dlrun
