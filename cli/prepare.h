#pragma once
// Turns the words of the command line into a launch plan. submit, render, check, interactive and
// run share this code.

#include <optional>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "launcher/plan/plan.h"
#include "launcher/runs/carried_spec.h"
#include "launcher/spec/known_servers.h"

namespace dlrun {

class Subcommand;

struct SpecOptions {
  std::string file;
  std::vector<std::string> sets;
  std::optional<std::string> runs;
};

/// Adds --set to the command.
void add_set_option(Subcommand& command, SpecOptions& options);
/// Adds SPEC ("-" is standard input), --set and --runs to the command.
void add_spec_options(Subcommand& command, SpecOptions& options);

/// Builds the request for load_spec() from the command line. Reads standard input if the spec
/// is "-".
[[nodiscard]] Result<LoadRequest> load_request(const Cli& cli, const SpecOptions& options);

struct Prepared {
  LoadedSpec loaded;
  LaunchPlan plan;  ///< for a sweep, the plan of its first point
  LoadRequest request;
  PlanInputs inputs;
  [[nodiscard]] bool is_sweep() const { return loaded.spec.sweep.is_given(); }
};

/// Loads the spec and makes the plan. Fails with an empty message after printing all problems.
[[nodiscard]] Result<Prepared> prepare(const Cli& cli, const SpecOptions& options, Target target);

/// Plans a resolved spec again, with the same origins of its values. Ignores this shell's
/// environment. file: the name in diagnostics; its folder is the spec's folder.
[[nodiscard]] Result<Prepared> prepare_again(const Cli& cli, const std::string& file,
                                             std::string resolved_yaml, const PlanInputs& inputs);

/// Plans the spec that a rendered script carries, as it was before anybody edited the script.
[[nodiscard]] Result<Prepared> prepare_carried(const Cli& cli, const CarriedSpec& carried);

/// Returns warnings about files, mounts and the image, as seen from this machine: missing for the
/// job, or not what they seem to be.
[[nodiscard]] std::vector<Diagnostic> preflight(const Cli& cli, const LoadedSpec& loaded);

/// Copies the agent and the trainer next to the runs if they are missing there.
[[nodiscard]] Result<> stage(const Cli& cli, const std::string& runs_dir);

/// Returns the slurmrestds that the user's and the site's configuration name. dlrun contacts
/// no others.
[[nodiscard]] KnownServers known_servers(const Cli& cli);

/// Returns the folders that may hold sites/ and presets/: the user's, then share/dlrun of the
/// installation, found from the binary's place so that the installation can be moved.
[[nodiscard]] std::vector<std::filesystem::path> config_folders(const Cli& cli);

/// Returns the site of jobs without a spec: $DLRUN_SITE, else the site of `clusters` (Slurm's -M;
/// this cluster if empty), else "generic".
[[nodiscard]] std::string site_here(const Cli& cli, const std::string& clusters = "");

/// Returns the runs folder of jobs without a spec: the option, else $DLRUN_RUNS, else that of
/// site_here(), else ./runs. Fails with kNotFound if there is no such site.
[[nodiscard]] Result<std::string> runs_directory_here(const Cli& cli,
                                                      const std::optional<std::string>& option,
                                                      const std::string& clusters = "");

/// Returns the absolute folder from which the spec's relative paths start.
[[nodiscard]] std::filesystem::path folder_of(const Cli& cli, const std::string& file);

}  // namespace dlrun
