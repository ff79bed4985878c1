#include "launcher/import/launcher_options.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "common/quoting.h"
#include "common/text.h"
#include "launcher/plan/rest_fields.h"
#include "launcher/spec/key_name.h"
#include "launcher/spec/value_functions.h"
#include "launcher/spec/yaml_text.h"

namespace dlrun {
namespace {

/// A row of the tables below: an option of srun, mpirun or torchrun that the key table does not
/// have.
struct LauncherOptionRow {
  std::string_view name;
  char letter = 0;              ///< the short name; 0: there is none
  std::size_t value_count = 0;  ///< the number of words that follow the name
};

/// Options of srun that the table of sbatch's options (launcher/plan/rest_fields.cc) does not have,
/// or has with another letter.
constexpr auto kSrunOptions = std::to_array<LauncherOptionRow>({
    {"--label", 'l', 0},
    {"--unbuffered", 'u', 0},
    {"--kill-on-bad-exit", 'K', 0},
    {"--overlap", 0, 0},
    {"--exact", 0, 0},
    {"--pty", 0, 0},
    {"--multi-prog", 0, 0},
    {"--preserve-env", 'E', 0},
    {"--disable-status", 'X', 0},
    {"--verbose", 'v', 0},
    {"--container-readonly", 0, 0},
    {"--container-env", 0, 1},
    {"--export", 0, 1},
    {"--wait", 'W', 1},
    {"--relative", 'r', 1},
    {"--threads", 'T', 1},
    {"--core-spec", 'S', 1},
    {"--jobid", 0, 1},
    {"--mem-bind", 0, 1},
    {"--cpu-freq", 0, 1},
    {"--network", 0, 1},
});

/// Options of mpirun and horovodrun. A long name has only one dash here: Open MPI accepts one dash
/// and two, and read_mpirun_options() removes the second.
constexpr auto kMpirunOptions = std::to_array<LauncherOptionRow>({
    {"-np", 0, 1},
    {"-n", 0, 1},
    {"-c", 0, 1},
    {"-N", 0, 1},
    {"-npernode", 0, 1},
    {"-ppn", 0, 1},
    {"-x", 0, 1},
    {"-H", 0, 1},
    {"-host", 0, 1},
    {"-hosts", 0, 1},
    {"-hostfile", 0, 1},
    {"-machinefile", 0, 1},
    {"-bind-to", 0, 1},
    {"-map-by", 0, 1},
    {"-rank-by", 0, 1},
    {"-mca", 0, 2},
    {"-genv", 0, 2},
    {"-oversubscribe", 0, 0},
    {"-tag-output", 0, 0},
    {"-allow-run-as-root", 0, 0},
    {"-display-map", 0, 0},
    {"-report-bindings", 0, 0},
    {"-verbose", 0, 0},
    {"-v", 0, 0},
    {"-gloo", 0, 0},
    {"-mpi", 0, 0},
    {"-start-timeout", 0, 1},
    {"-network-interface", 0, 1},
    {"-network-interfaces", 0, 1},
});

constexpr auto kTorchrunOptions = std::to_array<LauncherOptionRow>({
    {"--nnodes", 0, 1},       {"--nproc-per-node", 0, 1},   {"--node-rank", 0, 1},
    {"--rdzv-backend", 0, 1}, {"--rdzv-endpoint", 0, 1},    {"--rdzv-id", 0, 1},
    {"--rdzv-conf", 0, 1},    {"--master-addr", 0, 1},      {"--master-port", 0, 1},
    {"--max-restarts", 0, 1}, {"--monitor-interval", 0, 1}, {"--start-method", 0, 1},
    {"--role", 0, 1},         {"--log-dir", 0, 1},          {"--redirects", 'r', 1},
    {"--tee", 't', 1},        {"--local-addr", 0, 1},       {"--standalone", 0, 0},
    {"--module", 'm', 0},     {"--no-python", 0, 0},        {"--run-path", 0, 0},
    {"--use-env", 0, 0},
});

template <std::size_t N>
const LauncherOptionRow* find_option(const std::array<LauncherOptionRow, N>& options,
                                     std::string_view name) {
  const auto found =
      std::find_if(options.begin(), options.end(), [&](const LauncherOptionRow& one) {
        return one.name == name ||
               (one.letter != 0 && name.size() == 2 && name[0] == '-' && name[1] == one.letter);
      });
  return found == options.end() ? nullptr : &*found;
}

const KeyRow* key_of_option(KeyTarget target, std::string_view option) {
  for (const KeyRow& row : spec_keys()) {
    if (row.option.target == target && row.option.name == option) return &row;
  }
  return nullptr;
}

/// Returns the key that an option of pyxis such as --no-container-mount-home switches off; nullptr
/// for other options.
const KeyRow* key_of_negation(std::string_view option) {
  constexpr std::string_view kNo = "--no-";
  if (option == "--container-readonly") return find_key("container.writable"_key);
  if (!option.starts_with(kNo)) return nullptr;
  const KeyRow* row =
      key_of_option(KeyTarget::kContainer, fmt::format("--{}", option.substr(kNo.size())));
  return row != nullptr && traits_of(*row).is_switch ? row : nullptr;
}

/// Returns the number of words that follow an option of srun; nullopt if it is not known.
std::optional<std::size_t> srun_value_count(const std::string& name) {
  if (const LauncherOptionRow* option = find_option(kSrunOptions, name)) return option->value_count;
  if (key_of_negation(name) != nullptr) return 0;
  if (const KeyRow* row = key_of_option(KeyTarget::kContainer, name))
    return traits_of(*row).is_switch ? 0 : 1;
  if (key_of_option(KeyTarget::kSrun, name) != nullptr) return 1;
  if (const SbatchOptionRow* known = find_sbatch_option_row(name))
    return known->needs_value ? 1 : 0;
  return std::nullopt;
}

/// Returns the long name of a short option of srun; "" if it is not known.
std::string long_srun_option(char letter) {
  if (const LauncherOptionRow* option = find_option(kSrunOptions, std::string{'-', letter}))
    return std::string(option->name);
  const SbatchOptionRow* known = find_sbatch_option_row(letter);
  return known != nullptr ? std::string(known->option) : "";
}

}  // namespace

bool LauncherOptionReader::is_at_option() const {
  if (at_ >= command_.words.size()) return false;
  const ShellPart& first = command_.words[at_].parts.front();
  return !first.is_variable && first.text.size() > 1 && first.text[0] == '-';
}

LauncherOptionReader::Option LauncherOptionReader::take_option_word() {
  Option option;
  ShellWord value = command_.words[at_++];
  std::string& first = value.parts.front().text;
  const auto equals = first.find('=');
  option.name = first.substr(0, equals);
  if (equals == std::string::npos) return option;
  first.erase(0, equals + 1);
  option.value = value_of(std::move(value), option.name);
  option.is_value_unknown = !option.value;
  return option;
}

std::optional<std::string> LauncherOptionReader::value_of(ShellWord word,
                                                          std::string_view name) const {
  // In --container-mounts, $PWD becomes `.`, because the job starts in the spec's folder. The
  // arguments of the program are not read here: they keep $PWD, because a container may start the
  // program in another folder.
  for (ShellPart& part : word.parts) {
    const bool is_start_folder =
        part.is_variable && (part.text == "PWD" || part.text == "SLURM_SUBMIT_DIR");
    if (is_start_folder && name == "--container-mounts" && state_.variables.count(part.text) == 0)
      part = {".", false, true};
  }
  return expanded_text(word, state_);
}

bool LauncherOptionReader::take_value(Option& option) {
  if (at_ >= command_.words.size()) return false;
  option.value = value_of(command_.words[at_++], option.name);
  option.is_value_unknown = !option.value;
  return true;
}

void LauncherOptionReader::remark_on_option(const Option& option, std::string_view reason) {
  std::string shown = option.name;
  if (option.value) {
    // If the value is a secret of several words, quotes make it one word, so that the remark hides
    // all of it.
    const bool has_blank = option.value->find(' ') != std::string::npos;
    shown += " " + (has_blank ? shell_quote(*option.value) : *option.value);
  }
  state_.remark(command_.line, shown, std::string(reason));
}

ImportObstacle LauncherOptionReader::read_srun_options() {
  while (is_at_option()) {
    if (command_.words[at_].source == "--") {
      ++at_;
      break;
    }
    if (auto why = take_srun_option()) return why;
  }
  return std::nullopt;
}

ImportObstacle LauncherOptionReader::take_srun_option() {
  const std::string source = command_.words[at_].source;
  Option option;
  if (source.starts_with("--")) {
    option = take_option_word();
    const auto value_count = srun_value_count(option.name);
    if (!option.value && !option.is_value_unknown) {
      if (!value_count)
        return fmt::format("dlrun does not know srun's option {}", printable(source));
      if (*value_count > 0 && !take_value(option)) return fmt::format("{} has no value", source);
    }
    set_srun_option(option);
    return std::nullopt;
  }
  // Letters without a value may share a word: -lu.
  if (!command_.words[at_].is_literal() && source.size() != 2) {
    return fmt::format("only the job knows the value of {}", printable(source));
  }
  ++at_;
  for (std::size_t i = 1; i < source.size(); ++i) {
    option = {long_srun_option(source[i]), std::nullopt, false};
    if (option.name.empty())
      return fmt::format("dlrun does not know srun's option -{}", printable(source.substr(i, 1)));
    const bool needs_value = srun_value_count(option.name).value_or(0) > 0;
    // The value of -K is optional, and must be in the same word: -K1.
    if (source[i] == 'K' && i + 1 < source.size() &&
        (source[i + 1] == '0' || source[i + 1] == '1')) {
      option.value = source.substr(i + 1, 1);
      ++i;
      set_srun_option(option);
      continue;
    }
    if (needs_value && i + 1 < source.size()) {
      option.value = source.substr(i + 1);
      set_srun_option(option);
      return std::nullopt;
    }
    if (needs_value && !take_value(option)) return fmt::format("{} has no value", source);
    set_srun_option(option);
  }
  return std::nullopt;
}

void LauncherOptionReader::set_srun_option(const Option& option) {
  if (option.name == "--container-env")
    return remark_on_option(option,
                            "dlrun passes its variables and those of environment.vars into the "
                            "container");
  if (option.name == "--export" && option.value == "ALL") return;
  if (option.name == "--kill-on-bad-exit" && option.value.value_or("1") == "1") return;
  if (const KeyRow* row = key_of_negation(option.name)) {
    set_pyxis_runtime();
    state_.keys.set({std::string(row->path), "false", command_.line, ""});
    return;
  }
  if (option.is_value_unknown) return remark_on_option(option, "only the job knows its value");
  if (const KeyRow* row = key_of_option(KeyTarget::kContainer, option.name))
    return set_container_key(*row, option);
  const std::string yaml = option.value ? yaml_with_variables(*option.value) : "true";
  if (const KeyRow* row = key_of_option(KeyTarget::kSrun, option.name)) {
    state_.keys.set({std::string(row->path), yaml, command_.line, ""});
    return;
  }
  if (const KeyRow* row = key_of_option(KeyTarget::kSbatch, option.name))
    return set_job_key(*row, option);
  state_.keys.set({"launch.srun." + option.name.substr(2), yaml, command_.line, ""});
}

void LauncherOptionReader::set_pyxis_runtime() {
  state_.keys.set(
      {"container.runtime"_key, "pyxis", command_.line, "the options are those of pyxis"});
}

void LauncherOptionReader::set_container_key(const KeyRow& row, const Option& option) {
  set_pyxis_runtime();
  const std::string value = option.value.value_or("");
  if (traits_of(row).is_switch) {
    state_.keys.set({std::string(row.path), "true", command_.line, ""});
  } else if (row.path == "container.mounts"_key) {
    std::vector<std::string> mounts;
    for (const auto mount : split(value, ',')) mounts.push_back(yaml_with_variables(mount));
    state_.keys.set({std::string(row.path), "[" + join(mounts, ", ") + "]", command_.line, ""});
  } else {
    state_.keys.set({std::string(row.path), yaml_with_variables(value), command_.line, ""});
  }
}

void LauncherOptionReader::set_job_key(const KeyRow& row, const Option& option) {
  const std::string yaml = option.value ? yaml_with_variables(*option.value) : "true";
  const ImportedKey* of_job = state_.keys.find(row.path);
  if (of_job != nullptr && of_job->yaml == yaml) return;
  if (row.option.scope != SbatchScope::kRankRequest)
    return remark_on_option(option,
                            "it is for this step only; the options of the job are in resources");
  if (of_job != nullptr)
    return remark_on_option(
        option, fmt::format("the job has {}: {}, and the ranks of a run use all of it", row.path,
                            of_job->yaml));
  // `srun -n N` needs no key if the nodes and the ranks per node of the job give N already. Their
  // product is in SLURM_NTASKS.
  const auto tasks = state_.variables.find("SLURM_NTASKS");
  if (row.path == "resources.ntasks"_key && tasks != state_.variables.end() &&
      tasks->second.value == option.value)
    return;
  state_.keys.set({std::string(row.path), yaml, command_.line, ""});
}

void LauncherOptionReader::set_count(std::string_view key, const Option& option) {
  if (option.is_value_unknown) return remark_on_option(option, "only the job knows its value");
  const KeyRow* row = find_key(key);
  if (row != nullptr) set_job_key(*row, option);
}

ImportObstacle LauncherOptionReader::read_mpirun_options() {
  while (is_at_option()) {
    Option option = take_option_word();
    if (option.name.starts_with("--")) option.name.erase(0, 1);
    const LauncherOptionRow* known = find_option(kMpirunOptions, option.name);
    if (known == nullptr)
      return fmt::format("dlrun does not know the option {}", printable(option.name));
    const bool has_value = option.value || option.is_value_unknown;
    if (known->value_count > 0 && !has_value) {
      if (!take_value(option)) return fmt::format("{} has no value", option.name);
      if (known->value_count == 2) ++at_;  // -mca NAME VALUE: two words follow
    }
    if (option.name == "-np" || option.name == "-n" || option.name == "-c") {
      set_count("resources.ntasks"_key, option);
    } else if (option.name == "-N" || option.name == "-npernode" || option.name == "-ppn") {
      set_count("resources.tasks_per_node"_key, option);
    } else if (option.name == "-x" && option.value &&
               option.value->find('=') == std::string::npos) {
      continue;  // the ranks have every variable of the job
    } else {
      remark_on_option(option, "the ranks of dlrun are started by srun; see the keys of launch");
    }
  }
  at_ = std::min(at_, command_.words.size());
  return std::nullopt;
}

ImportObstacle LauncherOptionReader::read_torchrun_options(bool& is_module,
                                                           bool& is_without_python) {
  while (is_at_option()) {
    Option option = take_option_word();
    // torchrun accepts '-' and '_' in the names of its options.
    if (option.name.starts_with("--"))
      std::replace(option.name.begin(), option.name.end(), '_', '-');
    const LauncherOptionRow* known = find_option(kTorchrunOptions, option.name);
    if (known == nullptr)
      return fmt::format("dlrun does not know torchrun's option {}", printable(option.name));
    option.name = known->name;
    const bool has_value = option.value || option.is_value_unknown;
    if (known->value_count > 0 && !has_value && !take_value(option))
      return fmt::format("{} has no value", option.name);
    const bool is_number = option.value && parse_int(*option.value);
    if (option.name == "--module") {
      is_module = true;
    } else if (option.name == "--no-python") {
      is_without_python = true;
    } else if (option.name == "--nproc-per-node" && is_number) {
      state_.keys.set({"launch.nproc_per_node"_key, *option.value, command_.line, ""});
    } else if (option.name == "--nnodes" && is_number) {
      set_count("resources.nodes"_key, option);
    } else if (option.name == "--max-restarts" && option.value != "0") {
      remark_on_option(option, "retry.max restarts the whole run");
    } else if (option.name == "--tee" || option.name == "--redirects" ||
               option.name == "--log-dir") {
      remark_on_option(option, "`dlrun logs --rank N` shows the output of one rank");
    }
  }
  return std::nullopt;
}

}  // namespace dlrun
