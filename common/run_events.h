#pragma once
// Rules for events.jsonl that its writer (lead) and its readers share: how important each event is,
// which fields of a program's reports are kept, and how large the file may be
// (runtime/ENVIRONMENT.md, "events.jsonl").

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include <nlohmann/json.hpp>

namespace dlrun {

/// Size in bytes above which lead rewrites the file with fewer progress and samples events.
inline constexpr std::size_t kCompactAtBytes = 32U << 20U;
/// Largest file in bytes that lead writes. Readers take only the beginning and the
/// end of a larger one.
inline constexpr std::size_t kLargestRecordBytes = 64U << 20U;

/// The parts of a file that readers read, as offsets in bytes: [0, head_end) and, if the file is
/// too large, [tail_begin, size). The tail may begin inside a line. tail_begin equals the size
/// if there is no tail.
struct RecordParts {
  off_t head_end = 0, tail_begin = 0;
};
[[nodiscard]] RecordParts parts_to_read(off_t size);

enum class EventClass {
  kDecides,  ///< attempts, restarts, ends, failures, the result: never dropped
  kRemark,   ///< warnings and signals: the latest ones are kept
  kPasses,   ///< progress and samples: may be thinned out
};
/// Returns the class of an event; kDecides for unknown kinds.
[[nodiscard]] EventClass class_of(std::string_view kind);

/// Returns the event's kind without parsing the line; empty if the line does not
/// begin like lead's lines.
[[nodiscard]] std::string_view kind_of_line(std::string_view line);
/// Returns the event's time in milliseconds since 1970 without parsing the line.
[[nodiscard]] std::optional<std::int64_t> time_of_line(std::string_view line);

/// Returns the progress fields of rank 0's report that have the right type. Drops all others, so
/// that a program cannot make the file large.
[[nodiscard]] nlohmann::ordered_json kept_progress(const nlohmann::ordered_json& body);

/// Returns the numbers, booleans and short texts of a final report; at most 64 fields.
[[nodiscard]] nlohmann::ordered_json kept_result(const nlohmann::ordered_json& body);

}  // namespace dlrun
