#pragma once
// The autopsy of a hang, from the run's record: the ranks, grouped by the place of their main
// threads in the code.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/run_events.h"

namespace dlrun {

/// Ranks whose main threads were at the same place in the code.
struct AutopsyGroup {
  std::string ranks;                ///< the ranks' numbers, such as "0-2, 4-7"
  std::string hosts;                ///< at most four
  std::int64_t count = 0;           ///< number of ranks
  std::vector<std::string> frames;  ///< frames of the main thread, innermost first
};

struct Autopsy {
  std::int64_t attempt = 0;
  std::int64_t rank_count = 0;       ///< number of ranks of the attempt
  std::int64_t outlier_count = 0;    ///< size of the first group if that group stands out, else 0
  std::vector<AutopsyGroup> groups;  ///< smallest first, at most six
};

/// Returns an event's autopsy, cut to a bounded size. Returns nullopt if the event has no group.
[[nodiscard]] std::optional<Autopsy> bounded_autopsy(const events::Autopsy& event,
                                                     std::int64_t attempt);

}  // namespace dlrun
