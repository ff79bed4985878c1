#include "launcher/spec/config_reader.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include <fmt/format.h>

#include "common/files.h"
#include "launcher/spec/embedded.h"
#include "launcher/spec/map_reader.h"
#include "launcher/spec/secret_lines.h"
#include "launcher/spec/spec_builder.h"

namespace dlrun {
namespace {

constexpr std::size_t kLargestConfigBytes = 1U << 20U;

/// Variables that Slurm sets when it binds GPUs to tasks. A preset that set them could make ranks
/// use GPUs of other tasks.
constexpr std::array<std::string_view, 4> kSetBySlurm{
    "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"};

[[nodiscard]] Result<> check_variable(const std::string& name, const std::string&) {
  if (std::find(kSetBySlurm.begin(), kSetBySlurm.end(), name) == kSetBySlurm.end()) return {};
  return fail(Errc::kInvalid,
              "Slurm sets this variable when it binds GPUs; remove it from the preset");
}

[[nodiscard]] Result<> check_template_text(const std::string& text) {
  DLRUN_TRY(fields_of(text));
  return {};
}

[[nodiscard]] Result<> check_variable_template(const std::string& name, const std::string& value) {
  DLRUN_TRY(check_variable(name, value));
  DLRUN_TRY(fields_of(value));
  return {};
}

/// Returns the kind of an Origin in a file of the folder.
Origin::Kind kind_of_folder(std::string_view folder) {
  if (folder == "sites") return Origin::Kind::kSite;
  return folder == "presets" ? Origin::Kind::kPreset : Origin::Kind::kFile;
}

/// Returns the errno that prevents a search of the folder below dir; 0 if the folder can be
/// searched or does not exist.
int search_error(const std::filesystem::path& dir, std::string_view folder) {
  const std::string inside = fmt::format("{}/{}/.", dir.native(), folder);
  return ::access(inside.c_str(), X_OK) == 0 || errno == ENOENT ? 0 : errno;
}

/// Returns true if the error of reading a file in DIR/FOLDER means that the search goes on in the
/// next directory: the file is missing, or its folder cannot be searched.
bool is_skipped(const Error& error, const std::filesystem::path& dir, std::string_view folder) {
  return error.code == Errc::kNotFound || search_error(dir, folder) != 0;
}

}  // namespace

std::vector<Diagnostic> unsearchable_folder_warnings(
    std::string_view folder, const std::vector<std::filesystem::path>& dirs) {
  std::vector<Diagnostic> warnings;
  for (const auto& dir : dirs) {
    const int error = search_error(dir, folder);
    if (error == 0) continue;
    warnings.push_back({Diagnostic::Severity::kWarning,
                        {kind_of_folder(folder), (dir / folder).string(), 0, 0},
                        errno_text(error) + "; the folder is skipped",
                        ""});
  }
  return warnings;
}

std::optional<ConfigFile> find_config(std::string_view folder, std::string_view name,
                                      const std::vector<std::filesystem::path>& dirs,
                                      std::vector<Diagnostic>& diagnostics) {
  ConfigFile file;
  file.kind = kind_of_folder(folder);
  const auto fail_with = [&](int line, int column, std::string message) {
    diagnostics.push_back({Diagnostic::Severity::kError,
                           {file.kind, file.source, line, column},
                           std::move(message),
                           line_for_message(file.text, line)});
    return std::nullopt;
  };
  const std::string relative = fmt::format("{}/{}.yaml", folder, name);
  bool is_found = false;
  for (const auto& dir : dirs) {
    const auto path = dir / relative;
    auto text = read_file(path, kLargestConfigBytes);
    if (!text && is_skipped(text.error(), dir, folder)) continue;
    file.source = path.string();
    if (!text) return fail_with(0, 0, text.error().message);
    file.text = std::move(*text);
    is_found = true;
    break;
  }
  if (!is_found) {
    for (const EmbeddedFile& embedded : embedded_files()) {
      if (embedded.name != relative) continue;
      file.source = "built-in " + relative;
      file.text = embedded.text;
      file.document = document_of(embedded);
      return file;
    }
    return std::nullopt;
  }
  auto document = parse_yaml(file.text);
  if (!document)
    return fail_with(document.error().line, document.error().column, document.error().message);
  file.document = std::move(*document);
  return file;
}

std::optional<std::string_view> effective_built_in_config(
    std::string_view folder, std::string_view name,
    const std::vector<std::filesystem::path>& dirs) {
  const std::string relative = fmt::format("{}/{}.yaml", folder, name);
  const auto files = embedded_files();
  const auto built_in = std::find_if(files.begin(), files.end(),
                                     [&](const auto& file) { return file.name == relative; });
  if (built_in == files.end()) return std::nullopt;
  for (const auto& dir : dirs) {
    const auto text = read_file(dir / relative, kLargestConfigBytes);
    if (!text && is_skipped(text.error(), dir, folder)) continue;
    if (!text || *text != built_in->text) return std::nullopt;
    break;
  }
  return built_in->text;
}

std::vector<std::string> config_names(std::string_view folder,
                                      const std::vector<std::filesystem::path>& dirs) {
  std::vector<std::string> names;
  const auto add = [&](std::vector<std::string> more) {
    std::sort(more.begin(), more.end());
    for (std::string& name : more) {
      if (std::find(names.begin(), names.end(), name) == names.end())
        names.push_back(std::move(name));
    }
  };
  for (const auto& dir : dirs) {
    std::vector<std::string> found;
    std::error_code error;
    for (std::filesystem::directory_iterator at(dir / folder, error), end; !error && at != end;
         at.increment(error)) {
      if (at->path().extension() == ".yaml") found.push_back(at->path().stem().string());
    }
    add(std::move(found));
  }
  std::vector<std::string> built_in;
  for (const EmbeddedFile& file : embedded_files()) {
    const std::filesystem::path path(file.name);
    if (path.parent_path() == folder) built_in.push_back(path.stem().string());
  }
  add(std::move(built_in));
  return names;
}

Preset read_preset(const ConfigFile& file, std::string_view name,
                   std::vector<Diagnostic>& diagnostics) {
  Preset preset;
  preset.name = name;
  preset.source = file.source;
  MapReader reader(file, diagnostics);
  std::string program = "command", tasks = "gpu";
  reader.read(file.document.root,
              {{"help", reader.text(preset.help)},
               {"program", reader.choice(program, {"command", "trainer"})},
               {"mpi", reader.boolean(preset.wants_mpi)},
               {"tasks", reader.choice(tasks, {"gpu", "node"})},
               {"components", reader.boolean(preset.needs_components)},
               {"words", reader.list(preset.words, check_template_text)},
               {"env", reader.variables(preset.env, check_variable_template)},
               {"vars", reader.variables(preset.vars, check_variable)},
               {"pmix_vars", reader.variables(preset.pmix_vars, check_variable)}});
  preset.is_node_launcher = tasks == "node";
  // dlrun-trainer is the only bundled program.
  preset.is_trainer = preset.program_is_bundled = program == "trainer";
  return preset;
}

std::vector<Preset> read_presets(const std::vector<std::filesystem::path>& dirs) {
  std::vector<Preset> presets;
  for (const std::string& name : config_names("presets", dirs)) {
    std::vector<Diagnostic> problems;
    const auto file = find_config("presets", name, dirs, problems);
    if (!file) continue;
    Preset preset = read_preset(*file, name, problems);
    if (std::none_of(problems.begin(), problems.end(), is_error))
      presets.push_back(std::move(preset));
  }
  return presets;
}

}  // namespace dlrun
