// Renders the batch shell's work before the step: modules, environments (conda, uv, EESSI, ...),
// variables, folders, and the lines of environment.setup.

#include "common/quoting.h"
#include "launcher/plan/render.h"
#include "launcher/plan/script_text.h"
#include "launcher/spec/key_name.h"

namespace dlrun {
namespace {

/// Adds the definition of the shell function `module`. A batch shell may lack this function,
/// because only some login shells export it.
void add_module_init(ScriptText& text, const Prologue& prologue) {
  if (!prologue.module_init.empty()) {
    text.line(". " + shell_quote(prologue.module_init), "site: module_init");
    return;
  }
  text.line("if ! type module >/dev/null 2>&1; then");
  text.line(
      "  for dlrun_init in \"${LMOD_PKG:-/usr/share/lmod/lmod}/init/bash\" "
      "\"${MODULESHOME:-/usr/share/modules}/init/bash\" \\");
  text.line(
      "    /usr/share/Modules/init/bash /etc/profile.d/lmod.sh /etc/profile.d/modules.sh; do");
  text.line("    if [[ -r $dlrun_init ]]; then . \"$dlrun_init\" && break; fi");
  text.line("  done");
  text.line("fi");
}

bool needs_module_function(const Prologue& prologue) {
  return prologue.purge_modules || !prologue.use_modules.empty() ||
         !prologue.load_modules.empty() || !prologue.conda_module.empty();
}

void add_modules(ScriptText& text, const Prologue& prologue) {
  if (!needs_module_function(prologue)) return;
  add_module_init(text, prologue);
  if (prologue.purge_modules) text.line("module purge", "environment.modules.purge"_key);
  for (const std::string& path : prologue.use_modules)
    text.line("module use " + shell_quote(path), "environment.modules.use"_key);
  for (const std::string& name : prologue.load_modules)
    text.line("module load " + shell_quote(name), "environment.modules.load"_key);
  if (!prologue.conda_module.empty())
    text.line("module load " + shell_quote(prologue.conda_module), "environment.conda.module"_key);
}

/// Adds lines that set dlrun_conda to the program conda. If no conda is found, dlrun_conda is
/// a path at which no file can be executed.
void add_conda_search(ScriptText& text) {
  text.line("dlrun_conda=$(type -P conda || true)");
  text.line(
      "for dlrun_conda in \"$dlrun_conda\" \"${CONDA_EXE:-}\" "
      "~/{miniforge3,miniconda3,mambaforge,anaconda3}/bin/conda /opt/conda/bin/conda; do");
  text.line("  if [[ -x $dlrun_conda ]]; then break; fi");
  text.line("done");
}

/// Adds the activation of the conda environment. Only conda's hook defines the shell function
/// for `conda activate` in a shell that is not interactive.
void add_conda(ScriptText& text, const Prologue& prologue) {
  if (prologue.conda_name.empty()) return;
  add_conda_search(text);
  text.line("if [[ ! -x $dlrun_conda ]]; then");
  text.line(fmt::format(
      "  echo \"dlrun: $(uname -n) has no conda on the PATH, in \\$CONDA_EXE or in a usual folder; "
      "{}\" >&2",
      prologue.conda_module.empty()
          ? "name its module in environment.conda.module"
          : "the module of environment.conda.module does not provide it"));
  text.line("  false");
  text.line("fi");
  text.line("dlrun_hook=$(\"$dlrun_conda\" shell.bash hook)");
  text.line("eval \"$dlrun_hook\"");
  text.line("conda activate " + shell_quote(prologue.conda_name), "environment.conda");
}

/// Adds lines that execute the shell code that a tool prints. A failure of the tool ends the
/// script.
void add_eval_of_output(ScriptText& text, std::string_view command, std::string_view key) {
  text.line(fmt::format("dlrun_hook=$({})", command), key);
  text.line("eval \"$dlrun_hook\"");
}

void add_spack(ScriptText& text, const Prologue& prologue) {
  if (prologue.spack.empty()) return;
  const bool is_folder = prologue.spack.starts_with('/');
  add_eval_of_output(text,
                     fmt::format("spack env activate --sh {}{}", is_folder ? "--dir " : "",
                                 shell_quote(prologue.spack)),
                     "environment.spack"_key);
}

/// Adds the activation of the uv environment that a submission has built. The script follows the
/// link once, so that a later submission cannot exchange the environment of a running job. The
/// environment's bin/activate must belong to the user, because the script executes it.
void add_uv(ScriptText& text, const Prologue& prologue) {
  if (prologue.uv_project.empty()) return;
  text.line("dlrun_link=" + shell_quote(uv_link(prologue.uv_project)),
            "environment.uv.project"_key);
  text.line("dlrun_venv=$(readlink -e -- \"$dlrun_link\" || true)");
  text.line("if [[ ! -O $dlrun_venv/bin/activate ]]; then");
  text.line(
      "  echo \"dlrun: $(uname -n) finds no environment of $(id -un) at $dlrun_link; 'dlrun "
      "submit' builds it\" >&2");
  text.line("  false");
  text.line("fi");
  text.line(". \"$dlrun_venv/bin/activate\"");
  text.line("export UV_PROJECT_ENVIRONMENT=$dlrun_venv UV_NO_SYNC=1", "for `uv run` in the job");
}

void add_pixi(ScriptText& text, const Prologue& prologue) {
  if (prologue.pixi_project.empty()) return;
  add_eval_of_output(
      text,
      fmt::format("cd -- {} && pixi shell-hook --frozen --no-install --shell bash "
                  "--environment {}",
                  shell_quote(prologue.pixi_project), shell_quote(prologue.pixi_environment)),
      "environment.pixi");
  text.line("export PIXI_FROZEN=true", "for `pixi run` in the job");
}

/// Adds the start of EESSI. EESSI provides modules, so it starts before modules are loaded.
void add_eessi(ScriptText& text, const Prologue& prologue) {
  if (prologue.eessi.empty()) return;
  text.line(". " + shell_quote(eessi_script(prologue.eessi)), "environment.eessi"_key);
}

/// Adds lines that set NVIDIA_DRIVER_CAPABILITIES. NVIDIA's hook prefers the job's value to the
/// image's value, so the lines set no value if the image sets one. An image in a registry cannot be
/// examined; the lines then set the variable to `all`. Adds nothing if
/// driver_capabilities_image is not set.
void add_driver_capabilities(ScriptText& text, const Prologue& prologue) {
  if (!prologue.driver_capabilities_image) return;
  const std::string& image = *prologue.driver_capabilities_image;
  if (!image.starts_with('/')) {  // the image's variables cannot be read before it is fetched
    text.line("export NVIDIA_DRIVER_CAPABILITIES=all", "container: GPUs");
    return;
  }
  text.line(
      "# container: GPUs. The parts of NVIDIA's driver that the image asks for; else those that "
      "CUDA needs.");
  text.line("dlrun_image_files=$(mktemp -d)");
  text.line("unsquashfs -no-progress -dest \"$dlrun_image_files/image\" " + shell_quote(image) +
            " etc/environment >/dev/null 2>&1 || true");
  text.line(
      "if ! grep -qs ^NVIDIA_DRIVER_CAPABILITIES= \"$dlrun_image_files/image/etc/environment\"; "
      "then");
  text.line("  export NVIDIA_DRIVER_CAPABILITIES=compute,utility");
  text.line("fi");
  text.line("rm -rf \"$dlrun_image_files\"");
}

}  // namespace

std::string render_module_init(const LaunchPlan& plan) {
  ScriptText text;
  if (needs_module_function(plan.prologue)) add_module_init(text, plan.prologue);
  return text.take();
}

std::string render_conda_search(const LaunchPlan& plan) {
  ScriptText text;
  if (!plan.prologue.conda_name.empty()) add_conda_search(text);
  return text.take();
}

std::string render_submitting_shell_setup(const LaunchPlan& plan) {
  ScriptText text;
  add_eessi(text, plan.prologue);
  add_modules(text, plan.prologue);
  for (const PlannedVariable& variable : plan.prologue.vars) {
    if (variable.origin_kind == Origin::Kind::kFile || variable.origin_kind == Origin::Kind::kSite)
      text.line("export " + variable.name + "=" + shell_quote(variable.value));
  }
  return text.take();
}

std::string render_prologue(const LaunchPlan& plan) {
  const Prologue& prologue = plan.prologue;
  ScriptText text;
  add_eessi(text, prologue);
  add_modules(text, prologue);
  add_spack(text, prologue);
  add_conda(text, prologue);
  if (!prologue.venv.empty())
    text.line(". " + shell_quote(prologue.venv + "/bin/activate"), "environment.venv"_key);
  add_uv(text, prologue);
  add_pixi(text, prologue);
  for (const PlannedVariable& variable : prologue.vars) {
    text.line("export " + variable.name + "=" + shell_quote(variable.value), variable.comment);
  }
  add_driver_capabilities(text, prologue);
  for (const Prologue::Folder& folder : prologue.folders_to_make)
    text.line("mkdir -p -- " + shell_quote(folder.path), folder.comment);
  if (!prologue.setup.empty()) {
    text.line("# environment.setup");
    const bool ends_line = prologue.setup.back() == '\n';
    text.line(ends_line ? std::string_view(prologue.setup).substr(0, prologue.setup.size() - 1)
                        : prologue.setup);
  }
  return text.take();
}

}  // namespace dlrun
