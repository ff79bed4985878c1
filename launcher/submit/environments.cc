#include "launcher/submit/environments.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "common/files.h"
#include "common/interrupt.h"
#include "common/quoting.h"
#include "common/sha256.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "common/units.h"
#include "common/untrusted_file.h"
#include "launcher/executors/scrub.h"
#include "launcher/executors/slurm_parse.h"
#include "launcher/plan/render.h"
#include "launcher/spec/key_name.h"
#include "launcher/submit/built_environments.h"

namespace dlrun {
namespace {

namespace fs = std::filesystem;

/// The start of the line with which the shell of check_tools() reports a missing tool.
constexpr std::string_view kMissingToolPrefix = "dlrun: missing: ";
constexpr std::size_t kProjectFileLimitBytes = 64U << 20U;

/// A tool, and the key that needs it.
struct EnvironmentTool {
  std::string_view program;
  const char* key;
};

[[nodiscard]] std::vector<EnvironmentTool> tools_of(const Environment& environment) {
  std::vector<EnvironmentTool> tools;
  if (environment.uv_project) tools.push_back({"uv", "environment.uv.project"_key});
  if (environment.pixi_project) tools.push_back({"pixi", "environment.pixi.project"_key});
  if (environment.spack) tools.push_back({"spack", "environment.spack"_key});
  if (!environment.uenv_images.empty()) tools.push_back({"uenv", "environment.uenv.images"_key});
  return tools;
}

[[nodiscard]] Diagnostic problem_of_key(const LoadedSpec& loaded, const std::string& key,
                                        std::string_view message) {
  const auto origin = loaded.spec.origins.find(key);
  const Origin where = origin != loaded.spec.origins.end()
                           ? origin->second
                           : Origin{Origin::Kind::kFile, loaded.file, 0, 0};
  return {Diagnostic::Severity::kError, where, fmt::format("{}: {}", key, message),
          source_line_of(loaded, where)};
}

/// Returns the environment variables of the tools: the user's, without the secrets of the job and
/// without VIRTUAL_ENV.
[[nodiscard]] Env variables_of_tools(const Context& context, const LoadedSpec& loaded) {
  Env env = context.env;
  for (const SecretSource& secret : loaded.spec.environment.secrets) env.unset(secret.name);
  env.unset("VIRTUAL_ENV");  // the environment that is active in the user's shell
  return env;
}

/// Returns the last non-empty lines of a text, at most three, joined by " | ".
[[nodiscard]] std::string last_lines(std::string_view text) {
  constexpr std::size_t kMostLines = 3;
  std::vector<std::string> lines;
  for (const auto line : split(text, '\n')) {
    if (!trim(line).empty()) lines.emplace_back(printable(trim(line)));
  }
  if (lines.size() > kMostLines)
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(kMostLines));
  return join(lines, " | ");
}

/// Returns the end of a log, at most 16 KiB; nullopt if the log cannot be read.
[[nodiscard]] std::optional<std::string> end_of_log(const fs::path& log) {
  constexpr off_t kMostBytes = 16 << 10U;
  const auto file = open_untrusted(log, Links::kFollow);
  struct stat info {};
  if (!file || ::fstat(file->get(), &info) != 0) return std::nullopt;
  std::string text(static_cast<std::size_t>(std::min(info.st_size, kMostBytes)), '\0');
  const auto got = ::pread(file->get(), text.data(), text.size(),
                           info.st_size - static_cast<off_t>(text.size()));
  if (got < 0) return std::nullopt;
  text.resize(static_cast<std::size_t>(got));
  return text;
}

/// Returns true if the lines of render_submitting_shell_setup() execute module files or EESSI's
/// script. The other lines only export variables.
[[nodiscard]] bool loads_modules_or_eessi(const Prologue& prologue) {
  return prologue.purge_modules || !prologue.use_modules.empty() ||
         !prologue.load_modules.empty() || !prologue.conda_module.empty() ||
         !prologue.eessi.empty();
}

/// Adds a problem for each tool that the submitting machine does not find. With kForbidden, does
/// nothing for a job with modules or EESSI, which could bring the tools. Fails with kInvalid if the
/// modules cannot be loaded.
Result<> check_tools(const Context& context, const Experiment& experiment, ModuleLoading loading,
                     std::vector<Diagnostic>& problems) {
  const LoadedSpec& loaded = experiment.loaded;
  const auto tools = tools_of(loaded.spec.environment);
  if (tools.empty()) return {};
  if (loading == ModuleLoading::kForbidden && loads_modules_or_eessi(experiment.plan.prologue))
    return {};
  std::string script = "set -eo pipefail\n" + render_submitting_shell_setup(experiment.plan);
  for (const EnvironmentTool& tool : tools)
    script +=
        fmt::format("type -P {0} >/dev/null || echo '{1}{0}'\n", tool.program, kMissingToolPrefix);
  Command command;
  command.argv = {"bash", "-c", std::move(script)};
  command.env = variables_of_tools(context, loaded);
  DLRUN_TRY_ASSIGN(const auto done, run_command(command));
  if (done.exit_code != 0)
    return fail(
        Errc::kInvalid,
        "the modules of the spec (or EESSI) cannot be loaded here, so dlrun cannot look for "
        "the tools of the environments, such as {}: {}",
        tools.front().program, last_lines(done.err));
  for (const EnvironmentTool& tool : tools) {
    const std::string line = fmt::format("{}{}\n", kMissingToolPrefix, tool.program);
    if (done.out.find(line) == std::string::npos) continue;
    problems.push_back(problem_of_key(
        loaded, tool.key,
        fmt::format("the program {0} is not on the PATH here; install it, or load the module that "
                    "brings it (environment.modules.load)",
                    tool.program)));
  }
  return {};
}

/// Adds a problem if sbatch has no option --uenv, which comes from a plugin of Slurm.
void check_uenv_plugin(const Context& context, const Experiment& experiment,
                       std::vector<Diagnostic>& problems) {
  if (experiment.loaded.spec.environment.uenv_images.empty() || experiment.plan.server) return;
  Command command;
  command.argv = {"sbatch", "--help"};
  command.env = scrubbed_for_slurm(context.env, munge_is_available());
  const auto help = run_command(command);
  if (!help || help->exit_code != 0) return;  // the submission itself reports a missing sbatch
  const auto names = parse_long_options(help->out);
  if (std::find(names.begin(), names.end(), "uenv") != names.end()) return;
  problems.push_back(problem_of_key(experiment.loaded, "environment.uenv.images"_key,
                                    "the sbatch here has no option --uenv: this cluster does not "
                                    "have Slurm's uenv plugin"));
}

/// Adds a problem for each missing file of a project, and for a missing EESSI.
void check_project_files(const LoadedSpec& loaded, std::vector<Diagnostic>& problems) {
  const Environment& e = loaded.spec.environment;
  std::error_code error;
  if (e.uv_project && !fs::exists(fs::path(*e.uv_project) / "pyproject.toml", error))
    problems.push_back(problem_of_key(
        loaded, "environment.uv.project"_key,
        fmt::format("{} has no pyproject.toml; `uv init` makes one", printable(*e.uv_project))));
  if (e.pixi_project && !fs::exists(fs::path(*e.pixi_project) / "pixi.toml", error) &&
      !fs::exists(fs::path(*e.pixi_project) / "pyproject.toml", error))
    problems.push_back(
        problem_of_key(loaded, "environment.pixi.project"_key,
                       fmt::format("{} has neither pixi.toml nor pyproject.toml; `pixi init` makes "
                                   "a pixi.toml",
                                   printable(*e.pixi_project))));
  if (e.spack && e.spack->starts_with('/') && !fs::exists(fs::path(*e.spack) / "spack.yaml", error))
    problems.push_back(problem_of_key(loaded, "environment.spack"_key,
                                      fmt::format("{} has no spack.yaml", printable(*e.spack))));
  if (!e.eessi || fs::exists(eessi_script(*e.eessi), error)) return;
  problems.push_back(problem_of_key(
      loaded, "environment.eessi"_key,
      fmt::format("{} does not exist here: this machine does not have CVMFS with EESSI, or EESSI "
                  "has no such version",
                  eessi_script(*e.eessi))));
}

/// Builds the environments of one job, one after the other.
class EnvironmentBuilder {
 public:
  EnvironmentBuilder(const Context& context, Reporter& reporter, const Experiment& experiment,
                     std::chrono::milliseconds limit)
      : context_(context),
        reporter_(reporter),
        limit_(limit),
        loaded_(experiment.loaded),
        plan_(experiment.plan),
        wanted_(experiment.loaded.spec.environment) {}

