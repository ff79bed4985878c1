#pragma once
// Compacts events.jsonl, so that the record of a run that lasts a month stays below
// kLargestRecordBytes. Called by lead, the only writer. common/run_events.h defines this limit and
// the importance of each event.

#include <filesystem>

#include "common/result.h"
#include "runtime/agent/background_file.h"

namespace dlrun::agent {

/// Replaces the record by a smaller one and returns the new file, open for appending. Keeps these
/// lines, unchanged and in their old order:
/// - every event of importance kEssential, but only the last `result` event of an attempt (and
///   component), which contains the earlier ones;
/// - the latest events of importance kRemark (warnings and signals);
/// - `progress` and `samples` evenly spaced over the whole time, and the first, last and furthest
///   `progress` of each attempt (and component).
/// Damaged lines are dropped. Crash-safe: temporary file, fsync, rename, fsync of the folder. A
/// reader sees either the old file or the new one. Uses bounded memory for a file of any size.
///
/// After a failure the old file is still in its place, and the caller goes on writing to it. If
/// only the folder cannot be synced, this is no failure: the new file is in place, the caller must
/// write to it, and `sync_error` holds the error.
[[nodiscard]] Result<BackgroundFile::Renewed> compact_events(const std::filesystem::path& path);

}  // namespace dlrun::agent
