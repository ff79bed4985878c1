// The table kRows has one row for each option of sbatch: the field of slurmrestd's API, and the
// conversion of the value.
#include "launcher/plan/rest_job.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/text.h"
#include "launcher/plan/sbatch_lines.h"
#include "launcher/spec/slurm_units.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

enum class Kind {
  kText,   ///< the text that sbatch gets: slurmrestd passes it to the same parser
  kFlag,   ///< true
  kYesNo,  ///< a boolean, from yes or no
  /// The value, or "exclusive" without a value: Slurm 22.05 rejects `true`, which the API
  /// documents.
  kExclusive,
  kNoKill,   ///< "set": Slurm 22.05 rejects `true`, which the API documents
  kNice,     ///< the value, or else 100, as sbatch sets it
  kSignal,   ///< a signal; Slurm 22.05 cannot parse B: or R: before it
  kNotSent,  ///< an option for sbatch itself, which the job does not need
  kRefused,  ///< slurmrestd cannot do what the option does
};

struct Row {
  std::string_view option;
  char letter = 0;
  Kind kind = Kind::kText;
  std::string_view field = {};  ///< kRefused: the reason
  /// A variable that sbatch adds to the job's environment for srun, and slurmrestd does not.
  std::string_view variable = {};
};

/// sbatch's options. Numbers, times and fields such as gpus_per_node are sent as text, because
/// slurmrestd 22.05 converts them as sbatch does.
constexpr auto kRows = std::to_array<Row>({
    {"--account", 'A', Kind::kText, "account"},
    {"--array", 'a', Kind::kText, "array"},
    {"--batch", 0, Kind::kText, "batch_features"},
    {"--begin", 'b', Kind::kText, "begin_time"},
    {"--chdir", 'D', Kind::kText, "current_working_directory"},
    {"--clusters", 'M', Kind::kRefused,
     "a slurmrestd serves one cluster; give submit.url the other cluster's"},
    {"--comment", 0, Kind::kText, "comment"},
    {"--constraint", 'C', Kind::kText, "constraints"},
    {"--cores-per-socket", 0, Kind::kText, "cores_per_socket"},
    {"--cpus-per-gpu", 0, Kind::kText, "cpus_per_gpu", "SLURM_CPUS_PER_GPU"},
    {"--cpus-per-task", 'c', Kind::kText, "cpus_per_task", "SLURM_CPUS_PER_TASK"},
    {"--deadline", 0, Kind::kText, "deadline"},
    {"--delay-boot", 0, Kind::kText, "delay_boot"},
    {"--dependency", 'd', Kind::kText, "dependency"},
    {"--distribution", 'm', Kind::kRefused,
     "it is silently ignored; use launch.srun: {distribution: ...} for the ranks"},
    {"--error", 'e', Kind::kText, "standard_error"},
    {"--exclude", 'x', Kind::kText, "exclude_nodes"},
    {"--exclusive", 0, Kind::kExclusive, "exclusive"},
    {"--gpu-bind", 0, Kind::kText, "gpu_binding", "SLURM_GPU_BIND"},
    {"--gpu-freq", 0, Kind::kText, "gpu_frequency", "SLURM_GPU_FREQ"},
    {"--gpus", 'G', Kind::kText, "gpus", "SLURM_GPUS"},
    {"--gpus-per-node", 0, Kind::kText, "gpus_per_node", "SLURM_GPUS_PER_NODE"},
    {"--gpus-per-socket", 0, Kind::kText, "gpus_per_socket", "SLURM_GPUS_PER_SOCKET"},
    {"--gpus-per-task", 0, Kind::kText, "gpus_per_task", "SLURM_GPUS_PER_TASK"},
    {"--gres", 0, Kind::kText, "gres"},
    {"--gres-flags", 0, Kind::kText, "gres_flags"},
    {"--hint", 0, Kind::kRefused,
     "it does not bind as sbatch's does; resources.threads_per_core: 1 does what nomultithread "
     "does"},
    {"--hold", 'H', Kind::kFlag, "hold"},
    {"--input", 'i', Kind::kText, "standard_input"},
    {"--job-name", 'J', Kind::kText, "name"},
    {"--kill-on-invalid-dep", 0, Kind::kYesNo, "kill_on_invalid_dependency"},
    {"--licenses", 'L', Kind::kText, "licenses"},
    {"--mail-type", 0, Kind::kText, "mail_type"},
    {"--mail-user", 0, Kind::kText, "mail_user"},
    {"--mem", 0, Kind::kText, "memory_per_node"},
    {"--mem-per-cpu", 0, Kind::kText, "memory_per_cpu"},
    {"--mem-per-gpu", 0, Kind::kText, "memory_per_gpu", "SLURM_MEM_PER_GPU"},
    {"--mincpus", 0, Kind::kText, "minimum_cpus_per_node"},
    {"--nice", 0, Kind::kNice, "nice"},
    {"--no-kill", 'k', Kind::kNoKill, "no_kill"},
    {"--no-requeue", 0, Kind::kFlag, "no_requeue"},
    {"--nodelist", 'w', Kind::kText, "nodelist"},
    {"--nodes", 'N', Kind::kText, "nodes"},
    {"--ntasks", 'n', Kind::kText, "tasks"},
    {"--ntasks-per-core", 0, Kind::kText, "tasks_per_core", "SLURM_NTASKS_PER_CORE"},
    {"--ntasks-per-gpu", 0, Kind::kText, "ntasks_per_gpu", "SLURM_NTASKS_PER_GPU"},
    {"--ntasks-per-node", 0, Kind::kText, "tasks_per_node", "SLURM_NTASKS_PER_NODE"},
    {"--ntasks-per-socket", 0, Kind::kText, "tasks_per_socket", "SLURM_NTASKS_PER_SOCKET"},
    {"--open-mode", 0, Kind::kText, "open_mode"},
    {"--output", 'o', Kind::kText, "standard_output"},
    {"--oversubscribe", 's', Kind::kFlag, "oversubscribe"},
    {"--parsable", 0, Kind::kNotSent},
    {"--partition", 'p', Kind::kText, "partition"},
    {"--prefer", 0, Kind::kText, "prefer"},
    {"--profile", 0, Kind::kRefused, "the job gets a wrong value"},
    {"--qos", 'q', Kind::kText, "qos"},
    {"--quiet", 'Q', Kind::kNotSent},
    {"--requeue", 0, Kind::kFlag, "requeue"},
    {"--reservation", 0, Kind::kText, "reservation"},
    {"--signal", 0, Kind::kSignal, "signal"},
    {"--sockets-per-node", 0, Kind::kText, "sockets_per_node"},
    {"--spread-job", 0, Kind::kFlag, "spread_job"},
    {"--threads-per-core", 0, Kind::kText, "threads_per_core", "SLURM_THREADS_PER_CORE"},
    {"--time", 't', Kind::kText, "time_limit"},
    {"--time-min", 0, Kind::kText, "time_minimum"},
    {"--tmp", 0, Kind::kText, "temporary_disk_per_node"},
    {"--use-min-nodes", 0, Kind::kFlag, "minimum_nodes"},
    {"--wait-all-nodes", 0, Kind::kText, "wait_all_nodes"},
    {"--wckey", 0, Kind::kText, "wckey"},
});

