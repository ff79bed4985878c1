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

/// Returns the position in the key table of the key that a path sets, or of the map that has it.
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
                    std::span<const std::string_view> before) {
  bool is_shared = true;
  for (std::size_t depth = 0; depth + 1 < parts.size(); ++depth) {
    is_shared = is_shared && depth + 1 < before.size() && before[depth] == parts[depth];
    if (is_shared) continue;
    if (depth == 0) {
      page.heading(parts[depth]);
    } else {
      page.row(fmt::format("{:{}}{}:", "", 2 * depth, parts[depth]));
    }
  }
}

bool is_variable_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
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
  std::vector<std::string_view> before;
  for (const auto& [position, key] : order) {
    const auto parts = split(key->path, '.');
    print_sections(page, parts, before);
    std::string comment = key->comment;
    if (comment.empty() && key->line > 0) comment = fmt::format("line {}", key->line);
    page.row(fmt::format("{:{}}{}: {}", "", 2 * (parts.size() - 1), parts.back(), key->yaml),
             comment);
    before = parts;
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
      const std::string quoted = yaml_string(parts[i]);
      result += quoted.substr(1, quoted.size() - 2);
    }
  }
  return result + "\"";
}

void ImportState::remark(std::size_t line, std::string_view source, std::string reason) {
  const auto masked = without_secret_words(source);
  if (masked.has_secret) reason += fmt::format("; {}", kSecretWordAdvice);
  remarks.push_back({line, 0, without_secrets(masked.text), std::move(reason)});
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
    if (!known->second) return std::nullopt;
    const std::string& value = *known->second;
    if (!part.is_quoted && value.find_first_of("*?[") != std::string::npos) return std::nullopt;
    if (!part.is_quoted && (value.empty() || value.find_first_of(" \t\n") != std::string::npos)) {
      if (word.parts.size() > 1) return std::nullopt;
      std::vector<std::string> words;
      for (const auto blank_free : split(value, ' ')) {
        if (!trim(blank_free).empty()) words.emplace_back(trim(blank_free));
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

bool is_secret_name(std::string_view name) {
  std::string upper(name);
  std::transform(upper.begin(), upper.end(), upper.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  constexpr std::array<std::string_view, 7> kWords{"KEY",    "APIKEY",   "TOKEN",      "SECRET",
                                                   "PASSWD", "PASSWORD", "CREDENTIALS"};
  const auto words = split(upper, '_');
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    return std::find(kWords.begin(), kWords.end(), word) != kWords.end();
  });
}

std::string without_secrets(std::string_view text) {
  std::string shown;
  std::size_t at = 0;
  while (at < text.size()) {
    const auto equals = text.find('=', at);
    if (equals == std::string_view::npos) break;
    std::size_t start = equals;
    while (start > at && is_variable_character(text[start - 1])) --start;
    shown += text.substr(at, equals + 1 - at);
    at = equals + 1;
    if (start == equals || !is_secret_name(text.substr(start, equals - start))) continue;
    const bool is_quoted = at < text.size() && (text[at] == '"' || text[at] == '\'');
    const auto end = is_quoted ? text.find(text[at], at + 1) : text.find_first_of(" \t;&|,\"'", at);
    at = end == std::string_view::npos ? text.size() : end + (is_quoted ? 1 : 0);
    shown += "...";
  }
  return shown + std::string(text.substr(std::min(at, text.size())));
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
  // An assignment splits no words, so that every part counts as quoted.
  for (ShellPart& part : assignment.value.parts) part.is_quoted = true;
  return assignment;
}

}  // namespace dlrun
