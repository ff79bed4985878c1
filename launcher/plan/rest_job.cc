// Splits sbatch's options and converts them to the fields of the table in rest_fields.cc.
#include "launcher/plan/rest_job.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/text.h"
#include "launcher/plan/rest_fields.h"
#include "launcher/plan/rest_values.h"
#include "launcher/plan/sbatch_lines.h"
#include "launcher/spec/value_syntax.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

struct Option {
  std::string name;  ///< the long name; for an unknown option, the option as written
  std::optional<std::string> value;
};

/// Appends the options in `words`, split as getopt_long does. Also appends an argument that is not
/// an option: rest_option_refusal() then refuses it by name.
void add_options(std::vector<Option>& options, std::span<const std::string> words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool has_next = i + 1 < words.size();
    if (word.starts_with("--")) {
      const auto equals = word.find('=');
      Option option{word.substr(0, equals), std::nullopt};
      const SbatchOptionRow* row = find_sbatch_option_row(option.name);
      if (equals != std::string::npos) {
        option.value = word.substr(equals + 1);
      } else if (row != nullptr && row->needs_value && has_next) {
        option.value = words[++i];
      }
      options.push_back(std::move(option));
    } else if (word.size() >= 2 && word[0] == '-') {
      // Short options without a value may stand in one word with further ones: -HN2 is -H -N 2.
      for (std::size_t at = 1; at < word.size(); ++at) {
        const SbatchOptionRow* row = find_sbatch_option_row(word[at]);
        if (row == nullptr) {
          options.push_back({"-" + word.substr(at), std::nullopt});
          break;
        }
        Option option{std::string(row->option), std::nullopt};
        if (row->needs_value) {
          if (at + 1 < word.size()) {
            option.value = word.substr(at + 1);
          } else if (has_next) {
            option.value = words[++i];
          }
          at = word.size();
        }
        options.push_back(std::move(option));
      }
    } else {
      options.push_back({word, std::nullopt});
    }
  }
}

/// Returns the last occurrence of each option, which is the one that sbatch uses. --requeue and
/// --no-requeue count as the same option.
[[nodiscard]] std::vector<Option> last_of_each(const std::vector<Option>& options) {
  const auto name_of = [](const Option& option) {
    return option.name == "--no-requeue" ? std::string_view("--requeue")
                                         : std::string_view(option.name);
  };
  std::vector<Option> last;
  for (auto option = options.begin(); option != options.end(); ++option) {
    const bool is_repeated = std::any_of(option + 1, options.end(), [&](const Option& later) {
      return name_of(later) == name_of(*option);
    });
    if (!is_repeated) last.push_back(*option);
  }
  return last;
}

/// Returns the number of tasks that sbatch derives from --nodes or --ntasks-per-node, and that
/// slurmrestd does not derive. Returns nullopt if --ntasks is set, if both options or neither of
/// them are set, or if --nodes is a range.
[[nodiscard]] std::optional<std::string> implied_tasks(const std::vector<Option>& options) {
  const auto value_of = [&](std::string_view name) -> std::optional<std::string> {
    const auto found = std::find_if(options.begin(), options.end(),
                                    [&](const Option& option) { return option.name == name; });
    return found == options.end() ? std::nullopt : found->value;
  };
  if (value_of("--ntasks")) return std::nullopt;
  const auto nodes_text = value_of("--nodes"), per_node = value_of("--ntasks-per-node");
  if (nodes_text.has_value() == per_node.has_value()) return std::nullopt;
  if (per_node) return per_node;
  const auto nodes = parse_nodes(*nodes_text);
  if (!nodes || nodes->min != nodes->max) return std::nullopt;
  return fmt::format("{}", nodes->min);
}