[[nodiscard]] const Row* find_row(std::string_view option) {
  const auto* found = std::find_if(kRows.begin(), kRows.end(),
                                   [&](const Row& row) { return row.option == option; });
  return found == kRows.end() ? nullptr : found;
}

[[nodiscard]] const Row* find_row(char letter) {
  const auto* found = std::find_if(kRows.begin(), kRows.end(), [&](const Row& row) {
    return row.letter != 0 && row.letter == letter;
  });
  return found == kRows.end() ? nullptr : found;
}

[[nodiscard]] bool wants_value(Kind kind) {
  return kind == Kind::kText || kind == Kind::kYesNo || kind == Kind::kSignal ||
         kind == Kind::kRefused;
}

struct Option {
  std::string name;  ///< the long name; for an unknown option, the option as written
  std::optional<std::string> value;
};

/// Appends the options in `words`, split as getopt_long does. Also appends an argument that is not
/// an option: rest_refusal() then refuses it by name.
void add_options(std::vector<Option>& options, std::span<const std::string> words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool has_next = i + 1 < words.size();
    if (word.starts_with("--")) {
      const auto equals = word.find('=');
      Option option{word.substr(0, equals), std::nullopt};
      const Row* row = find_row(option.name);
      if (equals != std::string::npos) {
        option.value = word.substr(equals + 1);
      } else if (row != nullptr && wants_value(row->kind) && has_next) {
        option.value = words[++i];
      }
      options.push_back(std::move(option));
    } else if (word.size() >= 2 && word[0] == '-') {
      const Row* row = find_row(word[1]);
      Option option{row == nullptr ? word : std::string(row->option), std::nullopt};
      if (row != nullptr && wants_value(row->kind)) {
        if (word.size() > 2) {
          option.value = word.substr(2);
        } else if (has_next) {
          option.value = words[++i];
        }
      }
      options.push_back(std::move(option));
    } else {
      options.push_back({word, std::nullopt});
    }
  }
}

[[nodiscard]] Json json_of(const Row& row, const std::optional<std::string>& value) {
  switch (row.kind) {
    case Kind::kFlag:
      return true;
    case Kind::kYesNo:
      return value.value_or("") == "yes";
    case Kind::kExclusive:
      return value.value_or("exclusive");
    case Kind::kNoKill:
      return "set";
    case Kind::kNice:
      return value.value_or("100");
    case Kind::kText:
    case Kind::kSignal:
    case Kind::kNotSent:
    case Kind::kRefused:
      break;
  }
  return value.value_or("");
}

