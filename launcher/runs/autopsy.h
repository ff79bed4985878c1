#pragma once
// The autopsy of a hang as the run's record has it: the ranks, grouped by where they stood.

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace dlrun {

struct AutopsyGroup {
  std::string ranks;                ///< "0-2, 4-7"
  std::string hosts;                ///< at most four of them
  std::int64_t count = 0;           ///< ranks
  std::vector<std::string> frames;  ///< of the main thread, the innermost first
};

struct Autopsy {
  std::int64_t attempt = 0;
  std::int64_t ranks = 0;            ///< of the attempt
  std::int64_t odd = 0;              ///< ranks of the first group where it stands out, else 0
  std::vector<AutopsyGroup> groups;  ///< the smallest first, at most six
};

/// Reads an `autopsy` event; nothing where it names no group.
[[nodiscard]] std::optional<Autopsy> read_autopsy(const nlohmann::ordered_json& event);

}  // namespace dlrun
