#include "launcher/import/import_state.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "common/text.h"
#include "launcher/spec/secret_words.h"
#include "launcher/spec/spec_builder.h"
#include "launcher/spec/yaml_page.h"
#include "launcher/spec/yaml_text.h"

namespace dlrun {
namespace {

/// Returns the position of a path's row in the key table: the row of the key, or of the map that
/// has the path as an entry.
std::size_t position_in_table(std::string_view path) {
  const auto rows = spec_keys();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string_view key = rows[i].path;
    if (path == key || (path.starts_with(key) && path[key.size()] == '.')) return i;
  }
  return rows.size();
}

/// Prints the sections of a path that the previous path does not share.
void print_sections(YamlPage& page, std::span<const std::string_view> parts,
                    std::span<const std::string_view> previous) {
  bool is_shared = true;
  for (std::size_t depth = 0; depth + 1 < parts.size(); ++depth) {
    is_shared = is_shared && depth + 1 < previous.size() && previous[depth] == parts[depth];
    if (is_shared) continue;
    if (depth == 0) {
      page.begin_section(parts[depth]);
    } else {
      page.add_line(fmt::format("{:{}}{}:", "", 2 * depth, parts[depth]));
    }
  }
}

}  // namespace

void ImportedKeys::set(ImportedKey key) {
  remove(key.path);
  keys_.push_back(std::move(key));
}

const ImportedKey* ImportedKeys::find(std::string_view path) const {
  const auto found = std::find_if(keys_.begin(), keys_.end(),
                                  [&](const ImportedKey& key) { return key.path == path; });
  return found == keys_.end() ? nullptr : &*found;
}

std::optional<ImportedKey> ImportedKeys::remove(std::string_view path) {
  const auto found = std::find_if(keys_.begin(), keys_.end(),
                                  [&](const ImportedKey& key) { return key.path == path; });
  if (found == keys_.end()) return std::nullopt;
  ImportedKey key = std::move(*found);
  keys_.erase(found);
  return key;
}

std::string ImportedKeys::yaml() const {
  std::vector<std::pair<std::size_t, const ImportedKey*>> order;
  for (const ImportedKey& key : keys_) order.emplace_back(position_in_table(key.path), &key);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  YamlPage page;
  std::vector<std::string_view> previous;
  for (const auto& [position, key] : order) {
    const auto parts = split(key->path, '.');
    print_sections(page, parts, previous);
    std::string comment = key->comment;
    if (comment.empty() && key->line > 0) comment = fmt::format("line {}", key->line);
    page.add_line(fmt::format("{:{}}{}: {}", "", 2 * (parts.size() - 1), parts.back(), key->yaml),
                  comment);
    previous = parts;
  }
  return page.take();
}

std::string yaml_with_variables(std::string_view text) {
  if (text.find(kVariableMark) == std::string_view::npos) return yaml_text(text);
  std::string result = "\"";
  const auto parts = split(text, kVariableMark);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i % 2 == 1) {
      result += fmt::format("${{{}}}", parts[i]);
    } else {
      const std::string quoted = quoted_yaml(parts[i]);
      result += quoted.substr(1, quoted.size() - 2);
    }
  }
  return result + "\"";
}

void ImportState::remark(std::size_t line, std::string_view source, std::string_view reason) {
  const auto masked = mask_secrets(source, secret_names);
  std::string shown = mask_secrets(reason, secret_names).text;
  if (masked.had_secret) shown += fmt::format("; {}", kSecretWordAdvice);
  remarks.push_back({line, 0, masked.text, std::move(shown)});
}

void ImportState::remark_on_secret(std::size_t line, std::string_view source, std::string reason) {
  remarks.push_back({line, 0, mask_secrets(source, secret_names).text, std::move(reason)});
}

