#include "launcher/submit/missing_requirements.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/subprocess.h"
#include "common/text.h"
#include "container/container.h"
#include "launcher/executors/scrub.h"
#include "launcher/plan/render.h"
#include "launcher/spec/key_name.h"

namespace dlrun {
namespace {

constexpr std::chrono::seconds kToolTimeLimit{30};

/// Returns the first key in `keys` that the spec or the site sets. If they set none, returns the
/// last key in `keys`.
std::string first_given(const LoadedSpec& loaded, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    if (loaded.spec.origins.contains(key)) return key;
  }
  return keys.back();
}

class RequirementCheck {
 public:
  RequirementCheck(const Context& context, const Experiment& experiment)
      : context_(context), loaded_(experiment.loaded), plan_(experiment.plan) {}

  [[nodiscard]] std::vector<Diagnostic> run() && {
    check_module_command();
    check_conda();
    check_container_tool();
    check_pyxis();
    check_program();
    return std::move(warnings_);
  }

 private:
  void warn(const std::string& key, std::string_view message) {
    const auto origin = loaded_.spec.origins.find(key);
    const Origin where = origin != loaded_.spec.origins.end()
                             ? origin->second
                             : Origin{Origin::Kind::kFile, loaded_.file, 0, 0};
    Diagnostic one{Diagnostic::Severity::kWarning, where, fmt::format("{}: {}", key, message),
                   source_line_of(loaded_, where)};
    one.key = key;
    warnings_.push_back(std::move(one));
  }

  /// Runs shell lines in the submitter's environment without the secrets of the job.
  [[nodiscard]] std::optional<FinishedCommand> run_bash(std::string lines) const {
    Command command;
    command.argv = {"bash", "-c", std::move(lines)};
    command.env = context_.env;
    for (const SecretSource& secret : loaded_.spec.environment.secrets)
      command.env.unset(secret.name);
    command.timeout = kToolTimeLimit;
    auto done = run_command(command);
    return done ? std::optional(std::move(*done)) : std::nullopt;
  }

  /// Warns if the job loads modules and this machine does not have the command `module`.
  void check_module_command() {
    const std::string lines = render_module_init(plan_);
    if (lines.empty()) return;
    const auto done = run_bash(lines + "type module >/dev/null 2>&1\n");
    if (!done || done->exit_code == 0) return;
    lacks_module_command_ = true;
    warn(first_given(loaded_, {"environment.modules.load"_key, "environment.modules.use"_key,
                               "environment.modules.purge"_key, "environment.conda.module"_key}),
         "the command `module` is not set up here; the job needs it on its first node. If it is "
         "elsewhere on this cluster, set module_init in the site's file. If the job needs no "
         "modules, remove this key");
  }

  /// Returns true if the job's modules, EESSI or setup lines may bring programs. dlrun does not run
  /// them here, because somebody else may have written the spec.
  [[nodiscard]] bool may_bring_programs() const {
    const Prologue& prologue = plan_.prologue;
    return !prologue.load_modules.empty() || !prologue.conda_module.empty() ||
           !prologue.eessi.empty() || !prologue.setup.empty();
  }

  void check_conda() {
    const bool loads_nothing =
        lacks_module_command_ && plan_.prologue.eessi.empty() && plan_.prologue.setup.empty();
    if (plan_.prologue.conda_name.empty() || (may_bring_programs() && !loads_nothing)) return;
    const auto done = run_bash(render_conda_search(plan_) + "[[ -x $dlrun_conda ]]\n");
    if (!done || done->exit_code == 0) return;
    warn(
        "environment.conda.name"_key,
        fmt::format("no conda is found here: neither on the PATH, nor in $CONDA_EXE, nor in a "
                    "usual folder of the home directory. {}",
                    lacks_module_command_
                        ? "One of the job's modules must bring it"
                        : "Set environment.conda.module to the module that brings conda, or remove "
                          "this key if the job needs no conda"));
  }

  void check_container_tool() {
    const auto* backend = find_container_backend(plan_.runtime);
    if (backend == nullptr || may_bring_programs()) return;
    const auto versions = backend->version_commands();
    if (versions.empty() || find_program(versions.front().program, context_.env)) return;
    warn(
        first_given(loaded_, {"container.runtime"_key, "container.image"_key}),
        fmt::format("the program {} is not on the PATH here. If a module brings it, add the module "
                    "to environment.modules.load; if only the nodes have it, ignore this warning",
                    versions.front().program));
  }

  /// Warns if srun here has no option of pyxis. The nodes' srun reads the same plugstack.conf on
  /// most clusters.
  void check_pyxis() {
    if (plan_.runtime != "pyxis" || plan_.server || plan_.clusters) return;
    Command command;
    command.argv = {"srun", "--help"};
    command.env = scrubbed_for_slurm(context_.env, munge_is_available());
    command.timeout = kToolTimeLimit;
    if (!find_program("srun", command.env)) return;
    const auto help = run_command(command);
    if (!help || help->exit_code != 0 ||
        (help->out + help->err).find("--container-image") != std::string::npos)
      return;
    warn(first_given(loaded_, {"container.runtime"_key, "container.image"_key}),
         "the srun here has no --container-image: this cluster does not have Slurm's pyxis plugin. "
         "Set container.runtime to a tool that `dlrun doctor` finds");
  }

  /// Warns if the ranks' program is given without a path and is not on the PATH here. Does nothing
  /// if the spec may bring programs, or on a machine without Slurm, which need not be like the
  /// nodes.
  void check_program() {
    const Prologue& p = plan_.prologue;
    const bool has_environment = !p.conda_name.empty() || !p.venv.empty() ||
                                 !p.uv_project.empty() || !p.pixi_project.empty() ||
                                 !p.spack.empty() || !p.setup_node.empty() || sets_path();
    if (plan_.runtime != "none" || has_environment || may_bring_programs() || plan_.server ||
        plan_.clusters || plan_.program_is_bundled)
      return;
    const auto argv = plan_.program_argv();
    if (argv.empty() || argv[0].empty() || argv[0].find('/') != std::string::npos ||
        find_program(argv[0], context_.env) || !find_program("sbatch", context_.env))
      return;
    const bool is_python = argv[0] == "python" && find_program("python3", context_.env);
    warn(first_given(loaded_, {"launch.command"_key, "launch.preset"_key}),
         fmt::format("the program '{}' is not on the PATH here{}. If a module or an environment "
                     "brings the program, add that module or environment to the spec; if only the "
                     "nodes have the program, ignore this warning",
                     printable(argv[0]), is_python ? "; python3 is" : ""));
  }

  /// Returns true if the spec or the site sets PATH for the job.
  [[nodiscard]] bool sets_path() const {
    const auto& vars = plan_.prologue.vars;
    return std::any_of(vars.begin(), vars.end(),
                       [](const PlannedVariable& one) { return one.name == "PATH"; });
  }

  const Context& context_;
  const LoadedSpec& loaded_;
  const LaunchPlan& plan_;
  std::vector<Diagnostic> warnings_;
  bool lacks_module_command_ = false;  ///< the job loads modules, and `module` is not set up here
};

}  // namespace

std::vector<Diagnostic> warnings_about_missing_requirements(const Context& context,
                                                            const Experiment& experiment) {
  return RequirementCheck(context, experiment).run();
}

}  // namespace dlrun
