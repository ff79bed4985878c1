#pragma once
// events.jsonl made smaller by its only writer, so that a month's run stays within
// kLargestRecordBytes (common/run_events.h). What decides stays to the byte; curves keep their form
// with fewer points.

#include <filesystem>

#include "common/files.h"
#include "common/result.h"

namespace dlrun::agent {

/// Writes the record anew and returns it open for appending. The lines that stay are the old lines,
/// in their order: every event that decides, but of an attempt's results the last (it holds the
/// ones before); the latest remarks; of progress and samples evenly spaced ones over the whole
/// time, and each attempt's first, last and furthest progress. Damaged lines go. Crash-safe: a
/// temporary file, fsync, rename, fsync of the folder; a reader sees the old file or the new one.
/// Memory is bounded whatever the file's size.
[[nodiscard]] Result<UniqueFd> compact_events(const std::filesystem::path& path);

}  // namespace dlrun::agent
