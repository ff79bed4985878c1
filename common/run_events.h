#pragma once
// events.jsonl, the part that its writer (lead) and its readers share: which events decide and
// which pass, what of a program's words is kept, and how large the file may be
// (runtime/ENVIRONMENT.md, "events.jsonl").

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include <nlohmann/json.hpp>

namespace dlrun {

/// Lead writes the file anew, with fewer progress and samples, when it is larger than this.
inline constexpr std::size_t kCompactAtBytes = 32U << 20U;
/// No file of this version's lead is larger. Of a larger one readers take the beginning and the
/// end.
inline constexpr std::size_t kLargestRecordBytes = 64U << 20U;

/// The parts of a record that are read: bytes [0, head_end) and, where the record is too large to
/// be read whole, [tail_begin, size). The tail begins inside a line; tail_begin is size where there
/// is no tail.
struct RecordParts {
  off_t head_end = 0, tail_begin = 0;
};
[[nodiscard]] RecordParts parts_to_read(off_t size);

enum class EventClass {
  kDecides,  ///< attempts, restarts, ends, failures, the result: never left out
  kRemark,   ///< warnings and signals: the latest are kept
  kPasses,   ///< progress and samples: points of a curve, of which fewer are enough
};
/// A kind that this version does not know decides.
[[nodiscard]] EventClass class_of(std::string_view kind);

/// The event's kind as its line has it, without parsing it; empty where the line does not begin as
/// lead's lines do.
[[nodiscard]] std::string_view kind_of_line(std::string_view line);
/// The event's time in milliseconds since 1970, in the same way.
[[nodiscard]] std::optional<std::int64_t> time_of_line(std::string_view line);

/// Returns the fields of `progress` in rank 0's report that have the right type. Everything else is
/// dropped, so that a program cannot make the run's record large.
[[nodiscard]] nlohmann::ordered_json kept_progress(const nlohmann::ordered_json& body);

/// Returns the numbers, truth values and short texts of a final report, at most 64 of them.
[[nodiscard]] nlohmann::ordered_json kept_result(const nlohmann::ordered_json& body);

}  // namespace dlrun
