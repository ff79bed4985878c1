// Reads the #SBATCH lines of a script into keys of a spec. The key table has the option of each
// key; the table of sbatch's options (launcher/plan/rest_fields.cc) has the short names of options.

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "common/text.h"
#include "launcher/import/import_state.h"
#include "launcher/plan/rest_fields.h"
#include "launcher/plan/sbatch_lines.h"
#include "launcher/spec/key_name.h"
#include "launcher/spec/yaml_text.h"

namespace dlrun {
namespace {

/// An option of an #SBATCH line.
struct Directive {
  std::string name;  ///< "--nodes"
  std::optional<std::string> value;
};

/// Returns the full name of an option: sbatch accepts abbreviated names. Returns the name itself if
/// it is a full name, or if no key or several keys have an option that starts with it.
std::string full_name(const std::string& name) {
  if (find_sbatch_key(name) != nullptr || find_sbatch_option_row(name) != nullptr) return name;
  std::vector<std::string_view> found;
  for (const KeyRow& row : spec_keys()) {
    if (row.option.target == KeyTarget::kSbatch && row.option.name.starts_with(name))
      found.push_back(row.option.name);
  }
  return found.size() == 1 ? std::string(found.front()) : name;
}

bool is_option_name(std::string_view name) {
  return name.size() > 2 && name.starts_with("--") &&
         std::all_of(name.begin() + 2, name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
         });
}

void import_directive(const Directive& directive, std::size_t line, std::string_view source,
                      ImportState& state) {
  if (!is_option_name(directive.name))
    return state.remark(line, source, "this is not an option of sbatch");
  const KeyRow* row = find_sbatch_key(directive.name);
  const std::string path =
      row != nullptr ? std::string(row->path) : "slurm." + directive.name.substr(2);
  state.keys.set({path, directive.value ? yaml_text(*directive.value) : "true", line, ""});
}

/// Reads one option that starts with two dashes. Returns the number of words that were read: 2 if
/// the value is a word of its own.
std::size_t read_long_option(const std::vector<std::string>& words, std::size_t at,
                             Directive& into) {
  const std::string& word = words[at];
  const auto equals = word.find('=');
  into.name = full_name(word.substr(0, equals));
  into.value.reset();
  if (equals != std::string::npos) {
    into.value = word.substr(equals + 1);
    return 1;
  }
  const SbatchOptionRow* known = find_sbatch_option_row(into.name);
  const bool takes_next =
      at + 1 < words.size() && (known != nullptr ? known->needs_value : words[at + 1][0] != '-');
  if (!takes_next) return 1;
  into.value = words[at + 1];
  return 2;
}

/// Reads a word of short options, such as -N2 or -HN, and sets their keys. Returns the number of
/// words that were read: 2 if the value of the last option is a word of its own.
std::size_t import_short_options(const std::vector<std::string>& words, std::size_t at,
                                 std::size_t line, std::string_view source, ImportState& state) {
  const std::string& word = words[at];
  for (std::size_t i = 1; i < word.size(); ++i) {
    const SbatchOptionRow* known = find_sbatch_option_row(word[i]);
    if (known == nullptr) {
      state.remark(line, source, fmt::format("dlrun does not know the short option -{}", word[i]));
      return 1;
    }
    Directive directive{std::string(known->option), std::nullopt};
    if (!known->needs_value) {
      import_directive(directive, line, source, state);
      continue;
    }
    const bool is_in_word = i + 1 < word.size();
    if (!is_in_word && at + 1 == words.size()) {
      state.remark(line, source, fmt::format("-{} has no value", word[i]));
      return 1;
    }
    directive.value = is_in_word ? word.substr(i + 1) : words[at + 1];
    import_directive(directive, line, source, state);
    return is_in_word ? 1 : 2;
  }
  return 1;
}

void import_sbatch_line(const SbatchLine& line, std::string_view source, ImportState& state) {
  for (std::size_t at = 0; at < line.words.size();) {
    const std::string& word = line.words[at];
    if (word.starts_with("--")) {
      Directive directive;
      at += read_long_option(line.words, at, directive);
      import_directive(directive, line.number, source, state);
    } else if (word.size() > 1 && word[0] == '-') {
      at += import_short_options(line.words, at, line.number, source, state);
    } else {
      state.remark(line.number, source, "this is not an option of sbatch");
      return;
    }
  }
}

}  // namespace

void import_directives(std::string_view script, ImportState& state) {
  const auto source_lines = split(script, '\n');
  std::vector<bool> is_read(source_lines.size() + 1, false);
  for (const SbatchLine& line : numbered_sbatch_lines(script)) {
    is_read[line.number] = true;
    import_sbatch_line(line, trim(source_lines[line.number - 1]), state);
  }
  for (std::size_t i = 0; i < source_lines.size(); ++i) {
    if (source_lines[i].starts_with("#SBATCH") && !is_read[i + 1])
      state.remark(i + 1, trim(source_lines[i]), "sbatch ignores it, because it follows a command");
    if (source_lines[i].starts_with("#PBS"))
      state.remark(i + 1, trim(source_lines[i]), "dlrun reads the #SBATCH lines only");
  }
}

void add_slurm_variables_from_keys(ImportState& state) {
  // The variables with which Slurm describes the request of a job.
  constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kVariables{{
      {"resources.nodes"_key, "SLURM_NNODES"},
      {"resources.nodes"_key, "SLURM_JOB_NUM_NODES"},
      {"resources.ntasks"_key, "SLURM_NTASKS"},
      {"resources.ntasks"_key, "SLURM_NPROCS"},
      {"resources.tasks_per_node"_key, "SLURM_NTASKS_PER_NODE"},
      {"resources.cpus_per_task"_key, "SLURM_CPUS_PER_TASK"},
      {"resources.gpus_per_node"_key, "SLURM_GPUS_PER_NODE"},
      {"name", "SLURM_JOB_NAME"},
      {"resources.gpus"_key, "SLURM_GPUS"},
  }};
  const auto number = [&](std::string_view key) {
    const ImportedKey* found = state.keys.find(key);
    return found != nullptr ? parse_int(found->yaml) : std::nullopt;
  };
  for (const auto& [key, variable] : kVariables) {
    const ImportedKey* found = state.keys.find(key);
    if (found == nullptr) continue;
    // If YAML needs quotes around the name, found->yaml is not the name itself. The variable then
    // stays unknown.
    if (key == "name" ? !found->yaml.starts_with('"') : parse_int(found->yaml).has_value())
      state.variables.insert_or_assign(std::string(variable),
                                       ScriptVariable{found->yaml, std::nullopt, 0});
  }
  const auto nodes = number("resources.nodes"_key),
             tasks_per_node = number("resources.tasks_per_node"_key);
  if (nodes && tasks_per_node && state.keys.find("resources.ntasks"_key) == nullptr) {
    for (const char* variable : {"SLURM_NTASKS", "SLURM_NPROCS"})
      state.variables.insert_or_assign(
          variable, ScriptVariable{fmt::format("{}", *nodes * *tasks_per_node), std::nullopt, 0});
  }
}

}  // namespace dlrun
