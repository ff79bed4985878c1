#pragma once
// Sets one member of the spec from one node of a document, by the member's type (value_type.h).
// Also lists the variables that a spec must not set. Private to the loading of specs.

#include <array>
#include <string_view>

#include "launcher/spec/spec_builder.h"

namespace dlrun {

/// Variables that bash computes or makes read-only, so that a job's script cannot export them.
inline constexpr std::array<std::string_view, 27> kVariablesOfBash{
    "UID",           "EUID",        "PPID",         "BASHOPTS",    "SHELLOPTS",
    "BASH_VERSINFO", "BASHPID",     "GROUPS",       "_",           "FUNCNAME",
    "DIRSTACK",      "RANDOM",      "SRANDOM",      "LINENO",      "EPOCHSECONDS",
    "EPOCHREALTIME", "HISTCMD",     "BASH_COMMAND", "BASH_LINENO", "BASH_SOURCE",
    "BASH_ARGC",     "BASH_ARGV",   "BASH_ALIASES", "BASH_CMDS",   "PIPESTATUS",
    "SHLVL",         "BASH_REMATCH"};

/// A spec must not set a variable whose name starts with SLURM_ and one of these texts: srun and
/// the ranks read such variables to learn which job, step and task they belong to.
inline constexpr std::array<std::string_view, 15> kPrefixesOfJobVariables{
    "ARRAY_", "GTIDS",  "HET_",   "JOB",   "LAUNCH_", "LOCALID", "NNODES", "NODE",
    "NPROCS", "NTASKS", "PROCID", "SRUN_", "STEP",    "SUBMIT_", "TASK"};

/// Sets row's member from node. Reports problems to builder.
void set_value(SpecBuilder& builder, const YamlDocument& document, const SpecSource& source,
               const KeyRow& row, const YamlNode& node);

/// Sets one entry of a map with arbitrary names (environment.vars, slurm, launch.srun), for example
/// for --set environment.vars.NAME=VALUE. Reports an error if row's key is not such a map.
void set_map_entry(SpecBuilder& builder, const YamlDocument& document, const SpecSource& source,
                   const KeyRow& row, const YamlNode& node, std::string_view name);

/// Returns the node's kind as text for messages: "a list", "a map", ...
[[nodiscard]] std::string_view kind_name(const YamlNode& node);

}  // namespace dlrun