  Result<> run() {
    if (wanted_.uv_project) DLRUN_TRY(with_place_of("environment.uv.project"_key, build_uv()));
    if (wanted_.pixi_project)
      DLRUN_TRY(with_place_of("environment.pixi.project"_key, build_pixi()));
    if (wanted_.spack) DLRUN_TRY(with_place_of("environment.spack"_key, build_spack()));
    if (!wanted_.uenv_images.empty())
      DLRUN_TRY(with_place_of("environment.uenv.images"_key, pull_uenv()));
    return {};
  }

 private:
  /// Adds the key's place to an error. An interruption needs no place.
  Result<> with_place_of(const char* key, Result<> done) const {
    if (done || done.error().code == Errc::kInterrupted) return done;
    return fail(done.error().code,
                std::vector<Diagnostic>{problem_of_key(loaded_, key, done.error().message)});
  }

  Result<BuildLock> lock(const fs::path& file, std::string_view what) {
    return BuildLock::take(
        file,
        [&] { reporter_.note(fmt::format("waits for another dlrun, which builds {}", what)); },
        [&] { return interrupt_.requested(); });
  }

  /// Loads the modules of the job, then runs shell lines. All output goes to the log.
  Result<> run_lines(const fs::path& log, const std::string& lines) {
    Command command;
    command.argv = {
        "bash", "-c",
        fmt::format("umask 022\nexec >{} 2>&1\nset -eo pipefail\n{}{}\n", shell_quote(log.string()),
                    render_submitting_shell_setup(plan_), lines)};
    command.env = variables_of_tools(context_, loaded_);
    command.timeout = limit_;
    command.is_interrupted = [&] { return interrupt_.requested(); };
    const auto done = run_command(command);
    if (interrupt_.requested())
      return fail(Errc::kInterrupted, "interrupted; nothing was submitted");
    if (!done && done.error().code != Errc::kTimeout) return tl::unexpected(done.error());
    if (done && done->exit_code == 0) return {};
    const std::string reason =
        done ? fmt::format("code {}", done->exit_code)
             : fmt::format("killed at its limit of {}",
                           fine_duration_text(std::chrono::duration<double>(limit_).count()));
    const std::string output_of_bash = done ? done->err : "";
    return fail(Errc::kInvalid, "the environment could not be built ({}): {}; all output: {}",
                reason, last_lines(end_of_log(log).value_or(output_of_bash)),
                printable(log.string()));
  }

