#pragma once
// One node of a document into one member of the spec, by the member's type. Private to the loading
// of specs.

#include <array>
#include <string_view>

#include "launcher/spec/spec_builder.h"

namespace dlrun {

/// Variables that bash computes, or lets nobody set: a job's script cannot export a value of them.
inline constexpr std::array<std::string_view, 27> kVariablesOfBash{
    "UID",           "EUID",        "PPID",         "BASHOPTS",    "SHELLOPTS",
    "BASH_VERSINFO", "BASHPID",     "GROUPS",       "_",           "FUNCNAME",
    "DIRSTACK",      "RANDOM",      "SRANDOM",      "LINENO",      "EPOCHSECONDS",
    "EPOCHREALTIME", "HISTCMD",     "BASH_COMMAND", "BASH_LINENO", "BASH_SOURCE",
    "BASH_ARGC",     "BASH_ARGV",   "BASH_ALIASES", "BASH_CMDS",   "PIPESTATUS",
    "SHLVL",         "BASH_REMATCH"};

/// What names of Slurm's go on with, behind SLURM_, by which srun and the job's ranks know what
/// they are part of.
inline constexpr std::array<std::string_view, 15> kVariablesOfJob{
    "ARRAY_", "GTIDS",  "HET_",   "JOB",   "LAUNCH_", "LOCALID", "NNODES", "NODE",
    "NPROCS", "NTASKS", "PROCID", "SRUN_", "STEP",    "SUBMIT_", "TASK"};

/// row's member from node; what is wrong goes to builder.
void set_value(SpecBuilder& builder, const YamlDocument& document, const SpecSource& source,
               const KeyRow& row, const YamlNode& node);

/// One entry of a free map (environment.vars, slurm, launch.srun), as --set gives it.
void set_free_entry(SpecBuilder& builder, const YamlDocument& document, const SpecSource& source,
                    const KeyRow& row, const YamlNode& node, std::string_view name);

/// Names that cannot stand in a free map of options (slurm, launch.srun): those with a key of their
/// own, and dlrun's.
[[nodiscard]] std::vector<std::string_view> refused_option_names(const KeyRow& row);

/// "a list", "a map", ...
[[nodiscard]] std::string_view kind_name(const YamlNode& node);

}  // namespace dlrun
