#include "common/columns.h"

#include <algorithm>

namespace dlrun {

std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), is_character_start));
}

std::string shortened(const std::string& text, std::size_t kept) {
  std::size_t seen = 0, at = 0;
  for (; at < text.size(); ++at) {
    if (is_character_start(text[at]) && ++seen > kept) return text.substr(0, at) + "...";
  }
  return text;
}

std::string cut(std::string_view text, std::size_t columns) {
  if (columns_of(text) <= columns) return std::string(text);
  if (columns == 0) return {};
  std::size_t at = 0;
  for (std::size_t seen = 0; at < text.size(); ++at) {
    if (is_character_start(text[at]) && seen++ == columns - 1) break;
  }
  return std::string(text.substr(0, at)) + "…";
}

}  // namespace dlrun
