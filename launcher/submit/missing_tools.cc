#include "launcher/submit/missing_tools.h"

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

/// Returns the first of the keys that the spec or the site sets, else the last one.
std::string first_given(const LoadedSpec& loaded, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    if (loaded.spec.origins.contains(key)) return key;
  }
  return keys.back();
}

class ToolCheck {
 public:
  ToolCheck(const Context& context, const Experiment& experiment)
      : context_(context), loaded_(experiment.loaded), plan_(experiment.plan) {}

  [[nodiscard]] std::vector<Diagnostic> run() && {
    check_module_command();
    check_conda();
    check_container_tool();
    check_pyxis();
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
    warn(first_given(loaded_, {"environment.modules.load"_key, "environment.modules.use"_key,
                               "environment.modules.purge"_key, "environment.conda.module"_key}),
         "the command `module` is not set up here; the job needs it on its first node. If it is "
         "elsewhere on this cluster, set module_init in the site's file");
  }

  /// Returns true if the job's modules, EESSI or setup lines may bring programs. dlrun does not run
  /// them here: they can be those of a spec that somebody else wrote.
  [[nodiscard]] bool may_bring_programs() const {
    const Prologue& prologue = plan_.prologue;
    return !prologue.load_modules.empty() || !prologue.conda_module.empty() ||
           !prologue.eessi.empty() || !prologue.setup.empty();
  }

  void check_conda() {
    if (plan_.prologue.conda_name.empty() || may_bring_programs()) return;
    const auto done = run_bash(render_conda_search(plan_) + "[[ -x $dlrun_conda ]]\n");
    if (!done || done->exit_code == 0) return;
    warn("environment.conda.name"_key,
         "no conda is found here: neither on the PATH, nor in $CONDA_EXE, nor in a usual folder of "
         "the home directory. Set environment.conda.module to the module that brings conda");
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

  const Context& context_;
  const LoadedSpec& loaded_;
  const LaunchPlan& plan_;
  std::vector<Diagnostic> warnings_;
};

}  // namespace

std::vector<Diagnostic> warnings_about_missing_tools(const Context& context,
                                                     const Experiment& experiment) {
  return ToolCheck(context, experiment).run();
}

}  // namespace dlrun