  /// Returns the hash of all files and settings that decide what uv installs.
  [[nodiscard]] Result<std::string> uv_hash(const fs::path& project) const {
    Sha256 hash;
    for (const char* name : {"pyproject.toml", "uv.lock", "uv.toml", ".python-version"}) {
      auto text = read_file(project / name, kProjectFileLimitBytes);
      if (!text && text.error().code != Errc::kNotFound) return tl::unexpected(text.error());
      hash.update(fmt::format("{} {}\n", name, text ? sha256_of_text(*text) : "none"));
    }
    const Prologue& prologue = plan_.prologue;
    hash.update(prologue.eessi + "\n" + join(prologue.load_modules, "\n"));
    for (const PlannedVariable& variable : prologue.vars) {
      if (variable.name.starts_with("UV_"))
        hash.update(fmt::format("\n{}={}", variable.name, variable.value));
    }
    return hash.final_hex();
  }

  Result<> build_uv() {
    const fs::path project = *wanted_.uv_project;
    const fs::path folder = environments_folder(project.string());
    DLRUN_TRY(make_environments_folder(folder));
    DLRUN_TRY(make_private_directories(folder / "uv"));
    const EnvironmentVersions versions(folder / "uv");
    const std::string cd = fmt::format("cd -- {}\n", shell_quote(project.string()));
    const fs::path log = folder / "uv.log";
    DLRUN_TRY_ASSIGN(const auto build_lock, lock(folder / "uv.flock", project.string()));
    std::error_code error;
    if (!fs::exists(project / "uv.lock", error)) {
      reporter_.note(fmt::format(
          "`uv lock` writes uv.lock in {}; commit uv.lock to the repository of the project",
          printable(project.string())));
      DLRUN_TRY(run_lines(log, cd + "exec uv lock"));
      if (!fs::exists(project / "uv.lock", error))
        return fail(Errc::kInvalid,
                    "{} is part of a uv workspace, whose uv.lock is elsewhere; give the folder of "
                    "the workspace",
                    printable(project.string()));
    }
    DLRUN_TRY_ASSIGN(const auto hash, uv_hash(project));
    if (versions.is_current(hash)) return {};
    if (const auto known = versions.find(hash)) return versions.make_current(*known);
    if (build_lock.is_exclusive()) versions.remove_unfinished();
    const fs::path version = versions.new_path(hash);
    reporter_.note(fmt::format("uv builds the environment of {}; log: {}",
                               printable(project.string()), printable(log.string())));
    auto built =
        run_lines(log, fmt::format("export UV_PROJECT_ENVIRONMENT={}\n{}exec uv sync --locked",
                                   shell_quote(version.string()), cd));
    if (built && !fs::exists(version / "bin" / "activate", error))
      built = fail(Errc::kInvalid, "uv made no environment in {}; all output: {}",
                   printable(version.string()), printable(log.string()));
    if (built) built = versions.finish_and_make_current(version);
    if (!built) fs::remove_all(version, error);
    return built;
  }

