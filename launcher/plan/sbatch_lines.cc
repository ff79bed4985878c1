#include "launcher/plan/sbatch_lines.h"

#include <algorithm>
#include <array>

#include <strings.h>

#include "common/text.h"

namespace dlrun {

std::vector<std::string> words_of_line(std::string_view rest) {
  std::vector<std::string> words;
  std::string word;
  bool has_word = false;
  char quote = '\0';
  for (std::size_t i = 0; i < rest.size(); ++i) {
    const char c = rest[i];
    if (c == '\\' && i + 1 < rest.size()) {
      word += rest[++i];
      has_word = true;
    } else if (quote != '\0') {
      if (c == quote) {
        quote = '\0';
      } else {
        word += c;
      }
    } else if (c == '"' || c == '\'') {
      quote = c;
      has_word = true;
    } else if (c == '#') {
      break;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      if (has_word) words.push_back(std::move(word));
      word.clear();
      has_word = false;
    } else {
      word += c;
      has_word = true;
    }
  }
  if (has_word) words.push_back(std::move(word));
  return words;
}

namespace {

std::vector<SbatchLine> numbered_lines(std::string_view script,
                                       std::string_view prefix = "#SBATCH") {
  std::vector<SbatchLine> lines;
  std::size_t number = 0;
  for (const auto line : split(script, '\n')) {
    ++number;
    const auto trimmed = trim(line);
    if (!trimmed.empty() && !trimmed.starts_with('#'))
      break;  // sbatch stops reading at the first command
    if (line.starts_with(prefix))
      lines.push_back({number, words_of_line(line.substr(prefix.size()))});
  }
  return lines;
}

/// Returns true if sbatch reads the word as the option's name: in full, or abbreviated. Also
/// returns true for an ambiguous abbreviation, because sbatch refuses the script anyway.
bool is_name_of(std::string_view word, std::string_view long_name) {
  constexpr std::string_view kDashes = "--";
  // These words are starts of other names, but each one is the name of an option itself.
  constexpr std::array<std::string_view, 7> kNeverAbbreviations = {
      "--export", "--gpus", "--gres", "--mem", "--ntasks", "--time", "--wait"};
  if (word == long_name) return true;
  return word.size() > kDashes.size() && long_name.starts_with(word) &&
         std::find(kNeverAbbreviations.begin(), kNeverAbbreviations.end(), word) ==
             kNeverAbbreviations.end();
}

/// Returns true for the words of the line that separates the parts of a heterogeneous job.
bool separates_parts(const std::vector<std::string>& words) {
  if (words.empty()) return false;
  const char* first = words.front().c_str();
  return ::strcasecmp(first, "hetjob") == 0 || ::strcasecmp(first, "packjob") == 0;
}

/// Returns the position of the option's letter in a word such as "-HQa0-1". Only letters of options
/// without a value may precede it.
std::optional<std::size_t> position_of_letter(std::string_view word, std::string_view short_name) {
  constexpr std::string_view kFlags = "hHIOQsuvVW";
  if (short_name.size() != 2 || !word.starts_with('-') || word.starts_with("--"))
    return std::nullopt;
  for (std::size_t at = 1; at < word.size(); ++at) {
    if (word[at] == short_name[1]) return at;
    if (kFlags.find(word[at]) == std::string_view::npos) return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::vector<std::string>> sbatch_lines(std::string_view script) {
  std::vector<std::vector<std::string>> lines;
  for (SbatchLine& line : numbered_lines(script)) lines.push_back(std::move(line.words));
  return lines;
}

std::vector<SbatchLine> numbered_sbatch_lines(std::string_view script) {
  return numbered_lines(script);
}

std::optional<ScriptOption> sbatch_option(std::string_view script, std::string_view long_name,
                                          std::string_view short_name) {
  std::optional<ScriptOption> found;
  for (const auto& [number, words] : numbered_lines(script)) {
    std::optional<std::string> value;
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::string& word = words[i];
      const bool has_next = i + 1 < words.size();
      const std::size_t equals = word.find('=');
      const auto letter = position_of_letter(word, short_name);
      if (letter ? *letter + 1 == word.size() : is_name_of(word, long_name)) {
        if (has_next) value = words[++i];
      } else if (letter) {
        value = word.substr(*letter + 1);
      } else if (equals != std::string::npos &&
                 is_name_of(std::string_view(word).substr(0, equals), long_name)) {
        value = word.substr(equals + 1);
      }
    }
    if (value) found = {std::move(*value), number};
  }
  return found;
}

std::optional<std::string> sbatch_value(std::string_view script, std::string_view long_name,
                                        std::string_view short_name) {
  auto option = sbatch_option(script, long_name, short_name);
  if (!option) return std::nullopt;
  return std::move(option->value);
}

std::optional<std::size_t> line_of_flag(std::string_view script, std::string_view long_name,
                                        std::string_view short_name) {
  for (const auto& [number, words] : numbered_lines(script)) {
    const bool is_given = std::any_of(words.begin(), words.end(), [&](const std::string& word) {
      return is_name_of(word, long_name) || position_of_letter(word, short_name);
    });
    if (is_given) return number;
  }
  return std::nullopt;
}

std::optional<ScriptOption> pbs_option(std::string_view script, std::string_view name) {
  if (line_of_flag(script, "--ignore-pbs", "")) return std::nullopt;
  std::optional<ScriptOption> found;
  for (const auto& [number, words] : numbered_lines(script, "#PBS")) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (words[i] == name && i + 1 < words.size()) {
        found = {words[++i], number};
      } else if (words[i].starts_with(name) && words[i].size() > name.size()) {
        found = {words[i].substr(name.size()), number};
      }
    }
  }
  return found;
}

std::optional<std::size_t> line_of_part_separator(std::string_view script) {
  for (const auto& [number, words] : numbered_lines(script)) {
    if (separates_parts(words)) return number;
  }
  return std::nullopt;
}

std::vector<std::string> no_op_scripts_of_parts(std::string_view script) {
  const auto lines = split(script, '\n');
  std::vector<std::string> parts{"#!/bin/sh\n"};
  for (const auto& [number, words] : numbered_lines(script)) {
    if (separates_parts(words)) {
      parts.emplace_back("#!/bin/sh\n");
    } else {
      parts.back().append(lines[number - 1]).append("\n");
    }
  }
  for (std::string& part : parts) part += "true\n";
  return parts;
}

}  // namespace dlrun
