#pragma once
// From the words on the command line to a decided plan; what submit, render, check, interactive and
// run share.

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

/// Adds --set.
void add_set_option(Subcommand& command, SpecOptions& options);
/// Adds SPEC (- is standard input), --set and --runs.
void add_spec_options(Subcommand& command, SpecOptions& options);

/// What load_spec is to do with the words of the command line. Reads standard input where the spec
/// is '-'.
[[nodiscard]] Result<LoadRequest> load_request(const Cli& cli, const SpecOptions& options);

struct Prepared {
  LoadedSpec loaded;
  LaunchPlan plan;  ///< of a sweep: its first point's
  LoadRequest request;
  PlanInputs inputs;
  [[nodiscard]] bool is_sweep() const { return loaded.spec.sweep.is_given(); }
};

/// Loads and plans. Everything that is wrong has been printed when this fails (with an empty
/// message).
[[nodiscard]] Result<Prepared> prepare(const Cli& cli, const SpecOptions& options, Target target);

/// What a resolved spec was planned to, with the same places; nothing of this shell's environment
/// counts. file: what diagnostics call it; its folder is the spec's.
[[nodiscard]] Result<Prepared> prepare_again(const Cli& cli, const std::string& file,
                                             std::string resolved_yaml, const PlanInputs& inputs);

/// What a rendered script was planned as, before anybody edited it.
[[nodiscard]] Result<Prepared> prepare_carried(const Cli& cli, const CarriedSpec& carried);

/// What on this machine will not be there for the job, or is not what it seems: files, mounts, the
/// image. Warnings.
[[nodiscard]] std::vector<Diagnostic> preflight(const Cli& cli, const LoadedSpec& loaded);

/// Copies the agent and the trainer beside the runs where they are missing.
[[nodiscard]] Result<> stage(const Cli& cli, const std::string& runs_dir);

/// The slurmrestds of the user's and the site's configuration: the only ones that are asked.
[[nodiscard]] KnownServers known_servers(const Cli& cli);

/// Where sites/ and presets/ are looked for: the user's folders, then an installed tree's, wherever
/// it was moved to.
[[nodiscard]] std::vector<std::filesystem::path> config_folders(const Cli& cli);

/// The folder that relative paths of the spec start at; absolute.
[[nodiscard]] std::filesystem::path folder_of(const Cli& cli, const std::string& file);

}  // namespace dlrun
