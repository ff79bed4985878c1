#include "cli/prepare.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "cli/command_line.h"
#include "cli/script_file.h"
#include "cli/terminal/print.h"
#include "common/files.h"
#include "common/text.h"
#include "container/image_name.h"
#include "launcher/executors/slurm_conf.h"
#include "launcher/runs/images.h"
#include "launcher/runs/run_directory.h"
#include "launcher/spec/derived.h"
#include "launcher/spec/sites.h"
#include "launcher/spec/spec_builder.h"
#include "launcher/spec/yaml_document.h"

namespace dlrun {
namespace {

/// Reads at most one byte more than a spec may have; load_spec() then reports the limit.
[[nodiscard]] Result<std::string> read_standard_input() {
  const std::size_t most = YamlLimits{}.bytes + 1;
  std::string text;
  std::array<char, 65536> buffer;
  while (text.size() < most) {
    const ssize_t count =
        ::read(STDIN_FILENO, buffer.data(), std::min(buffer.size(), most - text.size()));
    if (count == 0) break;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail(Errc::kIo, "standard input: {}", errno_text(errno));
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return text;
}

/// Returns a warning if pyxis reads an image name otherwise than the user may expect.
std::optional<std::string> about_image(const Cli& cli, const LoadedSpec& loaded) {
  const std::string image = loaded.spec.container.image.value_or("");
  const std::string runtime = container_runtime(loaded.spec, loaded.site);
  if (image.empty() || is_image_path(image) || runtime != "pyxis" || image.ends_with(".sqsh"))
    return std::nullopt;
  std::error_code error;
  if (std::filesystem::is_regular_file(std::filesystem::path(loaded.folder) / image, error)) {
    return fmt::format(
        "container.image: the file '{0}' is here, but pyxis reads '{0}' as a registry name; write "
        "./{0}",
        printable(image));
  }
  const auto uri = enroot_uri(image);
  const auto store = ImageStore::of_user(cli.env);
  if (!uri || !store) return std::nullopt;
  const auto stored = store->find(*uri);
  if (!stored) return std::nullopt;
  return fmt::format(
      "container.image: pyxis fetches '{}' again for every job; it was imported once: give {}",
      printable(image), stored->file.string());
}

}  // namespace

void add_set_option(Subcommand& command, SpecOptions& options) {
  command
      .option("--set", options.sets,
              "Override a key of the spec, for example resources.nodes=4; repeatable")
      .type_name("KEY=VALUE")
      .repeatable();
}

void add_spec_options(Subcommand& command, SpecOptions& options) {
  command
      .option("SPEC", options.file,
              "The spec of the experiment, a YAML file; - means standard input")
      .required();
  add_set_option(command, options);
  command
      .option("--runs", options.runs,
              "Folder for run directories ($DLRUN_RUNS, else the folder of the site, else ./runs)")
      .type_name("DIR");
}

std::filesystem::path folder_of(const Cli& cli, const std::string& file) {
  return (cli.current_dir / file).lexically_normal().parent_path();
}

std::vector<std::filesystem::path> config_folders(const Cli& cli) {
  auto folders = config_directories(cli.env);
  folders.push_back(cli.bin_dir.parent_path() / "share" / "dlrun");
  return folders;
}

std::string site_here(const Cli& cli, const std::string& clusters) {
  if (const std::string named = cli.env.get_or("DLRUN_SITE", ""); !named.empty()) return named;
  std::vector<Diagnostic> problems;
  const auto matched = match_site(clusters.empty() ? slurm_cluster_name(cli.env) : clusters,
                                  config_folders(cli), problems);
  print_diagnostics(cli, problems);
  return matched.value_or("generic");
}

Result<std::string> runs_directory_here(const Cli& cli, const std::optional<std::string>& option,
                                        const std::string& clusters) {
  SiteProfile profile;
  if (option.value_or("").empty() && cli.env.get_or("DLRUN_RUNS", "").empty()) {
    const auto name = site_here(cli, clusters);
    const auto site = find_site(name, config_folders(cli));
    if (!site && name != "generic")
      return fail(Errc::kNotFound, "there is no site '{}'", printable(name));
    if (site) print_diagnostics(cli, site->problems);
    if (site) profile = site->profile;
  }
  return runs_directory(option, cli.env, profile, cli.current_dir);
}

KnownServers known_servers(const Cli& cli) {
  return {config_folders(cli), cli.env};
}

namespace {

LoadRequest request_for(const Cli& cli, const std::string& file) {
  LoadRequest request;
  request.file = file;
  request.current_dir = cli.current_dir;
  request.config_dirs = config_folders(cli);
  return request;
}

}  // namespace

Result<LoadRequest> load_request(const Cli& cli, const SpecOptions& options) {
  LoadRequest request = request_for(cli, options.file);
  request.sets = options.sets;
  request.env = cli.env;
  request.cluster_name = slurm_cluster_name(cli.env);
  if (options.file == "-") {
    request.file = "<stdin>";
    auto text = read_standard_input();
    if (!text) return tl::unexpected(text.error());
    request.text = std::move(*text);
    return request;
  }
  std::error_code error;
  if (!std::filesystem::exists(cli.current_dir / options.file, error))
    return fail(Errc::kNotFound, "{}: no such file", options.file);
  return request;
}

namespace {

/// Refuses a file that is no spec but would read as an empty one or as broken YAML.
Result<> refuse_what_is_no_spec(const std::string& file, std::string_view text, bool has_sets) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (is_script(text)) return {};
  if (text.starts_with(kByteOrderMark) && is_script(text.substr(kByteOrderMark.size()))) {
    return fail(Errc::kInvalid,
                "{}:1: a byte order mark stands before '#!', so that it is a script to nobody: "
                "save it as UTF-8 "
                "without one",
                file);
  }
  const auto lines = split(text, '\n');
  const bool is_empty = std::all_of(lines.begin(), lines.end(), [](std::string_view line) {
    const auto trimmed = trim(line);
    return trimmed.empty() || trimmed.starts_with('#');
  });
  if (file.ends_with(".sh") || !sbatch_lines(text).empty()) {
    return fail(
        Errc::kInvalid,
        "{}:1: {}: a job script's first line says what runs it, such as #!/bin/bash; put it there",
        file, trim(text).empty() ? "is empty" : "the line with '#!' is missing");
  }
  if (is_empty && !has_sets)
    return fail(Errc::kInvalid,
                "{}: is empty: it has no keys; `dlrun init` writes a spec to begin with", file);
  return {};
}

}  // namespace

namespace {

/// Warns of a server in the spec that dlrun will not contact, with its place.
void warn_of_unlisted_server(const Cli& cli, const LoadedSpec& loaded, const LaunchPlan& plan) {
  if (!plan.server || known_servers(cli).find(*plan.server)) return;
  const auto origin = loaded.spec.origins.find("submit.url");
  const Origin where = origin != loaded.spec.origins.end() ? origin->second : Origin{};
  print_diagnostics(
      cli,
      {{Diagnostic::Severity::kWarning, where,
        "submit.url: no site file of yours or of this installation lists this server: nothing is "
        "sent to it",
        line_under(loaded, where)}});
}

}  // namespace

Result<Prepared> prepare(const Cli& cli, const SpecOptions& options, Target target) {
  auto request = load_request(cli, options);
  if (!request) return tl::unexpected(request.error());
  if (!request->text) {  // read only once, because it may be a pipe
    if (auto text = read_file(cli.current_dir / options.file, YamlLimits{}.bytes))
      request->text = std::move(*text);
  }
  if (request->text)
    DLRUN_TRY(refuse_what_is_no_spec(request->file, *request->text, !options.sets.empty()));
  auto loaded = load_spec(*request);
  if (!loaded) {
    print_diagnostics(cli, loaded.error());
    return fail(Errc::kInvalid, "");
  }
  PlanInputs inputs;
  inputs.runs_dir = runs_directory(options.runs, cli.env, loaded->site, cli.current_dir);
  const auto tools = tools_directory(inputs.runs_dir, cli.tools);
  inputs.agent_path = tools / "dlrun-agent";
  inputs.trainer_path = tools / "dlrun-trainer";
  inputs.target = target;
  auto plan = make_plan(*loaded, inputs);
  if (!plan) {
    print_diagnostics(cli, plan.error());
    return fail(Errc::kInvalid, "");
  }
  print_diagnostics(cli, loaded->warnings);
  warn_of_unlisted_server(cli, *loaded, *plan);
  return Prepared{std::move(*loaded), std::move(*plan), std::move(*request), std::move(inputs)};
}

Result<Prepared> prepare_again(const Cli& cli, const std::string& file, std::string resolved_yaml,
                               const PlanInputs& inputs) {
  LoadRequest request = request_for(cli, file);
  request.text = std::move(resolved_yaml);
  auto loaded = load_spec(request);
  if (!loaded) {
    print_diagnostics(cli, loaded.error());
    return fail(Errc::kInvalid, "");
  }
  auto plan = make_plan(*loaded, inputs);
  if (!plan) {
    print_diagnostics(cli, plan.error());
    return fail(Errc::kInvalid, "");
  }
  return Prepared{std::move(*loaded), std::move(*plan), std::move(request), inputs};
}

Result<Prepared> prepare_carried(const Cli& cli, const CarriedSpec& carried) {
  const auto trainer = std::filesystem::path(carried.agent).parent_path() / "dlrun-trainer";
  return prepare_again(cli, carried.folder + "/(the spec that the script carries)", carried.yaml,
                       {carried.runs_dir, carried.agent, trainer, Target::kSlurm});
}

std::vector<Diagnostic> preflight(const Cli& cli, const LoadedSpec& loaded) {
  auto found = check_files(loaded);
  if (const auto words = about_image(cli, loaded)) {
    const auto origin = loaded.spec.origins.find("container.image");
    const Origin where = origin != loaded.spec.origins.end() ? origin->second : Origin{};
    found.push_back({Diagnostic::Severity::kWarning, where, *words,
                     where.kind == Origin::Kind::kFile ? line_of(loaded.text, where.line) : ""});
  }
  return found;
}

Result<> stage(const Cli& cli, const std::string& runs_dir) {
  DLRUN_TRY(check_runs_place(runs_dir));
  if (const auto warning = warning_about_place(runs_dir)) print_warning(cli, *warning);
  return stage_tools(cli.bin_dir.parent_path(), runs_dir, cli.tools);
}

}  // namespace dlrun