/// Adds the variables that sbatch adds from Slurm 23.11 on. job: the job description without its
/// environment.
void add_variables_since_23(Env& env, const Json& job) {
  for (const auto& [field, variable] : {std::pair{"tres_per_task", "SLURM_TRES_PER_TASK"},
                                        std::pair{"tres_bind", "SLURM_TRES_BIND"}}) {
    if (const auto found = job.find(field); found != job.end())
      env.set(variable, found->get<std::string>());
  }
  // These variables make an mpirun in the script start its daemons with srun --external-launcher.
  const auto add = [&](std::string_view name, std::string_view value) {
    if (!env.has(name)) env.set(name, value);
  };
  constexpr std::string_view kLauncherOption = "--external-launcher";
  add("OMPI_MCA_plm_slurm_args", kLauncherOption);
  add("PRTE_MCA_plm_slurm_args", kLauncherOption);
  for (const auto& [bootstrap, arguments] :
       {std::pair{"HYDRA_BOOTSTRAP", "HYDRA_LAUNCHER_EXTRA_ARGS"},
        std::pair{"I_MPI_HYDRA_BOOTSTRAP", "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS"}}) {
    add(bootstrap, "slurm");
    if (env.get_or(bootstrap, "") == "slurm") add(arguments, kLauncherOption);
  }
}

/// Returns the job's environment: an object in v0.0.38, a list of NAME=VALUE in later versions.
/// Fails with kInvalid if a name or a value is not UTF-8.
[[nodiscard]] Result<Json> environment_of(const RestJobInputs& inputs,
                                          const std::vector<Option>& options, const Json& job) {
  const bool is_object = inputs.version == RestVersion::k38;
  Env all = inputs.env;
  for (const Option& option : options) {
    const SbatchOptionRow& row = *find_sbatch_option_row(option.name);
    // From Slurm 23.11 on, sbatch sets SLURM_TRES_BIND instead of the variables of these options.
    const bool is_replaced =
        !is_object && (option.name == "--gpu-bind" || option.name == "--gpus-per-task");
    if (row.variable.empty() || !option.value || is_replaced) continue;
    const auto mib = row.option == "--mem-per-gpu" ? memory_mib(*option.value) : std::nullopt;
    all.set(row.variable, mib ? fmt::format("{}", *mib) : *option.value);
  }
  if (!is_object) add_variables_since_23(all, job);
  Json environment = is_object ? Json::object() : Json::array();
  for (const auto& [name, value] : all.values()) {
    if (!is_utf8(name) || !is_utf8(value))
      return fail(Errc::kInvalid,
                  "the environment's {} is not UTF-8, and slurmrestd takes JSON: unset it, or "
                  "submit with sbatch",
                  printable(name));
    if (is_object) {
      environment[name] = value;
    } else {
      environment.push_back(fmt::format("{}={}", name, value));
    }
  }
  return environment;
}

/// Returns the reason why dlrun cannot send the option in this version of the API; nullopt if dlrun
/// can. server: the name of slurmrestd in the message.
[[nodiscard]] std::optional<std::string> refusal_in(std::string_view option,
                                                    const std::optional<std::string>& value,
                                                    RestVersion version, std::string_view server) {
  const SbatchOptionRow* row = find_sbatch_option_row(option);
  const auto cannot = [&](std::string_view why) {
    return fmt::format(
        "{} cannot do what {} does{}{}; submit.via: sbatch can", server,
        printable(value ? fmt::format("{}={}", option, *value) : std::string(option)),
        why.empty() ? "" : ": ", why);
  };
  if (option.size() < 2 || option[0] != '-')
    return fmt::format("'{}' is not an option of sbatch", printable(option));
  if (row == nullptr) {
    return fmt::format(
        "dlrun does not know {}, and cannot send it to {}; with submit.via: sbatch, "
        "sbatch gets the option as it is",
        printable(option), server);
  }
  const RestField field = rest_field(*row, version);
  if (field.kind == RestKind::kRefused) return cannot(field.name);
  if (field.kind == RestKind::kSignalText && value && value->find(':') != std::string::npos)
    return cannot("it accepts no B: or R: before the signal");
  if (row->needs_value && !value) return fmt::format("{} needs a value", option);
  if (value && rest_kind_is_flag(field.kind))
    return fmt::format("{} is '{}', expected no value", option, printable(*value));
  if (field.kind == RestKind::kNotSent) return std::nullopt;
  Json job = Json::object();
  if (const auto wrong = set_rest_field(job, field, value))
    return fmt::format("{} is '{}', expected {}", option, printable(value.value_or("")), *wrong);
  return std::nullopt;
}

}  // namespace

