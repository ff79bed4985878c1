#pragma once
// Lists of numbers, such as the ranks of a large job, as short text.

#include <string>
#include <vector>

#include <fmt/format.h>

namespace dlrun {

/// Returns numbers in ascending order as text such as "3, 6-9, 12". Ends in "..." after about 160
/// characters.
template <typename Integer>
[[nodiscard]] std::string number_ranges(const std::vector<Integer>& sorted) {
  std::string out;
  for (std::size_t at = 0; at < sorted.size();) {
    std::size_t last = at;
    while (last + 1 < sorted.size() && sorted[last + 1] == sorted[last] + 1) ++last;
    if (out.size() > 160) return out + ", ...";
    if (!out.empty()) out += ", ";
    out +=
        last == at ? fmt::format("{}", sorted[at]) : fmt::format("{}-{}", sorted[at], sorted[last]);
    at = last + 1;
  }
  return out;
}

}  // namespace dlrun
