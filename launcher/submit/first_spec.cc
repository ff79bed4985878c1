#include "launcher/submit/first_spec.h"

#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "common/files.h"
#include "common/text.h"
#include "common/untrusted_file.h"
#include "container/container.h"
#include "launcher/executors/slurm_conf.h"
#include "launcher/import/script_import.h"
#include "launcher/plan/sbatch_lines.h"
#include "launcher/spec/key_name.h"
#include "launcher/spec/load.h"
#include "launcher/spec/sites.h"
#include "launcher/spec/value_syntax.h"
#include "launcher/submit/script_file.h"
#include "launcher/submit/user_settings.h"

namespace dlrun {
namespace {

/// Returns the option of `dlrun init` that sets a key of the spec; "" if there is none.
[[nodiscard]] std::string option_for_key(std::string_view key) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 17> kOptions{{
      {"name", "--name"},
      {"resources.nodes"_key, "--nodes"},
      {"resources.gpus_per_node"_key, "--gpus"},
      {"resources.tasks_per_node"_key, "--tasks"},
      {"resources.cpus_per_task"_key, "--cpus"},
      {"resources.mem"_key, "--mem"},
      {"resources.time"_key, "--time"},
      {"resources.partition"_key, "--partition"},
      {"resources.account"_key, "--account"},
      {"container.image"_key, "--image"},
      {"container.runtime"_key, "--runtime"},
      {"environment.modules.load"_key, "--module"},
      {"environment.modules", "--module"},
      {"environment.conda.name"_key, "--conda"},
      {"environment.conda", "--conda"},
      {"environment.venv"_key, "--venv"},
      {"launch.preset"_key, "--preset"},
  }};
  for (const auto& [set_key, option] : kOptions) {
    if (set_key == key) return std::string(option);
  }
  return {};
}

/// Replaces the place of each problem by the option that sets the wrong value. The file is not
/// written yet, so its line numbers would mean nothing to the user.
void replace_places_by_options(std::vector<Diagnostic>& found) {
  for (Diagnostic& one : found) {
    const std::string option = option_for_key(one.key);
    if (option.empty() || one.where.kind != Origin::Kind::kFile) continue;
    one.where = {Origin::Kind::kFile, option, 0, 0};
    one.line = {};
  }
}

/// Returns the request that reads a spec on this machine.
[[nodiscard]] LoadRequest request_to_load(const Context& context, const std::string& file) {
  LoadRequest request;
  request.file = file;
  request.env = context.env;
  request.current_dir = context.current_dir;
  request.config_dirs = config_folders(context);
  request.cluster_name = configured_cluster_name(context.env);
  return request;
}

/// Loads the text as a spec. Reports all problems, and fails with kInvalid if one is an error, such
/// as an answer that exceeds the site's limits.
[[nodiscard]] Result<> check_spec_text(const Context& context, Reporter& reporter,
                                       const std::string& text, const std::string& file) {
  LoadRequest request = request_to_load(context, file);
  request.text = text;
  const auto loaded = load_spec(request);
  if (loaded) {
    reporter.diagnostics(loaded->warnings);
    return {};
  }
  auto wrong = loaded.error();
  replace_places_by_options(wrong);
  reporter.diagnostics(wrong);
  return fail(Errc::kInvalid, "nothing is written: the answers do not form a valid spec");
}

/// Reads an optional number that is at least 1.
[[nodiscard]] Result<> read_count(const char* option, const std::optional<std::string>& text,
                                  std::optional<std::int64_t>& into) {
  if (!text) return {};
  into = parse_int(*text);
  if (into && *into >= 1) return {};
  return fail(Errc::kUsage, "{}: '{}' is not a number from 1 on", option, printable(*text));
}

/// Fails if the command line has an option whose value --from takes from the script.
[[nodiscard]] Result<> check_options_with_from(const FirstSpecOptions& options) {
  const InitAnswers& a = options.answers;
  const bool has_value = a.name || a.partition || a.account || a.time || a.mem || a.image ||
                         a.runtime || a.conda || a.venv || a.preset || !a.modules.empty() ||
                         options.gpus || options.nodes || options.tasks || options.cpus;
  if (!has_value) return {};
  return fail(Errc::kUsage,
              "--from takes all other values from the script: only --site, -o, --force and a "
              "program after -- can be combined with it; change other values in the spec that it "
              "writes");
}

}  // namespace

