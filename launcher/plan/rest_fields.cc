#include "launcher/plan/rest_fields.h"

#include <algorithm>
#include <array>

namespace dlrun {
namespace {

/// Keeps the short names of RestKind out of the other files of a unity build.
namespace rest_table {

using enum RestKind;

/// Returns the row of an option that is a text in all versions.
constexpr SbatchOptionRow text_option(std::string_view option, char letter,
                                      std::string_view field) {
  return {option, letter, true, {kText, field}, {kText, field}};
}

/// Returns the row of an option that is a text in v0.0.38 and a number from v0.0.40 on.
constexpr SbatchOptionRow number_option(std::string_view option, char letter,
                                        std::string_view field, std::string_view variable = {}) {
  return {option, letter, true, {kText, field}, {kNumber, field}, variable};
}

/// Returns the row of an option that the API has only from v0.0.40 on.
constexpr SbatchOptionRow option_since_40(std::string_view option, char letter, bool needs_value,
                                          RestField field) {
  return {option, letter, needs_value, {}, field};
}

constexpr RestField kNoHint{kRefused,
                            "with a hint, slurmrestd binds ranks differently; "
                            "resources.threads_per_core: 1 has the effect of nomultithread"};
constexpr RestField kNoClusters{
    kRefused, "a slurmrestd serves one cluster; set submit.url to the server of the other cluster"};
constexpr RestField kNoDistribution{
    kRefused, "the server ignores this option; use launch.srun: {distribution: ...} for the ranks"};

constexpr RestField kNoDerivedTasks{
    kRefused, "sbatch computes the number of tasks from this option, and slurmrestd does not"};

/// sbatch's options. v0.0.38 gets numbers and times as text, because slurmrestd 22.05 converts them
/// as sbatch does.
constexpr auto kOptions = std::to_array<SbatchOptionRow>({
    text_option("--account", 'A', "account"),
    text_option("--array", 'a', "array"),
    text_option("--batch", 0, "batch_features"),
    text_option("--begin", 'b', "begin_time"),
    text_option("--chdir", 'D', "current_working_directory"),
    {"--clusters", 'M', true, kNoClusters, kNoClusters},
    text_option("--comment", 0, "comment"),
    text_option("--constraint", 'C', "constraints"),
    option_since_40("--contiguous", 0, false, {kTrue, "contiguous"}),
    {"--cores-per-socket", 0, true, {kText, "cores_per_socket"}, kNoDerivedTasks},
    {"--cpus-per-gpu",
     0,
     true,
     {kText, "cpus_per_gpu"},
     {kGpuNumber, "cpus_per_tres"},
     "SLURM_CPUS_PER_GPU"},
    {"--cpus-per-task",
     'c',
     true,
     {kText, "cpus_per_task"},
     {kCpusPerTask, "cpus_per_task"},
     "SLURM_CPUS_PER_TASK"},
    text_option("--deadline", 0, "deadline"),
    {"--delay-boot", 0, true, {kText, "delay_boot"}, {kSeconds, "delay_boot"}},
    text_option("--dependency", 'd', "dependency"),
    {"--distribution", 'm', true, kNoDistribution, {kText, "distribution"}},
    text_option("--error", 'e', "standard_error"),
    {"--exclude", 'x', true, {kText, "exclude_nodes"}, {kTextInList, "excluded_nodes"}},
    {"--exclusive", 0, false, {kExclusive, "exclusive"}, {kShared, "none"}},
    {"--gpu-bind", 0, true, {kText, "gpu_binding"}, {kGpuBind, "tres_bind"}, "SLURM_GPU_BIND"},
    {"--gpu-freq",
     0,
     true,
     {kText, "gpu_frequency"},
     {kGpuFrequency, "tres_freq"},
     "SLURM_GPU_FREQ"},
    {"--gpus", 'G', true, {kText, "gpus"}, {kGpus, "tres_per_job"}, "SLURM_GPUS"},
    {"--gpus-per-node",
     0,
     true,
     {kText, "gpus_per_node"},
     {kGpus, "tres_per_node"},
     "SLURM_GPUS_PER_NODE"},
    {"--gpus-per-socket",
     0,
     true,
     {kText, "gpus_per_socket"},
     {kGpus, "tres_per_socket"},
     "SLURM_GPUS_PER_SOCKET"},
    {"--gpus-per-task",
     0,
     true,
     {kText, "gpus_per_task"},
     {kGpusPerTask, "tres_per_task"},
     "SLURM_GPUS_PER_TASK"},
    {"--gres", 0, true, {kText, "gres"}, {kGres, "tres_per_node"}},
    {"--gres-flags", 0, true, {kText, "gres_flags"}, {kGresFlags, "flags"}},
    {"--hint", 0, true, kNoHint, kNoHint},
    {"--hold", 'H', false, {kTrue, "hold"}, {kTrue, "hold"}},
    text_option("--input", 'i', "standard_input"),
    text_option("--job-name", 'J', "name"),
    {"--kill-on-invalid-dep",
     0,
     true,
     {kYesNo, "kill_on_invalid_dependency"},
     {kInvalidDep, "flags"}},
    text_option("--licenses", 'L', "licenses"),
    {"--mail-type", 0, true, {kText, "mail_type"}, {kMailTypes, "mail_type"}},
    text_option("--mail-user", 0, "mail_user"),
    {"--mem", 0, true, {kText, "memory_per_node"}, {kMib, "memory_per_node"}},
    {"--mem-per-cpu", 0, true, {kText, "memory_per_cpu"}, {kMib, "memory_per_cpu"}},
    {"--mem-per-gpu",
     0,
     true,
     {kText, "memory_per_gpu"},
     {kGpuMib, "memory_per_tres"},
     "SLURM_MEM_PER_GPU"},
    number_option("--mincpus", 0, "minimum_cpus_per_node"),
    {"--nice", 0, false, {kNiceText, "nice"}, {kNice, "nice"}},
    {"--no-kill", 'k', false, {kSetForTrue, "no_kill"}, {kFalse, "kill_on_node_fail"}},
    {"--no-requeue", 0, false, {kTrue, "no_requeue"}, {kFalse, "requeue"}},
    {"--nodelist", 'w', true, {kText, "nodelist"}, {kTextInList, "required_nodes"}},
    text_option("--nodes", 'N', "nodes"),
    number_option("--ntasks", 'n', "tasks"),
    number_option("--ntasks-per-core", 0, "tasks_per_core", "SLURM_NTASKS_PER_CORE"),
    {"--ntasks-per-gpu",
     0,
     true,
     {kText, "ntasks_per_gpu"},
     kNoDerivedTasks,
     "SLURM_NTASKS_PER_GPU"},
    number_option("--ntasks-per-node", 0, "tasks_per_node", "SLURM_NTASKS_PER_NODE"),
    number_option("--ntasks-per-socket", 0, "tasks_per_socket", "SLURM_NTASKS_PER_SOCKET"),
    {"--open-mode", 0, true, {kText, "open_mode"}, {kUpperList, "open_mode"}},
    text_option("--output", 'o', "standard_output"),
    option_since_40("--overcommit", 'O', false, {kTrue, "overcommit"}),
    {"--oversubscribe", 's', false, {kTrue, "oversubscribe"}, {kShared, "oversubscribe"}},
    {"--parsable", 0, false, {kNotSent}, {kNotSent}},
    text_option("--partition", 'p', "partition"),
    text_option("--prefer", 0, "prefer"),
    {"--profile", 0, true, {kRefused, "the job gets a wrong value"}, {kUpperList, "profile"}},
    text_option("--qos", 'q', "qos"),
    {"--quiet", 'Q', false, {kNotSent}, {kNotSent}},
    option_since_40("--reboot", 0, false, {kTrue, "reboot"}),
    {"--requeue", 0, false, {kTrue, "requeue"}, {kTrue, "requeue"}},
    text_option("--reservation", 0, "reservation"),
    {"--signal", 0, true, {kSignalText, "signal"}, {kSignal, "kill_warning_signal"}},
    number_option("--sockets-per-node", 0, "sockets_per_node"),
    {"--spread-job", 0, false, {kTrue, "spread_job"}, {kJobFlag, "SPREAD_JOB"}},
    number_option("--threads-per-core", 0, "threads_per_core", "SLURM_THREADS_PER_CORE"),
    {"--time", 't', true, {kText, "time_limit"}, {kMinutes, "time_limit"}},
    {"--time-min", 0, true, {kText, "time_minimum"}, {kMinutes, "time_minimum"}},
    {"--tmp", 0, true, {kText, "temporary_disk_per_node"}, {kMibOfDisk, "temporary_disk_per_node"}},
    {"--use-min-nodes",
     0,
     false,
     {kTrue, "minimum_nodes"},
     {kJobFlag, "PREFER_MINIMUM_NODE_COUNT"}},
    {"--wait-all-nodes", 0, true, {kText, "wait_all_nodes"}, {kIsNot0, "wait_all_nodes"}},
    text_option("--wckey", 0, "wckey"),
});

/// The field that an option has only in the versions `oldest` to `newest` of the API.
struct FieldException {
  std::string_view option;
  RestVersion oldest, newest;
  RestField field;
};
constexpr RestField kNoField{kRefused, "this version has no field for the option"};
constexpr std::array kExceptions{
    // dlrun uses the newest version that both dlrun and the server know, so a server with which it
    // uses v0.0.40 is always Slurm 23.11.
    FieldException{
        "--cpus-per-task", RestVersion::k40, RestVersion::k40, {kCpusPerTaskOf23, "cpus_per_task"}},
    FieldException{
        "--gpus-per-task", RestVersion::k40, RestVersion::k40, {kGpusPerTaskOf23, "tres_per_task"}},
    FieldException{"--distribution", RestVersion::k40, RestVersion::k40, kNoDistribution},
    // These versions of the API misspell the flag of one of the two values.
    FieldException{"--gres-flags", RestVersion::k40, RestVersion::k41, kNoField},
};

}  // namespace rest_table

}  // namespace

const SbatchOptionRow* find_sbatch_option_row(std::string_view option) {
  const auto* found =
      std::find_if(rest_table::kOptions.begin(), rest_table::kOptions.end(),
                   [&](const SbatchOptionRow& row) { return row.option == option; });
  return found == rest_table::kOptions.end() ? nullptr : found;
}

const SbatchOptionRow* find_sbatch_option_row(char letter) {
  const auto* found = std::find_if(
      rest_table::kOptions.begin(), rest_table::kOptions.end(),
      [&](const SbatchOptionRow& row) { return row.letter != 0 && row.letter == letter; });
  return found == rest_table::kOptions.end() ? nullptr : found;
}

RestField rest_field(const SbatchOptionRow& option, RestVersion version) {
  if (version == RestVersion::k38) return option.in_38;
  for (const rest_table::FieldException& exception : rest_table::kExceptions) {
    if (exception.option == option.option && version >= exception.oldest &&
        version <= exception.newest)
      return exception.field;
  }
  return option.in_40;
}

}  // namespace dlrun