std::optional<std::string> rest_option_refusal(std::string_view option,
                                               const std::optional<std::string>& value,
                                               std::optional<RestVersion> version) {
  if (version)
    return refusal_in(option, value, *version,
                      fmt::format("slurmrestd ({})", rest_version_text(*version)));
  std::optional<std::string> reason;
  for (const RestVersion each : kRestVersions) {
    reason = refusal_in(option, value, each, "slurmrestd");
    if (!reason) return std::nullopt;
  }
  return reason;
}

Result<std::string> rest_job_body(const RestJobInputs& inputs) {
  std::vector<Option> options;
  for (const auto& line : sbatch_lines(inputs.script)) add_options(options, line);
  add_options(options, inputs.options);
  std::vector<std::string> refused;
  for (const Option& option : options) {
    const auto why = rest_option_refusal(option.name, option.value, inputs.version);
    if (!why) continue;
    const auto key = inputs.keys.find(option.name);
    refused.push_back(key == inputs.keys.end() ? *why : fmt::format("{}: {}", key->second, *why));
  }
  if (!refused.empty()) return fail(Errc::kInvalid, "{}", join(refused, "\n"));
  if (!is_utf8(inputs.script))
    return fail(
        Errc::kInvalid,
        "the script is not UTF-8, and slurmrestd takes JSON; submit.via: sbatch accepts it");
  for (const std::string_view path : {inputs.script_name, inputs.directory}) {
    if (!is_utf8(path))
      return fail(
          Errc::kInvalid,
          "the path '{}' is not UTF-8, and slurmrestd takes JSON; submit.via: sbatch accepts it",
          printable(path));
  }

  options = last_of_each(options);
  Json job = Json::object();
  job["name"] = inputs.script_name;
  job["current_working_directory"] = inputs.directory;
  if (auto tasks = implied_tasks(options)) options.push_back({"--ntasks", std::move(tasks)});
  for (const Option& option : options) {
    const RestField field = rest_field(*find_sbatch_option_row(option.name), inputs.version);
    if (field.kind == RestKind::kNotSent) continue;
    if (option.value && !is_utf8(*option.value))
      return fail(Errc::kInvalid,
                  "{}={} is not UTF-8, and slurmrestd takes JSON; submit.via: sbatch accepts it",
                  option.name, printable(*option.value));
    auto value = option.value;
    if (option.name == "--chdir" && !value->starts_with('/'))
      value = fmt::format("{}/{}", inputs.directory, *value);
    (void)set_rest_field(job, field, value);
  }
  // From v0.0.42 on, slurmrestd sets oom_kill_step to 0 if the field is missing. sbatch sends
  // NO_VAL16, which keeps the cluster's default.
  constexpr int kNoValue16 = 0xfffe;
  if (inputs.version >= RestVersion::k42) job["oom_kill_step"] = kNoValue16;
  DLRUN_TRY_ASSIGN(auto environment, environment_of(inputs, options, job));
  job["environment"] = std::move(environment);
  Json body;
  // slurmrestd 23.11, which has v0.0.40, refuses a script that is a field of the job. Later
  // versions deprecate the field of the request.
  if (inputs.version <= RestVersion::k40) {
    body["script"] = inputs.script;
  } else {
    job["script"] = inputs.script;
  }
  body["job"] = std::move(job);
  return body.dump();
}

}  // namespace dlrun