/// Returns the number of tasks that sbatch requests if no option sets it; slurmrestd has no such
/// default.
[[nodiscard]] std::optional<std::string> implied_tasks(const Json& job) {
  if (job.contains("tasks")) return std::nullopt;
  const bool has_nodes = job.contains("nodes"), has_per_node = job.contains("tasks_per_node");
  if (has_nodes == has_per_node) return std::nullopt;
  if (has_per_node) return job["tasks_per_node"].get<std::string>();
  const auto nodes = parse_nodes(job["nodes"].get<std::string>());
  if (!nodes || nodes->min != nodes->max) return std::nullopt;
  return fmt::format("{}", nodes->min);
}

[[nodiscard]] Result<Json> environment_of(const Env& env, const std::vector<Option>& options) {
  Env all = env;
  for (const Option& option : options) {
    const Row& row = *find_row(option.name);
    if (row.variable.empty() || !option.value) continue;
    const auto mib = row.option == "--mem-per-gpu" ? memory_mib(*option.value) : std::nullopt;
    all.set(row.variable, mib ? fmt::format("{}", *mib) : *option.value);
  }
  Json environment = Json::object();
  for (const auto& [name, value] : all.values()) {
    if (!is_utf8(name) || !is_utf8(value))
      return fail(Errc::kInvalid,
                  "the environment's {} is not UTF-8, and slurmrestd takes JSON: unset it, or "
                  "submit with sbatch",
                  printable(name));
    environment[name] = value;
  }
  return environment;
}

}  // namespace

std::optional<std::string> rest_refusal(std::string_view option,
                                        const std::optional<std::string>& value) {
  const Row* row = find_row(option);
  const auto cannot = [&](std::string_view why) {
    return fmt::format(
        "slurmrestd ({}) cannot do what {} does{}{}; submit.via: sbatch can", kRestVersion,
        printable(value ? fmt::format("{}={}", option, *value) : std::string(option)),
        why.empty() ? "" : ": ", why);
  };
  if (row == nullptr) return cannot("");
  if (row->kind == Kind::kRefused) return cannot(row->field);
  if (row->kind == Kind::kSignal && value && value->find(':') != std::string::npos)
    return cannot("it takes no B: or R: before the signal");
  if (wants_value(row->kind) && !value) return fmt::format("{} needs a value", option);
  if (row->kind == Kind::kYesNo && *value != "yes" && *value != "no")
    return fmt::format("{} is '{}', expected yes or no", option, printable(*value));
  if ((row->kind == Kind::kFlag || row->kind == Kind::kNoKill) && value)
    return cannot("it takes no value");
  return std::nullopt;
}

Result<std::string> rest_job(const RestJobInputs& inputs) {
  std::vector<Option> options;
  for (const auto& line : sbatch_lines(inputs.script)) add_options(options, line);
  add_options(options, inputs.options);
  std::vector<std::string> refused;
  for (const Option& option : options) {
    if (auto why = rest_refusal(option.name, option.value)) refused.push_back(std::move(*why));
  }
  if (!refused.empty()) return fail(Errc::kInvalid, "{}", join(refused, "\n"));
  if (!is_utf8(inputs.script))
    return fail(Errc::kInvalid,
                "the script is not UTF-8, and slurmrestd takes JSON; submit.via: sbatch can");

  Json job = Json::object();
  job["name"] = inputs.script_name;
  job["current_working_directory"] = inputs.directory;
  for (const Option& option : options) {
    const Row& row = *find_row(option.name);
    if (row.kind == Kind::kNotSent) continue;
    if (option.value && !is_utf8(*option.value))
      return fail(Errc::kInvalid, "{}={} is not UTF-8, and slurmrestd takes JSON", option.name,
                  printable(*option.value));
    Json& field = job[std::string(row.field)];
    field = json_of(row, option.value);
    if (row.option == "--chdir" && !option.value->starts_with('/'))
      field = fmt::format("{}/{}", inputs.directory, *option.value);
  }
  // For sbatch, only the last of --requeue and --no-requeue counts.
  const auto at = [&](std::string_view name) {
    const auto found = std::find_if(options.rbegin(), options.rend(),
                                    [&](const Option& o) { return o.name == name; });
    return found == options.rend() ? options.size()
                                   : static_cast<std::size_t>(found - options.rbegin());
  };
  if (job.contains("requeue") && job.contains("no_requeue"))
    job.erase(at("--requeue") < at("--no-requeue") ? "no_requeue" : "requeue");
  if (auto tasks = implied_tasks(job)) job["tasks"] = std::move(*tasks);
  DLRUN_TRY_ASSIGN(auto environment, environment_of(inputs.env, options));
  job["environment"] = std::move(environment);
  Json body;
  body["script"] = inputs.script;
  body["job"] = std::move(job);
  return body.dump();
}

}  // namespace dlrun
