#include "launcher/spec/yaml_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/text.h"

namespace dlrun {
namespace {

/// Returns the escape for a line break of YAML 1.1 beyond ASCII (U+0085, U+2028, U+2029) at the
/// start of text; otherwise "". A YAML reader drops blanks around such a line break.
std::string_view break_escape(std::string_view text) {
  if (text.starts_with("\xC2\x85")) return "\\u0085";
  if (text.starts_with("\xE2\x80\xA8")) return "\\u2028";
  if (text.starts_with("\xE2\x80\xA9")) return "\\u2029";
  return {};
}

}  // namespace

std::string quoted_yaml(std::string_view text) {
  std::string result = "\"";
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '$' && text.substr(i, 2) == "${") result += '$';
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (c == '\n') {
      result += "\\n";
    } else if (c == '\t') {
      result += "\\t";
    } else if (const auto escape = break_escape(text.substr(i)); !escape.empty()) {
      result += escape;
      i += escape == "\\u0085" ? 1 : 2;
    } else if (is_control(c)) {
      result += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));  // valid in YAML and JSON
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string yaml_text(std::string_view text) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '/' || c == '-';
  };
  const bool is_bare = !text.empty() && text[0] != '-' && text[0] != '.' &&
                       std::all_of(text.begin(), text.end(), is_plain) && text != "null" &&
                       text != "Null" && text != "NULL";
  return is_bare ? std::string(text) : quoted_yaml(text);
}

}  // namespace dlrun
