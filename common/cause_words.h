#pragma once
// The causes of an attempt's end and their names. The table also marks the causes that `retry.on`
// accepts. The launcher's key table and lead's parser read this table.

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "common/record_words.h"

namespace dlrun {

struct CauseRow {
  Cause value;
  std::string_view name;
  bool is_retry_cause = false;  ///< `retry.on` accepts the cause
};

inline constexpr std::array<CauseRow, 10> kCauses{{{Cause::kNone, "none"},
                                                   {Cause::kTimeout, "timeout", true},
                                                   {Cause::kPreemption, "preemption", true},
                                                   {Cause::kNodeFailure, "node_failure", true},
                                                   {Cause::kHang, "hang", true},
                                                   {Cause::kOom, "oom", true},
                                                   {Cause::kFailure, "failure", true},
                                                   {Cause::kRequeue, "requeue"},
                                                   {Cause::kImage, "image"},
                                                   {Cause::kContainer, "container"}}};

/// The values that `retry.on` accepts.
inline constexpr auto kRetryCauses = [] {
  constexpr std::size_t kSize = std::count_if(
      kCauses.begin(), kCauses.end(), [](const CauseRow& row) { return row.is_retry_cause; });
  std::array<std::string_view, kSize> names{};
  std::size_t size = 0;
  for (const CauseRow& row : kCauses) {
    if (row.is_retry_cause) names[size++] = row.name;
  }
  return names;
}();

}  // namespace dlrun
