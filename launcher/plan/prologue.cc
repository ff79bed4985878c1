// Renders the batch shell's work before the step: modules, conda, venv, variables, and the lines of
// environment.setup.

#include "common/quoting.h"
#include "launcher/plan/render.h"
#include "launcher/plan/script_text.h"
#include "launcher/spec/key_name.h"

namespace dlrun {
namespace {

/// Renders the definition of the shell function `module`. A batch shell may lack this function,
/// because only some login shells export it.
void module_init(ScriptText& text, const Prologue& prologue) {
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

void modules(ScriptText& text, const Prologue& prologue) {
  const bool has_modules =
      prologue.purge_modules || !prologue.use_modules.empty() || !prologue.load_modules.empty();
  if (!has_modules && prologue.conda_module.empty()) return;
  module_init(text, prologue);
  if (prologue.purge_modules) text.line("module purge", "environment.modules.purge"_key);
  for (const std::string& path : prologue.use_modules)
    text.line("module use " + shell_quote(path), "environment.modules.use"_key);
  for (const std::string& name : prologue.load_modules)
    text.line("module load " + shell_quote(name), "environment.modules.load"_key);
  if (!prologue.conda_module.empty())
    text.line("module load " + shell_quote(prologue.conda_module), "environment.conda.module"_key);
}

/// Renders the activation of the conda environment. Only conda's hook defines the shell function
/// for `conda activate` in a shell that is not interactive.
void conda(ScriptText& text, const Prologue& prologue) {
  if (prologue.conda_name.empty()) return;
  text.line("dlrun_conda=$(type -P conda || true)");
  text.line(
      "for dlrun_conda in \"$dlrun_conda\" \"${CONDA_EXE:-}\" "
      "~/{miniforge3,miniconda3,mambaforge,anaconda3}/bin/conda /opt/conda/bin/conda; do");
  text.line("  if [[ -x $dlrun_conda ]]; then break; fi");
  text.line("done");
  text.line("dlrun_hook=$(\"$dlrun_conda\" shell.bash hook)");
  text.line("eval \"$dlrun_hook\"");
  text.line("conda activate " + shell_quote(prologue.conda_name), "environment.conda");
}

/// Renders lines that set NVIDIA_DRIVER_CAPABILITIES unless the image sets it. NVIDIA's hook would
/// prefer the job's value to that of the image.
void driver_parts(ScriptText& text, const Prologue& prologue) {
  if (!prologue.image_of_gpus) return;
  const std::string& image = *prologue.image_of_gpus;
  if (!image.starts_with('/')) {  // the image's variables cannot be read before it is fetched
    text.line("export NVIDIA_DRIVER_CAPABILITIES=all", "container: GPUs");
    return;
  }
  text.line(
      "# container: GPUs. The parts of NVIDIA's driver that the image asks for; else those that "
      "CUDA needs.");
  text.line("dlrun_words=$(mktemp -d)");
  text.line("unsquashfs -no-progress -dest \"$dlrun_words/image\" " + shell_quote(image) +
            " etc/environment >/dev/null 2>&1 || true");
  text.line(
      "if ! grep -qs ^NVIDIA_DRIVER_CAPABILITIES= \"$dlrun_words/image/etc/environment\"; then");
  text.line("  export NVIDIA_DRIVER_CAPABILITIES=compute,utility");
  text.line("fi");
  text.line("rm -rf \"$dlrun_words\"");
}

}  // namespace

std::string render_prologue(const LaunchPlan& plan) {
  const Prologue& prologue = plan.prologue;
  ScriptText text;
  modules(text, prologue);
  conda(text, prologue);
  if (!prologue.venv.empty())
    text.line(". " + shell_quote(prologue.venv + "/bin/activate"), "environment.venv"_key);
  for (const PlannedVariable& variable : prologue.vars) {
    text.line("export " + variable.name + "=" + shell_quote(variable.value), variable.key);
  }
  driver_parts(text, prologue);
  for (const Prologue::Folder& folder : prologue.made_folders)
    text.line("mkdir -p -- " + shell_quote(folder.path), folder.key);
  if (!prologue.setup.empty()) {
    text.line("# environment.setup");
    const bool ends_line = prologue.setup.back() == '\n';
    text.line(ends_line ? std::string_view(prologue.setup).substr(0, prologue.setup.size() - 1)
                        : prologue.setup);
  }
  return text.take();
}

}  // namespace dlrun
