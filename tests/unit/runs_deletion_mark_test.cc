// Tests deletions that were interrupted, and the marks by which they are finished. A run's
// directory has the mark `.deletion-planned` until its deletion is final, and then `.deleted`
// (launcher/runs/deletion_mark.cc).

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include "common/files.h"
#include "common/sha256.h"
#include "launcher/runs/deletion_mark.h"
#include "launcher/runs/run_deletion.h"
#include "tests/contains.h"
#include "tests/unit/deletion_fixture.h"

namespace dlrun {
namespace {

namespace fs = std::filesystem;

/// A run whose deletion was interrupted after its directory was renamed.
struct InterruptedFixture : DeletionFixture {
  IndexEntry run{kOlderId, "mnist", runs / kOlderId, "2026-11-21T12:00:00.000Z"};
  fs::path renamed = runs / fmt::format(".deleted-{}-0123456789abcdef", kOlderId);

  InterruptedFixture() {
    put(renamed / "ckpt" / "model.bin", "x");
    REQUIRE(index.add(run).has_value());
  }
  /// Writes a mark into a directory that has no file of kFilesChangedByUse (deletion_mark.cc).
  /// new_name: the name in the mark, which is normally the name of the renamed directory.
  void write_mark(const char* name, const fs::path& directory, const std::string& run_id,
                  const std::string& new_name) const {
    struct stat info {};
    REQUIRE(::stat(directory.c_str(), &info) == 0);
    constexpr int kStampedFileCount = 9;  // the size of kFilesChangedByUse
    std::string stamps;
    for (int i = 0; i < kStampedFileCount; ++i) stamps += "-\n";
    put(directory / name, fmt::format(R"({{"run":"{}","renamed":"{}","inode":"{}","stamps":"{}"}})",
                                      run_id, new_name, info.st_ino, sha256_of_text(stamps)));
  }
  /// Writes the mark of the interrupted deletion.
  void write_mark(const char* name) const {
    write_mark(name, renamed, kOlderId, renamed.filename().string());
  }
};

}  // namespace

TEST_CASE_FIXTURE(InterruptedFixture, "an interrupted deletion is finished") {
  SUBCASE("it was final") {
    write_mark(".deleted");
  }
  SUBCASE("it was not final, and the run was not used afterwards") {
    write_mark(".deletion-planned");
  }
  const auto effect = finish_deletions(runs);
  CHECK(effect.done.freed.files == 2);
  CHECK_FALSE(effect.is_another_at_work);
  CHECK(entry_count() == 0);
}

TEST_CASE_FIXTURE(
    InterruptedFixture,
    "an empty directory that an interrupted deletion left is removed, although it has no mark") {
  fs::remove_all(renamed / "ckpt");
  CHECK(finish_deletions(runs).done.undeleted_count == 0);
  CHECK(entry_count() == 0);
}

TEST_CASE_FIXTURE(InterruptedFixture,
                  "a run that was used before its deletion was final gets its directory back") {
  write_mark(".deletion-planned");
  put(renamed / "claim", "{}");
  CHECK(finish_deletions(runs).done.freed.files == 0);
  CHECK(fs::exists(run.path / "ckpt" / "model.bin"));
  CHECK_FALSE(fs::exists(run.path / ".deletion-planned"));
  CHECK(entry_count() == 1);
}

TEST_CASE_FIXTURE(InterruptedFixture,
                  "the removal of a run from the index also deletes the files that its interrupted "
                  "deletion left") {
  write_mark(".deletion-planned");
  const auto done = remove_run_without_directory(index, run);
  REQUIRE(done.has_value());
  CHECK(done->freed.files == 2);
  CHECK(entry_count() == 0);
  CHECK(index.list()->entries.empty());
}

TEST_CASE_FIXTURE(InterruptedFixture,
                  "a run that another dlrun is deleting keeps its index entry and its files") {
  write_mark(".deletion-planned");
  const UniqueFd other(::open(renamed.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  REQUIRE(::flock(other.get(), LOCK_EX | LOCK_NB) == 0);
  CHECK(has(remove_run_without_directory(index, run).error().message,
            "another dlrun is deleting it"));
  CHECK(index.find(kOlderId).has_value());
  CHECK(fs::exists(renamed / "ckpt" / "model.bin"));
}

TEST_CASE_FIXTURE(InterruptedFixture,
                  "a directory is deleted only if it has the mark of its own deletion") {
  const std::string name = renamed.filename().string();
  SUBCASE("it has no mark") {}
  SUBCASE("its mark is empty") {
    put(renamed / ".deleted", "");
  }
  SUBCASE("its mark names another run") {
    write_mark(".deleted", renamed, kNewerId, name);
  }
  SUBCASE("its mark has another new name") {
    write_mark(".deleted", renamed, kOlderId, name + "0");
  }
  SUBCASE("its mark is that of another directory") {
    write_mark(".deleted", outside, kOlderId, name);
    fs::rename(outside / ".deleted", renamed / ".deleted");
  }
  put(runs / ".deleted-notes-about-experiments" / ".deleted", "");  // not the name of a deletion
  fs::create_directory_symlink(outside, runs / ".deleted-link-20261121-120000-0123456789abcdef");
  CHECK(finish_deletions(runs).done.freed.files == 0);
  CHECK(fs::exists(renamed / "ckpt" / "model.bin"));
  CHECK(fs::exists(runs / ".deleted-notes-about-experiments" / ".deleted"));
  CHECK(fs::exists(outside / "kept"));
}

TEST_CASE_FIXTURE(DeletionFixture,
                  "after a deletion that was killed at any time, the run is whole, or "
                  "finish_deletions() deletes the rest") {
  int whole_count = 0, finished_count = 0;
  std::chrono::microseconds duration{0};  // of the deletion that is not killed
  constexpr int kKills = 60;
  for (int i = -1; i < kKills; ++i) {
    const auto run = make_run(fmt::format("mnist-20261121-120000-{:04x}", i + 1));
    for (int file = 0; file < 20; ++file) put(run.path / "ckpt" / std::to_string(file), "x");
    const auto start = std::chrono::steady_clock::now();
    const pid_t child = ::fork();
    if (child == 0) {
      static_cast<void>(remove(run));
      ::_exit(0);
    }
    if (i < 0) {
      REQUIRE(::waitpid(child, nullptr, 0) == child);
      duration = std::chrono::duration_cast<std::chrono::microseconds>(
          std::chrono::steady_clock::now() - start);
      continue;
    }
    std::this_thread::sleep_for(duration * i / kKills);
    ::kill(child, SIGKILL);
    REQUIRE(::waitpid(child, nullptr, 0) == child);
    CAPTURE(i);
    static_cast<void>(finish_deletions(runs).done);
    if (fs::exists(run.path)) {
      ++whole_count;
      CHECK(fs::exists(run.path / "ckpt" / "19"));
      CHECK(index.find(run.id).has_value());
      CHECK(remove(run).has_value());
    } else {
      ++finished_count;
      CHECK(entry_count() == 0);
    }
    CHECK(entry_count() == 0);
  }
  MESSAGE("whole: ", whole_count, ", finished: ", finished_count);
}

}  // namespace dlrun
