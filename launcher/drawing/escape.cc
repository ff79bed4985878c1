#include "launcher/drawing/escape.h"

#include "common/text.h"

namespace dlrun {

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string escape_html_lines(std::string_view text) {
  std::string out;
  for (const auto line : split(text, '\n')) out += escape_html(line) + '\n';
  if (!out.empty()) out.pop_back();
  return out;
}

}  // namespace dlrun
