#include "launcher/plan/sbatch_words.h"

#include "common/text.h"

namespace dlrun {

std::vector<std::string> sbatch_words_of(std::string_view rest) {
  std::vector<std::string> words;
  std::string word;
  bool is_open = false;
  char quote = '\0';
  for (std::size_t i = 0; i < rest.size(); ++i) {
    const char c = rest[i];
    if (c == '\\' && i + 1 < rest.size()) {
      word += rest[++i];
      is_open = true;
    } else if (quote != '\0') {
      if (c == quote) {
        quote = '\0';
      } else {
        word += c;
      }
    } else if (c == '"' || c == '\'') {
      quote = c;
      is_open = true;
    } else if (c == '#') {
      break;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      if (is_open) words.push_back(std::move(word));
      word.clear();
      is_open = false;
    } else {
      word += c;
      is_open = true;
    }
  }
  if (is_open) words.push_back(std::move(word));
  return words;
}

namespace {

struct SbatchLine {
  std::size_t number = 0;  ///< from 1
  std::vector<std::string> words;
};

std::vector<SbatchLine> numbered_lines(std::string_view script) {
  std::vector<SbatchLine> lines;
  std::size_t number = 0;
  for (const auto line : split(script, '\n')) {
    ++number;
    const auto trimmed = trim(line);
    if (!trimmed.empty() && !trimmed.starts_with('#')) break;  // sbatch stops reading at the first command
    constexpr std::string_view kMark = "#SBATCH";
    if (line.starts_with(kMark)) lines.push_back({number, sbatch_words_of(line.substr(kMark.size()))});
  }
  return lines;
}

/// Whether sbatch takes the word for the option: its name, or a beginning of it that is no other's name. (Where a
/// beginning is that of several options sbatch refuses the script.)
bool is_name_of(std::string_view word, std::string_view long_name) {
  constexpr std::string_view kDashes = "--";
  if (word == long_name) return true;
  return word.size() > kDashes.size() && long_name.starts_with(word) && word != "--ntasks" && word != "--gpus";
}

}  // namespace

std::vector<std::vector<std::string>> sbatch_lines(std::string_view script) {
  std::vector<std::vector<std::string>> lines;
  for (SbatchLine& line : numbered_lines(script)) lines.push_back(std::move(line.words));
  return lines;
}

std::optional<SbatchOption> sbatch_option(std::string_view script, std::string_view long_name,
                                          std::string_view short_name) {
  std::optional<SbatchOption> found;
  for (const auto& [number, words] : numbered_lines(script)) {
    std::optional<std::string> value;
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::string& word = words[i];
      const bool has_next = i + 1 < words.size();
      const std::size_t equals = word.find('=');
      if ((is_name_of(word, long_name) || (!short_name.empty() && word == short_name)) && has_next) {
        value = words[++i];
      } else if (equals != std::string::npos && is_name_of(std::string_view(word).substr(0, equals), long_name)) {
        value = word.substr(equals + 1);
      } else if (!short_name.empty() && word.starts_with(short_name) && !word.starts_with("--") &&
                 word.size() > short_name.size()) {
        value = word.substr(short_name.size());
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

}  // namespace dlrun
