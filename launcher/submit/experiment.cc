#include "launcher/submit/experiment.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "common/files.h"
#include "common/text.h"
#include "container/image_name.h"
#include "launcher/executors/slurm_conf.h"
#include "launcher/images/images.h"
#include "launcher/runs/run_directory.h"
#include "launcher/spec/derived.h"
#include "launcher/spec/key_name.h"
#include "launcher/spec/secret_lines.h"
#include "launcher/spec/spec_builder.h"
#include "launcher/spec/sweep_points.h"
#include "launcher/spec/yaml_document.h"
#include "launcher/submit/script_file.h"
#include "launcher/submit/user_settings.h"

namespace dlrun {
namespace {

/// Reads at most one byte more than a spec may have, so that load_spec() can report a spec that is
/// too long.
[[nodiscard]] Result<std::string> read_standard_input() {
  const std::size_t limit_bytes = YamlLimits{}.bytes + 1;
  std::string text;
  std::array<char, 65536> buffer;
  while (text.size() < limit_bytes) {
    const ssize_t count =
        ::read(STDIN_FILENO, buffer.data(), std::min(buffer.size(), limit_bytes - text.size()));
    if (count == 0) break;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail(Errc::kIo, "standard input: {}", errno_text(errno));
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return text;
}

/// Returns a warning if pyxis reads the name of an existing file as the name of an image in a
/// registry, or fetches an image that the user has already imported.
std::optional<std::string> warning_about_image(const Context& context, const LoadedSpec& loaded) {
  const std::string image = loaded.spec.container.image.value_or("");
  const std::string runtime = container_runtime(loaded.spec, loaded.site);
  if (image.empty() || is_image_path(image) || runtime != "pyxis" || image.ends_with(".sqsh"))
    return std::nullopt;
  std::error_code error;
  if (std::filesystem::is_regular_file(std::filesystem::path(loaded.folder) / image, error)) {
    return fmt::format(
        "container.image: the file '{0}' is here, but pyxis reads '{0}' as the name of an image "
        "in a registry; write ./{0}",
        printable(image));
  }
  const auto uri = enroot_uri(image);
  const auto store = ImageStore::of_user(context.env);
  if (!uri || !store) return std::nullopt;
  const auto stored = store->find(*uri);
  if (!stored) return std::nullopt;
  return fmt::format(
      "container.image: pyxis fetches '{}' again for every job; `dlrun container import` has "
      "stored it: give {}",
      printable(image), stored->file.string());
}

/// Returns "; did you mean 'exp.yaml'?" if the folder of a missing file has a spec or script with a
/// similar name; else "".
std::string similar_file_text(const std::filesystem::path& missing) {
  const auto similar = similar_name_beside(missing, [](const std::filesystem::path& file) {
    const auto ending = file.extension();
    return ending == ".yaml" || ending == ".yml" || ending == ".sh";
  });
  return similar ? fmt::format("; did you mean '{}'?", printable(*similar)) : "";
}

LoadRequest request_for(const Context& context, const std::string& file) {
  LoadRequest request;
  request.file = file;
  request.current_dir = context.current_dir;
  request.config_dirs = config_folders(context);
  return request;
}

/// Builds the request for load_spec() from the user's options. Reads standard input if the spec is
/// "-".
Result<LoadRequest> request_of_options(const Context& context, const SpecOptions& options) {
  LoadRequest request = request_for(context, options.file);
  request.set_arguments = options.set_arguments;
  request.env = context.env;
  request.cluster_name = configured_cluster_name(context.env);
  if (options.file == "-") {
    request.file = "<stdin>";
    DLRUN_TRY_ASSIGN(request.text, read_standard_input());
    return request;
  }
  std::error_code error;
  if (!std::filesystem::exists(context.current_dir / options.file, error))
    return fail(Errc::kNotFound, "{}: no such file{}", printable(options.file),
                similar_file_text(context.current_dir / options.file));
  return request;
}

/// Refuses a script whose first line is not '#!...'. Also refuses an empty file, unless --set is
/// given. Parsing these files as YAML would give a confusing error.
Result<> refuse_empty_or_bare_script(const std::string& file, std::string_view text,
                                     bool has_set_arguments) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (is_script(text)) return {};
  if (text.starts_with(kByteOrderMark) && is_script(text.substr(kByteOrderMark.size()))) {
    return fail(Errc::kInvalid,
                "{}:1: a byte order mark precedes '#!', so that the file cannot be executed; "
                "save it as UTF-8 without the mark",
                printable(file));
  }
  const auto lines = split(text, '\n');
  const bool is_empty = std::all_of(lines.begin(), lines.end(), [](std::string_view line) {
    const auto trimmed = trim(line);
    return trimmed.empty() || trimmed.starts_with('#');
  });
  if (file.ends_with(".sh") || !sbatch_lines(text).empty()) {
    return fail(
        Errc::kInvalid,
        "{}:1: {}: the first line of a job script names its interpreter, such as #!/bin/bash",
        printable(file), trim(text).empty() ? "is empty" : "the line with '#!' is missing");
  }
  if (is_empty && !has_set_arguments)
    return fail(Errc::kInvalid, "{}: is empty; `dlrun init` writes a first spec", printable(file));
  return {};
}

/// Returns true if the text starts with a '#!' line that does not run dlrun. A spec can start with
/// a '#!' line that runs dlrun; its file can then be executed.
[[nodiscard]] bool has_other_interpreter(std::string_view text) {
  if (!is_script(text)) return false;
  const auto words = split(text.substr(2, text.find('\n') - 2), ' ');
  return std::none_of(words.begin(), words.end(), [](std::string_view word) {
    return word.substr(word.rfind('/') + 1) == "dlrun";
  });
}

/// Warns if dlrun will not contact the spec's server, because no site file lists the server.
void warn_of_unlisted_server(const Context& context, Reporter& reporter, const LoadedSpec& loaded,
                             const LaunchPlan& plan) {
  if (!plan.server || known_servers(context).find(*plan.server)) return;
  const auto origin = loaded.spec.origins.find("submit.url"_key);
  const Origin where = origin != loaded.spec.origins.end() ? origin->second : Origin{};
  reporter.diagnostics(
      {{Diagnostic::Severity::kWarning, where,
        "submit.url: no site file of yours or of this installation lists this server: nothing is "
        "sent to it",
        source_line_of(loaded, where)}});
}

}  // namespace

Error script_is_no_spec(const std::string& file) {
  return {Errc::kInvalid,
          fmt::format("{0}:1: this is a script, not a spec: `dlrun submit` accepts job scripts "
                      "(with --test-only, it only asks Slurm whether Slurm would accept one), and "
                      "`dlrun init --from {0}` makes a spec of one",
                      printable(file))};
}

Result<Experiment> prepare_experiment(const Context& context, Reporter& reporter,
                                      const SpecOptions& options, Target target) {
  DLRUN_TRY_ASSIGN(auto request, request_of_options(context, options));
  if (!request.text) {  // read only once, because it may be a pipe
    if (auto text = read_file(context.current_dir / options.file, YamlLimits{}.bytes))
      request.text = std::move(*text);
  }
  if (request.text)
    DLRUN_TRY(
        refuse_empty_or_bare_script(request.file, *request.text, !options.set_arguments.empty()));
  auto loaded = load_spec(request);
  if (!loaded && request.text && has_other_interpreter(*request.text))
    return tl::unexpected(script_is_no_spec(request.file));
  if (!loaded) return fail(Errc::kInvalid, std::move(loaded.error()));
  PlanInputs inputs;
  inputs.runs_dir =
      runs_directory(options.runs_dir, context.env, loaded->site, context.current_dir);
  const auto tools = tools_folder(inputs.runs_dir, context.tools);
  inputs.agent_path = tools / "dlrun-agent";
  inputs.trainer_path = tools / "dlrun-trainer";
  inputs.target = target;
  inputs.uses_existing_allocation = options.uses_existing_allocation;
  inputs.rehearsal_s = options.rehearsal_s;
  auto plan = make_plan(*loaded, inputs);
  if (!plan) return fail(Errc::kInvalid, std::move(plan.error()));
  reporter.diagnostics(loaded->warnings);
  warn_of_unlisted_server(context, reporter, *loaded, *plan);
  return Experiment{std::move(*loaded), std::move(*plan), std::move(request), std::move(inputs)};
}

Result<SweepPlan> prepare_sweep(const Experiment& experiment, std::size_t max_array_size) {
  auto sweep =
      plan_sweep(experiment.request, experiment.loaded, experiment.inputs, {max_array_size});
  if (!sweep) return fail(Errc::kInvalid, std::move(sweep.error()));
  return std::move(*sweep);
}

Result<Experiment> prepare_point(Reporter& reporter, Experiment experiment, std::size_t number) {
  if (!experiment.is_sweep())
    return fail(Errc::kUsage, "--point: {} has no sweep", printable(experiment.loaded.file));
  const auto points = sweep_points(experiment.loaded.spec.sweep);
  if (number >= points.size())
    return fail(Errc::kNotFound, "there is no point {}: the sweep's points are 0 to {}", number,
                points.size() - 1);
  LoadRequest request = experiment.request;
  request.text = experiment.loaded.text;
  request.point = points[number];
  auto loaded = load_spec(request);
  if (!loaded) return fail(Errc::kInvalid, std::move(loaded.error()));
  drop_sweep(*loaded);
  auto plan = make_plan(*loaded, experiment.inputs);
  if (!plan) return fail(Errc::kInvalid, std::move(plan.error()));
  reporter.note(fmt::format("point {} of {}: {}", number, points.size(), describe(points[number])));
  return Experiment{std::move(*loaded), std::move(*plan), std::move(request), experiment.inputs};
}

Result<Experiment> prepare_spec_or_point(const Context& context, Reporter& reporter,
                                         const SpecOptions& options, Target target,
                                         const std::optional<std::size_t>& point) {
  DLRUN_TRY_ASSIGN(auto experiment, prepare_experiment(context, reporter, options, target));
  if (!point) return experiment;
  return prepare_point(reporter, std::move(experiment), *point);
}

Result<Experiment> prepare_again(const Context& context, const std::string& file,
                                 std::string resolved_yaml, const PlanInputs& inputs) {
  LoadRequest request = request_for(context, file);
  request.text = std::move(resolved_yaml);
  auto loaded = load_spec(request);
  if (!loaded) return fail(Errc::kInvalid, std::move(loaded.error()));
  auto plan = make_plan(*loaded, inputs);
  if (!plan) return fail(Errc::kInvalid, std::move(plan.error()));
  return Experiment{std::move(*loaded), std::move(*plan), std::move(request), inputs};
}

Result<Experiment> prepare_carried(const Context& context, const CarriedSpec& carried) {
  const auto trainer = std::filesystem::path(carried.agent).parent_path() / "dlrun-trainer";
  return prepare_again(context, carried.folder + "/(the spec that the script carries)",
                       carried.yaml, {carried.runs_dir, carried.agent, trainer, Target::kSlurm});
}

std::vector<Diagnostic> check_files_and_image(const Context& context, const LoadedSpec& loaded) {
  auto found = check_files(loaded);
  if (const auto warning = warning_about_image(context, loaded)) {
    const auto origin = loaded.spec.origins.find("container.image"_key);
    const Origin where = origin != loaded.spec.origins.end() ? origin->second : Origin{};
    found.push_back({Diagnostic::Severity::kWarning, where, *warning,
                     where.kind == Origin::Kind::kFile ? line_for_message(loaded.text, where.line)
                                                       : SourceLine{}});
  }
  return found;
}

Result<> prepare_runs_folder(const Context& context, Reporter& reporter,
                             const std::string& runs_dir, bool uses_trainer) {
  DLRUN_TRY(check_can_create_run_in(runs_dir));
  if (const auto warning = warning_about_runs_folder(runs_dir)) reporter.warning(*warning);
  return copy_missing_tools(context.bin_dir.parent_path(), runs_dir, context.tools,
                            uses_trainer ? TrainerUse::kNeeded : TrainerUse::kNone);
}

}  // namespace dlrun