  Result<> build_pixi() {
    const fs::path project = *wanted_.pixi_project;
    const fs::path folder = environments_folder(project.string());
    DLRUN_TRY(make_environments_folder(folder));
    const fs::path log = folder / "pixi.log";
    DLRUN_TRY_ASSIGN(const auto build_lock, lock(folder / "pixi.flock", project.string()));
    reporter_.note(fmt::format("pixi installs the environment of {}; log: {}",
                               printable(project.string()), printable(log.string())));
    return run_lines(log, fmt::format("cd -- {}\n[[ -e pixi.lock ]] || pixi lock\n"
                                      "exec pixi install --locked --environment {}",
                                      shell_quote(project.string()),
                                      shell_quote(plan_.prologue.pixi_environment)));
  }

  /// Creates the folder for the locks and logs of environments that belong to no project, and
  /// returns its path.
  [[nodiscard]] Result<fs::path> make_cache_folder() const {
    fs::path cache = context_.env.get_or("XDG_CACHE_HOME", "");
    if (!cache.is_absolute()) {
      const std::string home = context_.env.get_or("HOME", "");
      if (home.empty())
        return fail(
            Errc::kNotFound,
            "there is no folder for the log of the environment: set HOME or XDG_CACHE_HOME");
      cache = fs::path(home) / ".cache";
    }
    const fs::path folder = cache / "dlrun" / "environments";
    DLRUN_TRY(make_environments_folder(folder, "set XDG_CACHE_HOME to a folder of yours"));
    return folder;
  }

  Result<> build_spack() {
    DLRUN_TRY_ASSIGN(const auto folder, make_cache_folder());
    const std::string id = sha256_of_text(*wanted_.spack).substr(0, 16);
    const fs::path log = folder / fmt::format("spack-{}.log", id);
    DLRUN_TRY_ASSIGN(const auto build_lock,
                     lock(folder / fmt::format("spack-{}.flock", id), *wanted_.spack));
    reporter_.note(fmt::format("spack installs the environment {}; log: {}", *wanted_.spack,
                               printable(log.string())));
    const std::string environment =
        fmt::format("spack {} {}", wanted_.spack->starts_with('/') ? "--env-dir" : "--env",
                    shell_quote(*wanted_.spack));
    return run_lines(log, fmt::format("{0} concretize\nexec {0} install --fail-fast", environment));
  }

  Result<> pull_uenv() {
    DLRUN_TRY_ASSIGN(const auto folder, make_cache_folder());
    const fs::path log = folder / "uenv.log";
    DLRUN_TRY_ASSIGN(const auto build_lock, lock(folder / "uenv.flock", "uenv images"));
    std::string lines;
    for (const std::string& image : wanted_.uenv_images)
      lines += fmt::format("uenv image inspect {0} >/dev/null 2>&1 || uenv image pull {0}\n",
                           shell_quote(image));
    return run_lines(log, lines);
  }

  const Context& context_;
  Reporter& reporter_;
  const std::chrono::milliseconds limit_;
  const LoadedSpec& loaded_;
  const LaunchPlan& plan_;
  const Environment& wanted_;
  const Interrupt interrupt_;
};

}  // namespace

Result<> check_environments(const Context& context, const Experiment& experiment,
                            ModuleLoading loading) {
  std::vector<Diagnostic> problems;
  check_project_files(experiment.loaded, problems);
  // Missing files are reported first, because the modules of a missing EESSI cannot be loaded.
  if (problems.empty()) DLRUN_TRY(check_tools(context, experiment, loading, problems));
  check_uenv_plugin(context, experiment, problems);
  if (!problems.empty()) return fail(Errc::kInvalid, std::move(problems));
  return {};
}

Result<> build_environments(const Context& context, Reporter& reporter,
                            const Experiment& experiment, std::chrono::milliseconds limit) {
  if (tools_of(experiment.loaded.spec.environment).empty()) return {};
  return EnvironmentBuilder(context, reporter, experiment, limit).run();
}

}  // namespace dlrun
