// Reads the long options of sbatch, srun or salloc from the program's --help. If the help does not
// list an option, dlrun calls the program with the option before it reports the option as unknown.

#include "launcher/submit/slurm_options.h"

#include <algorithm>
#include <chrono>
#include <string_view>

#include <fmt/format.h>

#include "common/subprocess.h"
#include "common/text.h"
#include "launcher/doctor/cluster_facts.h"
#include "launcher/executors/scrub.h"
#include "launcher/executors/slurm_parse.h"
#include "launcher/spec/key_name.h"

namespace dlrun {
namespace {

[[nodiscard]] Result<FinishedCommand> ask(const Env& env, std::vector<std::string> argv) {
  Command command;
  command.argv = std::move(argv);
  command.env = env;
  command.timeout = std::chrono::seconds(10);
  return run_command(command);
}

[[nodiscard]] Origin origin_of(const LoadedSpec& loaded, const std::string& path) {
  const auto origin = loaded.spec.origins.find(path);
  return origin != loaded.spec.origins.end() ? origin->second : Origin{};
}

/// Adds a problem for each option that the program does not know. Does nothing if the program is
/// not installed or prints no list of options. key: the key of the spec that gives the options.
void check_options_of_program(const LoadedSpec& loaded, const Env& env, const std::string& program,
                              std::string_view key, const std::vector<SlurmOption>& options,
                              Diagnostic::Severity severity, std::vector<Diagnostic>& found) {
  if (options.empty() || !find_program(program, env)) return;
  const auto help = ask(env, {program, "--help"});
  if (!help || help->exit_code != 0) return;
  const std::vector<std::string> names = parse_long_options(help->out);
  if (names.empty()) return;
  for (const SlurmOption& option : options) {
    if (std::find(names.begin(), names.end(), option.name) != names.end()) continue;
    // The help does not list everything that the program accepts, such as abbreviations and old
    // options. Only its own error message counts.
    const auto answer = ask(env, {program,
                                  option.value ? fmt::format("--{}={}", option.name, *option.value)
                                               : "--" + option.name,
                                  "--help"});
    const bool is_unknown = answer && answer->exit_code != 0 &&
                            answer->err.find("unrecognized option") != std::string::npos;
    if (!is_unknown) continue;
    const std::string path = fmt::format("{}.{}", key, option.name);
    const Origin where = origin_of(loaded, path);
    const auto similar =
        nearest(option.name, std::vector<std::string_view>(names.begin(), names.end()));
    found.push_back(
        {severity, where,
         fmt::format("{}: the {} here has no option --{}{}", path, program, printable(option.name),
                     similar ? fmt::format("; did you mean '{}'?", *similar) : ""),
         source_line_of(loaded, where)});
  }
}

/// Warns of an MPI plugin that the local srun does not list. The nodes' srun may have other
/// plugins. Skips jobs for another cluster, because the local srun does not know its plugins.
void check_mpi(const LoadedSpec& loaded, const Env& env, std::vector<Diagnostic>& found) {
  const std::string mpi = loaded.spec.launch.mpi.value_or("");
  if (mpi.empty() || mpi == "none" || loaded.spec.resources.clusters || !find_program("srun", env))
    return;
  const auto answer = ask(env, {"srun", "--mpi=list"});
  if (!answer || answer->exit_code != 0) return;
  ClusterFacts facts;
  add_mpi_plugins(facts, answer->out + answer->err);
  const auto has = [&](const std::vector<std::string>& names) {
    return std::find(names.begin(), names.end(), mpi) != names.end();
  };
  if (facts.mpi_plugins.empty() || has(facts.mpi_plugins) || has(facts.pmix_versions)) return;
  const Origin where = origin_of(loaded, "launch.mpi"_key);
  found.push_back({Diagnostic::Severity::kWarning, where,
                   fmt::format("launch.mpi: the srun here has no MPI plugin '{}'; it has {}",
                               printable(mpi), printable(join(facts.mpi_plugins, ", "))),
                   source_line_of(loaded, where)});
}

}  // namespace

Result<> check_slurm_options(const Context& context, Reporter& reporter, const LoadedSpec& loaded) {
  std::vector<Diagnostic> found;
  Env env = scrubbed_for_slurm(context.env, munge_is_available());
  env.set("LC_ALL", "C");  // the messages are parsed
  std::vector<SlurmOption> of_sbatch = loaded.spec.slurm;
  std::erase_if(of_sbatch, [](const SlurmOption& option) { return option.name == "chdir"; });
  using Severity = Diagnostic::Severity;
  if (loaded.spec.submit.via != "slurmrestd")
    check_options_of_program(loaded, env, "sbatch", "slurm", of_sbatch, Severity::kError, found);
  const bool is_refused = !found.empty();
  // The job runs the nodes' srun, which may have plugins that this machine lacks.
  check_options_of_program(loaded, env, "srun", "launch.srun"_key, loaded.spec.launch.srun,
                           Severity::kWarning, found);
  check_mpi(loaded, env, found);
  if (is_refused) return fail(Errc::kInvalid, std::move(found));
  reporter.diagnostics(found);
  return {};
}

Result<> check_salloc_options(const Context& context, const LoadedSpec& loaded,
                              const std::vector<std::string>& arguments) {
  constexpr std::string_view kNoShell = "no-shell";
  constexpr std::size_t kShortest = 4;  // "no-s", the shortest abbreviation that getopt accepts
  std::vector<Diagnostic> found;
  Env env = scrubbed_for_slurm(context.env, munge_is_available());
  env.set("LC_ALL", "C");
  std::vector<SlurmOption> passed;
  for (const SlurmOption& option : loaded.spec.slurm) {
    if (option.name.size() >= kShortest && kNoShell.starts_with(option.name)) {
      const std::string path = "slurm." + option.name;
      const Origin where = origin_of(loaded, path);
      found.push_back({Diagnostic::Severity::kError, where,
                       path + ": salloc would keep the allocation and start no session in it; "
                              "leave the option out",
                       source_line_of(loaded, where)});
      continue;
    }
    const bool is_passed =
        std::any_of(arguments.begin(), arguments.end(), [&](std::string_view argument) {
          return argument == "--" + option.name || argument.starts_with("--" + option.name + "=");
        });
    if (is_passed && option.name != "chdir") passed.push_back(option);
  }
  check_options_of_program(loaded, env, "salloc", "slurm", passed, Diagnostic::Severity::kError,
                           found);
  if (!found.empty()) return fail(Errc::kInvalid, std::move(found));
  return {};
}

}  // namespace dlrun
