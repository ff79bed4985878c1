// Tests the deletion of runs with real files, also while another thread changes them.

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <thread>

#include <doctest/doctest.h>

#include "common/files.h"
#include "launcher/runs/deleted_runs.h"
#include "launcher/runs/journal.h"
#include "launcher/runs/resolve.h"
#include "launcher/runs/run_deletion.h"
#include "launcher/runs/run_directory.h"
#include "tests/temporary_directory.h"

namespace dlrun {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOlder = "mnist-20261121-120000-00aa";
constexpr const char* kNewer = "mnist-20261121-130000-00bb";

struct DeletionFixture {
  TemporaryDirectory folder;
  fs::path runs = folder.path() / "runs", outside = folder.path() / "outside";
  RunIndex index{folder.path() / "state" / "runs"};

  DeletionFixture() {
    fs::create_directories(runs);
    put(outside / "kept", "kept");
  }
  static void put(const fs::path& path, std::string_view text) {
    fs::create_directories(path.parent_path());
    REQUIRE(write_file_atomic(path, text).has_value());
  }
  /// Creates a run with a journal and adds it to the index.
  IndexEntry make_run(const std::string& id, const std::string& created = "2026-11-21T12:00:00") {
    const IndexEntry entry{id, name_of_id(id), runs / id, created};
    put(entry.path / "submission.json", R"({"state":"refused"})");
    REQUIRE(index.add(entry).has_value());
    return entry;
  }
  [[nodiscard]] Result<TreeDeletion> remove(const IndexEntry& run, const DeletionCheck& check,
                                            RunParts parts = RunParts::kAll) const {
    const auto examined = examine_run(run, parts);
    if (!examined) return tl::unexpected(examined.error());
    return delete_run(index, run, examined->identity, parts, check);
  }
  [[nodiscard]] Result<TreeDeletion> remove(const IndexEntry& run,
                                            RunParts parts = RunParts::kAll) const {
    return remove(
        run, [] { return Result<RunState>(RunState::kCompleted); }, parts);
  }
  [[nodiscard]] Result<IndexEntry> resolve(std::string_view text) const {
    return resolve_run(text, index, folder.path());
  }
  /// Returns the number of entries in the runs folder, including hidden ones.
  [[nodiscard]] std::ptrdiff_t entries() const {
    return std::distance(fs::directory_iterator(runs), fs::directory_iterator());
  }
};

bool holds(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE_FIXTURE(
    DeletionFixture,
    "a deleted run is gone from the disk and from the index, and the error for its name says when "
    "it was deleted") {
  const auto run = make_run(kOlder);
  put(run.path / "logs" / "attempt-0" / "rank-0000.log", std::string(100'000, 'x'));
  put(run.path / "ckpt" / "step-1" / "model.bin", std::string(200'000, 'x'));
  const auto size = examine_run(run, RunParts::kAll)->size;
  CHECK(size.files == 3);
  CHECK(size.bytes >= 300'000);
  CHECK(size.checkpoint_bytes >= 200'000);
  CHECK(size.checkpoint_bytes < 300'000);
  const auto done = remove(run);
  REQUIRE(done.has_value());
  CHECK(done->left == 0);
  CHECK(done->freed.bytes >= 300'000);
  CHECK(entries() == 0);
  CHECK(index.list()->entries.empty());
  const auto found = resolve(kOlder);
  REQUIRE_FALSE(found.has_value());
  CHECK(found.error().code == Errc::kNotFound);
  CHECK(holds(found.error().message, "was deleted on 20"));
  CHECK(holds(found.error().message, "it was completed"));
  CHECK(holds(resolve(run.path.string()).error().message, "was deleted on 20"));
}

TEST_CASE_FIXTURE(DeletionFixture, "the name of a deleted run does not refer to an older run") {
  const auto older = make_run(kOlder, "2026-11-21T12:00:00.000Z");
  const auto newer = make_run(kNewer, "2026-11-21T13:00:00.000Z");
  CHECK(resolve("mnist")->id == kNewer);
  REQUIRE(remove(newer).has_value());
  const auto found = resolve("mnist");
  REQUIRE_FALSE(found.has_value());
  CHECK(holds(found.error().message, kNewer));
  CHECK(holds(found.error().message, std::string("An older one is ") + kOlder));
  CHECK(resolve(kOlder)->path == older.path);
  CHECK(resolve("last")->path == older.path);
  make_run("mnist-20261121-140000-00cc", "2026-11-21T14:00:00.000Z");
  CHECK(resolve("mnist")->id == "mnist-20261121-140000-00cc");
  // The deletion of an older run does not affect the name.
  REQUIRE(remove(older).has_value());
  CHECK(resolve("mnist")->id == "mnist-20261121-140000-00cc");
}

TEST_CASE_FIXTURE(DeletionFixture,
                  "the name or the id of a deleted run is not the start of another run's id") {
  const auto run = make_run(kOlder);
  const auto large = make_run("mnist-large-20261121-130000-00bb");
  REQUIRE(remove(run).has_value());
  CHECK(holds(resolve("mnist").error().message, std::string(kOlder) + " was deleted on"));
  CHECK(holds(resolve(kOlder).error().message, "was deleted on"));
  CHECK(resolve("mnist-l")->id == large.id);
}

TEST_CASE_FIXTURE(DeletionFixture,
                  "for rm and cancel, the start of an id needs the run's name and date") {
  const auto run = make_run("mnist-large-20261121-130000-00bb");
  const auto by_hand = make_run("exp-42");
  const auto resolved = [&](std::string_view text) {
    return resolve_run(text, index, folder.path(), IdStart::kWithDate);
  };
  for (const char* start : {"m", "mnist", "mnist-large-", "mnist-large-2", "exp-4"}) {
    CAPTURE(start);
    const auto found = resolved(start);
    REQUIRE_FALSE(found.has_value());
    CHECK(found.error().code == Errc::kNotFound);
    CHECK(holds(found.error().message, "needs at least the run's name and date"));
    CHECK(resolve(start).has_value());
  }
  CHECK(resolved("mnist-large-20261121")->id == run.id);
  CHECK(resolved("mnist-large")->id == run.id);
  CHECK(resolved("exp-42")->id == by_hand.id);
}

TEST_CASE_FIXTURE(DeletionFixture, "a deleted run is forgotten after a year") {
  REQUIRE(remove(make_run(kOlder)).has_value());
  const auto deleted = DeletedRuns::beside(index);
  const auto now = std::chrono::system_clock::now();
  deleted.forget_old(now);
  CHECK(deleted.find(kOlder).has_value());
  deleted.forget_old(now + kDeletedRunsKeptFor + std::chrono::hours(1));
  CHECK_FALSE(deleted.find(kOlder).has_value());
}

TEST_CASE_FIXTURE(DeletionFixture, "links in a run are deleted, and the files behind them stay") {
  const auto run = make_run(kOlder);
  fs::create_directory_symlink(outside, run.path / "code");
  fs::create_directory_symlink(outside, run.path / "ckpt");
  fs::create_symlink(outside / "kept", run.path / "events.jsonl");
  fs::create_hard_link(outside / "kept", run.path / "linked");
  const auto done = remove(run);
  REQUIRE(done.has_value());
  CHECK(entries() == 0);
  CHECK(read_file(outside / "kept", 100).value() == "kept");
}

TEST_CASE_FIXTURE(DeletionFixture, "a file with a hard link outside frees no space") {
  const auto run = make_run(kOlder);
  put(outside / "large", std::string(1'000'000, 'x'));
  fs::create_hard_link(outside / "large", run.path / "large");
  CHECK(examine_run(run, RunParts::kAll)->size.bytes < 1'000'000);
  CHECK(remove(run)->freed.bytes < 1'000'000);
  // Two links of one file that are both in the run are counted once.
  const auto other = make_run(kNewer);
  put(other.path / "a", std::string(1'000'000, 'x'));
  fs::create_hard_link(other.path / "a", other.path / "b");
  const auto size = examine_run(other, RunParts::kAll)->size;
  CHECK(size.bytes >= 1'000'000);
  CHECK(size.bytes < 2'000'000);
  const auto freed = remove(other)->freed;
  CHECK(freed.bytes >= 1'000'000);
  CHECK(freed.bytes < 2'000'000);
}

TEST_CASE_FIXTURE(DeletionFixture, "directories that are deep or not writable are deleted") {
  const auto run = make_run(kOlder);
  UniqueFd at(::open(run.path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  constexpr int kLevels = 2000;  // more than a process may open, and longer than a path may be
  for (int i = 0; i < kLevels; ++i) {
    REQUIRE(::mkdirat(at.get(), "deep", 0700) == 0);
    at.reset(::openat(at.get(), "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    REQUIRE(at.is_open());
  }
  put(run.path / "read-only" / "file", "x");
  REQUIRE(::chmod((run.path / "read-only").c_str(), 0500) == 0);
  const auto done = remove(run);
  REQUIRE(done.has_value());
  CHECK(done->left == 0);
  CHECK(entries() == 0);
}

TEST_CASE_FIXTURE(DeletionFixture, "another directory at the run's path is not deleted") {
  const auto run = make_run(kOlder);
  const auto examined = examine_run(run, RunParts::kAll);
  fs::rename(run.path, runs / "elsewhere");
  put(run.path / "submission.json", R"({"state":"refused"})");
  const auto done = delete_run(index, run, examined->identity, RunParts::kAll,
                               [] { return Result<RunState>(RunState::kCompleted); });
  REQUIRE_FALSE(done.has_value());
  CHECK(holds(done.error().message, "was replaced by another directory"));
  CHECK(fs::exists(run.path / "submission.json"));
  CHECK(fs::exists(runs / "elsewhere" / "submission.json"));
  CHECK(index.list()->entries.size() == 1);
}

TEST_CASE_FIXTURE(DeletionFixture,
                  "a directory that replaces the run during the check is not deleted") {
  const auto run = make_run(kOlder);
  const auto done = remove(run, [&] {
    if (!fs::exists(runs / "elsewhere")) {
      fs::rename(run.path, runs / "elsewhere");
      put(run.path / "submission.json", R"({"state":"refused"})");
    }
    return Result<RunState>(RunState::kCompleted);
  });
  REQUIRE_FALSE(done.has_value());
  CHECK(fs::exists(run.path / "submission.json"));
  CHECK(fs::exists(runs / "elsewhere" / "submission.json"));
}

TEST_CASE_FIXTURE(DeletionFixture,
                  "the state is checked again until the run's files stay the same") {
  const auto run = make_run(kOlder);
  int calls = 0;
  REQUIRE(remove(run, [&] {
            if (++calls == 1) put(run.path / "events.jsonl", "");
            return Result<RunState>(RunState::kCompleted);
          }).has_value());
  CHECK(calls == 2);
  const auto busy = make_run(kNewer);
  const auto refused = remove(busy, [&] {
    put(busy.path / "attempt", std::to_string(++calls));
    return Result<RunState>(RunState::kCompleted);
  });
  REQUIRE_FALSE(refused.has_value());
  CHECK(holds(refused.error().message, "its files change"));
  CHECK(fs::exists(busy.path / "submission.json"));
  const auto failed = remove(busy, [] { return fail(Errc::kUsage, "it is running"); });
  REQUIRE_FALSE(failed.has_value());
  CHECK(failed.error().message == "it is running");
}

TEST_CASE_FIXTURE(DeletionFixture,
                  "a run that a job claims during its deletion is deleted whole or stays whole") {
  int left = 0, deleted = 0;
  for (int i = 0; i < 300; ++i) {
    const std::string id = fmt::format("mnist-20261121-120000-{:04x}", i);
    const auto run = make_run(id);
    std::atomic<bool> may_start{false}, is_claimed{false};
    std::thread job([&] {
      while (!may_start) std::this_thread::yield();
      for (volatile int spin = 0; spin < i * 500;) spin = spin + 1;
      is_claimed = create_file_exclusive(run.path / "claim", "{}").has_value();
    });
    const auto done = remove(run, [&] {
      may_start = true;
      return Result<RunState>(RunState::kCompleted);
    });
    job.join();
    CAPTURE(i);
    // A claim that was written before the check's end is part of the state that was checked.
    if (done) {
      ++deleted;
      CHECK_FALSE(fs::exists(run.path));
    } else {
      ++left;
      CHECK(is_claimed);
      CHECK(fs::exists(run.path / "claim"));
      CHECK(fs::exists(run.path / "submission.json"));
      CHECK(index.find(id).has_value());
    }
  }
  MESSAGE("not deleted: ", left, ", deleted: ", deleted);
  CHECK(left + deleted == 300);
}

TEST_CASE_FIXTURE(
    DeletionFixture,
    "a thread that swaps a directory and a link leads the deletion to no other file") {
  for (int i = 0; i < 40; ++i) {
    const auto run = make_run(fmt::format("mnist-20261121-120000-{:04x}", i));
    for (int file = 0; file < 50; ++file) {
      put(run.path / "sub" / "deep" / std::to_string(file), "x");
      put(outside / "deep" / std::to_string(file), "x");
    }
    fs::create_directory_symlink(outside, run.path / "link");
    const UniqueFd inside(::open(run.path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    std::atomic<bool> is_over{false};
    std::thread attacker([&] {
      while (!is_over)
        static_cast<void>(::renameat2(inside.get(), "sub", inside.get(), "link", RENAME_EXCHANGE));
    });
    const auto done = remove(run);
    is_over = true;
    attacker.join();
    REQUIRE(done.has_value());
    CHECK(read_file(outside / "kept", 100).has_value());
    for (int file = 0; file < 50; ++file)
      CHECK(fs::exists(outside / "deep" / std::to_string(file)));
    static_cast<void>(finish_deletions(runs));
    CHECK(entries() == 0);
  }
}

TEST_CASE_FIXTURE(DeletionFixture,
                  "a run that is being submitted, or whose search has not ended, stays") {
  const auto run = make_run(kOlder);
  {
    const auto lock = SubmissionLock::take(run.path);
    REQUIRE(lock.has_value());
    CHECK(holds(remove(run).error().message, "another dlrun is submitting it"));
  }
  {
    const UniqueFd search(::open(run.path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    REQUIRE(::flock(search.get(), LOCK_EX | LOCK_NB) == 0);
    CHECK(holds(remove(run).error().message, "its search still runs"));
  }
  CHECK(fs::exists(run.path / "submission.json"));
  CHECK(remove(run).has_value());
}

TEST_CASE_FIXTURE(DeletionFixture,
                  "the lock of a submission is removed from the directory in which it was made") {
  const auto run = make_run(kOlder);
  put(outside / "submission.lock", "kept");
  {
    const auto lock = SubmissionLock::take(run.path);
    REQUIRE(lock.has_value());
    fs::rename(run.path, runs / "renamed");
    fs::create_directory_symlink(outside, run.path);
  }
  CHECK(fs::exists(outside / "submission.lock"));
  CHECK_FALSE(fs::exists(runs / "renamed" / "submission.lock"));
}

TEST_CASE_FIXTURE(DeletionFixture,
                  "a sweep is not deleted while one of its points is being resubmitted") {
  const auto sweep = make_run("lr-20261121-120000-00aa");
  put(sweep.path / "sweep.json", "{}");
  const auto point = sweep.path / "array-0" / "1";
  put(point / "submission.json", journal_of_task(1));
  {
    const auto lock = SubmissionLock::take(point);
    REQUIRE(lock.has_value());
    CHECK(holds(remove(sweep).error().message, "another dlrun is submitting it"));
  }
  int calls = 0;
  CHECK(remove(sweep, [&] {
          if (++calls == 1) put(point / "claim", "{}");
          return Result<RunState>(RunState::kCompleted);
        }).has_value());
  CHECK(calls == 2);  // the claim of a point counts as a change of the sweep
  CHECK(entries() == 0);
}

TEST_CASE_FIXTURE(DeletionFixture,
                  "only a directory with the name and the files of a run is deleted") {
  const auto refusal_of = [&](const fs::path& path) {
    const auto examined = examine_run({path.filename().string(), "x", path, ""}, RunParts::kAll);
    REQUIRE_FALSE(examined.has_value());
    return examined.error().message;
  };
  put(runs / "project" / "claim", "{}");  // DLRUN_RUN can name any directory
  CHECK(holds(refusal_of(runs / "project"), "does not have a name that dlrun gives to runs"));
  put(runs / "notes-20261121-120000-00aa" / "notes.txt", "x");
  CHECK(holds(refusal_of(runs / "notes-20261121-120000-00aa"), "holds no files of a run"));
  const auto run = make_run(kOlder);
  fs::create_directory_symlink(run.path, runs / kNewer);
  CHECK(holds(refusal_of(runs / kNewer), "no symbolic link"));
  CHECK(holds(refusal_of(runs / "mnist-20261121-140000-00cc"), "No such file"));
  const IndexEntry of_hand_written_script{"exp-42", "exp", runs / "exp-42", ""};
  put(of_hand_written_script.path / "claim", "{}");
  put(of_hand_written_script.path / "origin", R"({"job":"42","name":"exp"})");
  CHECK(remove(of_hand_written_script).has_value());
  CHECK_FALSE(fs::exists(of_hand_written_script.path));
}

TEST_CASE_FIXTURE(DeletionFixture,
                  "the deletion of a copied run keeps the index entry of the original") {
  const auto run = make_run(kOlder);
  const IndexEntry copy{kOlder, "mnist", folder.path() / "copies" / kOlder, ""};
  put(copy.path / "submission.json", R"({"state":"refused"})");
  CHECK(remove(copy).has_value());
  CHECK_FALSE(fs::exists(copy.path));
  CHECK(resolve("mnist")->path == run.path);
}

TEST_CASE_FIXTURE(DeletionFixture, "a run with a file of another user is not deleted") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root can give a file to another user");
    return;
  }
  constexpr uid_t kOther = 65534;
  const auto run = make_run(kOlder);
  REQUIRE(::chown((run.path / "submission.json").c_str(), kOther, kOther) == 0);
  CHECK(holds(remove(run).error().message, "only its owner can delete it"));
  CHECK(fs::exists(run.path / "submission.json"));
  // A renamed directory of another user is not deleted either.
  const auto renamed = runs / fmt::format(".deleted-{}-0123456789abcdef", kNewer);
  put(renamed / ".deleted", "");
  REQUIRE(::chown(renamed.c_str(), kOther, kOther) == 0);
  static_cast<void>(finish_deletions(runs));
  CHECK(fs::exists(renamed));
}

TEST_CASE_FIXTURE(DeletionFixture, "an interrupted deletion is finished only if it was decided") {
  const auto decided = runs / fmt::format(".deleted-{}-0123456789abcdef", kOlder);
  const auto undecided = runs / fmt::format(".deleted-{}-0123456789abcdef", kNewer);
  put(decided / ".deleted", "");
  put(decided / "ckpt" / "model.bin", "x");
  put(undecided / "ckpt" / "model.bin", "x");
  put(runs / ".deleted-notes-about-experiments" / ".deleted", "");  // not the name of a deletion
  fs::create_directory_symlink(outside, runs / ".deleted-link-20261121-120000-0123456789abcdef");
  const auto done = finish_deletions(runs);
  CHECK(done.freed.files == 2);
  CHECK_FALSE(fs::exists(decided));
  CHECK(fs::exists(undecided / "ckpt" / "model.bin"));
  CHECK(fs::exists(runs / ".deleted-notes-about-experiments" / ".deleted"));
  CHECK(fs::exists(outside / "kept"));
}

TEST_CASE_FIXTURE(DeletionFixture,
                  "the logs, profiles and traces of a run can be deleted without the rest of it") {
  const auto run = make_run(kOlder);
  for (const char* diagnostic : {"logs/attempt-0/rank-0000.log", "debug/lead.log", "slurm-42.out",
                                 "profile/attempt-0/rank-0000.nsys-rep", "trace/attempt-0.json"})
    put(run.path / diagnostic, "x");
  for (const char* kept : {"ckpt/step-1/model.bin", "model.pt", "code/best.pt", "logs/best.pt",
                           "events.jsonl", "result.out"})
    put(run.path / kept, "x");
  CHECK(examine_run(run, RunParts::kDiagnostics)->size.files == 5);
  const auto done = remove(run, RunParts::kDiagnostics);
  REQUIRE(done.has_value());
  CHECK(done->freed.files == 5);
  for (const char* kept : {"ckpt/step-1/model.bin", "model.pt", "code/best.pt", "logs/best.pt",
                           "events.jsonl", "result.out", "submission.json"}) {
    CAPTURE(kept);
    CHECK(fs::exists(run.path / kept));
  }
  CHECK_FALSE(fs::exists(run.path / "slurm-42.out"));
  CHECK(resolve("mnist")->path == run.path);
  CHECK(examine_run(run, RunParts::kDiagnostics)->size.files == 0);
}

TEST_CASE_FIXTURE(DeletionFixture, "a run that was deleted by hand can be removed from the index") {
  const auto run = make_run(kOlder);
  CHECK_FALSE(forget_run(index, run).has_value());
  fs::remove_all(run.path);
  CHECK(forget_run(index, run).has_value());
  CHECK(index.list()->entries.empty());
  // If the whole runs folder is missing, its file system may only be unmounted.
  const auto other = make_run(kNewer);
  fs::remove_all(runs);
  CHECK(holds(forget_run(index, other).error().message, "may not be mounted"));
  CHECK(index.list()->entries.size() == 1);
}

}  // namespace dlrun
