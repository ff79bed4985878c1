#include "common/quoting.h"

#include <algorithm>

#include "common/text.h"

namespace dlrun {
namespace {

/// Returns true for characters that need no quotes in the shell and in sbatch.
bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("_-./:,+=@%").find(c) != std::string_view::npos;
}

}  // namespace

std::string shell_quote(std::string_view text) {
  // zsh expands a word that starts with '=', so such a word needs quotes. A '=' inside a word needs
  // no quotes, although "NAME=value" as the first word of a command is an assignment: in the
  // scripts that dlrun writes, the first word of a command is never a text of the user. Other
  // command lines are only shown to people.
  if (!text.empty() && text[0] != '=' && std::all_of(text.begin(), text.end(), is_plain))
    return std::string(text);
  const bool has_carriage_return = text.find('\r') != std::string_view::npos;
  std::string quoted = has_carriage_return ? "$'" : "'";
  for (char c : text) {
    if (has_carriage_return && (c == '\'' || c == '\\')) {
      quoted += {'\\', c};
    } else if (c == '\r') {
      quoted += "\\r";
    } else if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string shell_quote_all(std::span<const std::string> words) {
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    line += shell_quote(word);
  }
  return line;
}

Result<std::string> sbatch_quote(std::string_view value) {
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (is_control(value[i])) {
      return fail(
          Errc::kInvalid,
          "byte 0x{:02x} at offset {} is not allowed in an #SBATCH line: remove control characters",
          static_cast<unsigned char>(value[i]), i);
    }
  }
  if (!value.empty() && std::all_of(value.begin(), value.end(), is_plain))
    return std::string(value);
  std::string quoted = "\"";
  for (char c : value) {
    if (c == '\\' || c == '"') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

std::string escaped_for_sbatch_pattern(std::string_view text) {
  std::string pattern;
  for (const char c : text) pattern += c == '%' ? std::string("%%") : std::string{c};
  return pattern;
}

}  // namespace dlrun