void ImportState::add_secret(const std::string& name, std::size_t line, std::string_view source) {
  if (!has_secret(name)) secret_names.push_back(name);
  if (secrets_line == 0) secrets_line = line;
  // An earlier line may have given the variable an ordinary value.
  keys.remove("environment.vars." + name);
  remark_on_secret(
      line, source,
      fmt::format(
          "its name or value looks like a secret, so the value is not copied: set {} in your "
          "shell before you submit, or give environment.secrets a file",
          name));
}

bool ImportState::has_secret(std::string_view name) const {
  return std::find(secret_names.begin(), secret_names.end(), name) != secret_names.end();
}

std::optional<std::vector<std::string>> expanded(const ShellWord& word, const ImportState& state) {
  if (word.is_complex) return std::nullopt;
  std::string text;
  for (const ShellPart& part : word.parts) {
    if (!part.is_variable) {
      text += part.text;
      continue;
    }
    const auto known = state.variables.find(part.text);
    if (known == state.variables.end()) {
      if (part.text != "HOME" && part.text != "USER") return std::nullopt;
      text += kVariableMark + part.text + kVariableMark;
      continue;
    }
    if (!known->second.value) return std::nullopt;
    const std::string& value = *known->second.value;
    if (!part.is_quoted && value.find_first_of("*?[") != std::string::npos) return std::nullopt;
    if (!part.is_quoted && (value.empty() || value.find_first_of(" \t\n") != std::string::npos)) {
      if (word.parts.size() > 1) return std::nullopt;
      std::vector<std::string> words;
      for (const auto piece : split(value, ' ')) {
        if (!trim(piece).empty()) words.emplace_back(trim(piece));
      }
      if (value.find_first_of("\t\n") != std::string::npos) return std::nullopt;
      return words;
    }
    text += value;
  }
  return std::vector<std::string>{text};
}

std::optional<std::string> expanded_text(const ShellWord& word, const ImportState& state) {
  auto words = expanded(word, state);
  if (!words || words->size() != 1) return std::nullopt;
  return std::move(words->front());
}

bool is_variable_of_rank(std::string_view name) {
  constexpr std::array<std::string_view, 13> kOfRank{
      "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_TASK_PID", "SLURMD_NODENAME",
      "HOSTNAME",     "RANDOM",        "SRANDOM",      "SECONDS",        "EPOCHSECONDS",
      "BASHPID",      "PPID",          "LINENO"};
  return std::find(kOfRank.begin(), kOfRank.end(), name) != kOfRank.end();
}

std::optional<std::string> job_text_of(const ShellWord& word, const ImportState& state) {
  if (word.is_complex) return std::nullopt;
  std::string text;
  for (const ShellPart& part : word.parts) {
    const auto known = state.variables.find(part.text);
    if (!part.is_variable) {
      text += part.text;
    } else if (known != state.variables.end()) {
      const auto& [value, job_text, line] = known->second;
      if (!value && !job_text) return std::nullopt;
      text += value ? *value : *job_text;
    } else if (is_variable_of_rank(part.text)) {
      return std::nullopt;
    } else {
      text += kVariableMark + part.text + kVariableMark;
    }
  }
  return text;
}

std::vector<std::string> variables_in(const ShellWord& word) {
  std::vector<std::string> names;
  for (const ShellPart& part : word.parts) {
    if (part.is_variable) names.push_back(part.text);
  }
  return names;
}

std::optional<Assignment> assignment_of(const ShellWord& word) {
  if (word.parts.empty() || word.parts.front().is_variable || word.parts.front().is_quoted)
    return std::nullopt;
  const std::string& first = word.parts.front().text;
  const auto equals = first.find('=');
  if (equals == std::string::npos || !is_variable_name(std::string_view(first).substr(0, equals)))
    return std::nullopt;
  Assignment assignment{first.substr(0, equals), word};
  assignment.value.parts.front().text.erase(0, equals + 1);
  const auto in_source = word.source.find('=');
  assignment.value.source = word.source.substr(in_source + 1);
  // The shell does not split the value of an assignment, so every part counts as quoted.
  for (ShellPart& part : assignment.value.parts) part.is_quoted = true;
  return assignment;
}

}  // namespace dlrun