Result<InitAnswers> answers_of(const FirstSpecOptions& options) {
  InitAnswers answers = options.answers;
  DLRUN_TRY(read_count("--nodes", options.nodes, answers.nodes));
  DLRUN_TRY(read_count("--tasks", options.tasks, answers.tasks_per_node));
  DLRUN_TRY(read_count("--cpus", options.cpus, answers.cpus_per_task));
  if (options.gpus) {
    auto gpus = parse_gpus(*options.gpus);
    if (!gpus) return fail(Errc::kUsage, "--gpus: {}", gpus.error().message);
    answers.gpus_per_node = std::move(*gpus);
  }
  return answers;
}

Result<std::string> make_first_spec(const Context& context, Reporter& reporter, InitAnswers answers,
                                    const SiteProfile& site, const std::string& file) {
  if (answers.image && answers.runtime == "none") {
    return fail(Errc::kUsage, "--image: needs a container runtime, but --runtime is none; give {}",
                container_tools_text());
  }
  if (answers.image && runtime_of(answers, site) == "none") {
    return fail(Errc::kUsage,
                "--image: site '{}' names no container runtime; give --runtime {} (`dlrun doctor` "
                "lists those that are installed)",
                site.name, container_tools_text());
  }
  if (answers.command.size() == 1) {
    const std::string& program = answers.command.front();
    const auto script = read_file(context.current_dir / program, kScriptLimitBytes);
    if (script && is_script(*script) && !sbatch_lines(*script).empty())
      return fail(
          Errc::kUsage,
          "{0}: is a job script with #SBATCH lines, which needs no spec: `dlrun submit {0}` "
          "submits it as it is. For a spec, give the program that the script starts, or use `dlrun "
          "init --from {0}`",
          printable(program));
  }
  std::string text = init_spec_text(answers_with_defaults(std::move(answers), site), site);
  DLRUN_TRY(check_spec_text(context, reporter, text, file));
  return text;
}

Result<std::string> import_first_spec(const Context& context, Reporter& reporter,
                                      const FirstSpecOptions& options, const std::string& file) {
  DLRUN_TRY(check_options_with_from(options));
  constexpr std::size_t kImportLimitBytes = 1U << 20U;
  ImportRequest import;
  import.script_name = options.from;
  DLRUN_TRY_ASSIGN(import.script, read_untrusted(context.current_dir / options.from,
                                                 kImportLimitBytes, Links::kFollow));
  import.load = request_to_load(context, file);
  const std::string site_name = options.answers.site.value_or("");
  if (!site_name.empty()) {
    DLRUN_TRY_ASSIGN(const auto site, require_site(site_name, import.load.config_dirs));
    reporter.diagnostics(site.problems);
    import.site = site_name;
  }
  import.command = options.answers.command;
  DLRUN_TRY_ASSIGN(auto imported, import_script(import));
  reporter.diagnostics(imported.remarks);
  reporter.diagnostics(imported.warnings);
  return std::move(imported.spec);
}

Result<> write_first_spec(const Context& context, const std::string& file, const std::string& text,
                          bool force) {
  const auto path = context.current_dir / file;
  if (force) return write_file_atomic(path, text, 0644);
  auto made = create_file_exclusive(path, text, 0644);
  if (made || made.error().code != Errc::kRefused) return made;
  return fail(Errc::kUsage,
              "{}: exists; give another file with -o, or --force to overwrite this one",
              printable(file));
}

}  // namespace dlrun
