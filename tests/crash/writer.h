#pragma once
// Tests one writer of files: its reader must find a valid state after a crash at any moment.

#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "tests/crash/lazy_disk.h"

namespace dlrun::crash {

struct Writer {
  /// Creates the files that exist before the writer runs; they count as synced. May be empty.
  std::function<void(const std::filesystem::path& folder)> prepare;
  /// Writes below `folder`. Calls disk.report_done() after each step that the writer reports as
  /// done.
  std::function<Result<>(const std::filesystem::path& folder, LazyDisk& disk)> write;
  /// Reads the state after a crash. Returns the fault, or "" if there is none. reported: the steps
  /// for which the writer had called report_done() before the crash.
  std::function<std::string(const std::filesystem::path& folder,
                            const std::set<std::string>& reported)>
      fault_of;
};

/// A guard is an ordering call of a writer: fsync, fdatasync, rename or link. An unneeded guard can
/// be skipped without causing a fault; `reason` is why.
struct UnneededGuard {
  std::string_view guard;  ///< as in LazyDisk::ordering_calls()
  std::string_view reason;
};

/// Checks that the reader finds no fault after any crash. Then skips each guard of the writer in
/// turn, and checks that the reader finds a fault or the writer fails, except for the guards in
/// `unneeded`. Also checks that each guard in `unneeded` exists and can be skipped without a fault.
void check_writer(const Writer& writer, const std::vector<UnneededGuard>& unneeded = {});

}  // namespace dlrun::crash
