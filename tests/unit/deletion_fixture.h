#pragma once
// A fixture for tests that delete runs.

#include <cstddef>
#include <filesystem>
#include <iterator>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "common/files.h"
#include "launcher/runs/index.h"
#include "launcher/runs/resolve.h"
#include "launcher/runs/run_deletion.h"
#include "launcher/runs/run_directory.h"
#include "tests/temporary_directory.h"

namespace dlrun {

/// The ids of two runs of the same name.
inline constexpr const char* kOlderId = "mnist-20261121-120000-00aa";
inline constexpr const char* kNewerId = "mnist-20261121-130000-00bb";

/// A runs folder, a folder outside it with the file `kept`, and an index.
struct DeletionFixture {
  TemporaryDirectory folder;
  std::filesystem::path runs = folder.path() / "runs", outside = folder.path() / "outside";
  RunIndex index{folder.path() / "state" / "runs"};

  DeletionFixture() {
    std::filesystem::create_directories(runs);
    put(outside / "kept", "kept");
  }
  static void put(const std::filesystem::path& path, std::string_view text) {
    std::filesystem::create_directories(path.parent_path());
    REQUIRE(write_file_atomic(path, text).has_value());
  }
  /// Writes the journal of a refused submission.
  static void put_journal(const std::filesystem::path& run) {
    put(run / "submission.json",
        fmt::format(R"({{"state":"refused","argv":["sbatch","{}/job.sh"]}})", run.string()));
  }
  /// Creates a run with a journal and adds it to the index.
  IndexEntry make_run(const std::string& id, const std::string& created = "2026-11-21T12:00:00") {
    const IndexEntry entry{id, name_of_id(id), runs / id, created};
    put_journal(entry.path);
    REQUIRE(index.add(entry).has_value());
    return entry;
  }
  /// Examines the run, and deletes these parts of it unless the check fails.
  [[nodiscard]] Result<TreeDeletion> remove(const IndexEntry& run, const DeletionCheck& check,
                                            RunParts parts = RunParts::kAll) const {
    const auto examined = examine_run(run, parts);
    if (!examined) return tl::unexpected(examined.error());
    return delete_run(index, run, examined->identity, parts, check);
  }
  /// Deletes these parts of a run, with a check that says that the run has completed.
  [[nodiscard]] Result<TreeDeletion> remove(const IndexEntry& run,
                                            RunParts parts = RunParts::kAll) const {
    return remove(
        run, [] { return Result<RunState>(RunState::kCompleted); }, parts);
  }
  [[nodiscard]] Result<IndexEntry> resolve(std::string_view text) const {
    return resolve_run(text, index, folder.path());
  }
  /// Returns the number of entries in the runs folder, including hidden ones.
  [[nodiscard]] std::ptrdiff_t entry_count() const {
    return std::distance(std::filesystem::directory_iterator(runs),
                         std::filesystem::directory_iterator());
  }
};

}  // namespace dlrun
