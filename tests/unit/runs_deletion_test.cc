// Tests the deletion of runs with real files, also while another thread changes them.
// runs_deletion_mark_test.cc tests deletions that were interrupted.

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>

#include "common/files.h"
#include "launcher/runs/deleted_runs.h"
#include "launcher/runs/journal.h"
#include "launcher/runs/resolve.h"
#include "launcher/runs/run_deletion.h"
#include "launcher/runs/run_directory.h"
#include "tests/contains.h"
#include "tests/unit/deletion_fixture.h"

namespace dlrun {
namespace {

namespace fs = std::filesystem;

}  // namespace

TEST_CASE_FIXTURE(
    DeletionFixture,
    "a deleted run is gone from the disk and from the index, and the error for its name says when "
    "it was deleted") {
  const auto run = make_run(kOlderId);
  put(run.path / "logs" / "attempt-0" / "rank-0000.log", std::string(100'000, 'x'));
  put(run.path / "ckpt" / "step-1" / "model.bin", std::string(200'000, 'x'));
  const auto size = examine_run(run, RunParts::kAll)->size;
  CHECK(size.files == 3);
  CHECK(size.bytes >= 300'000);
  CHECK(size.checkpoint_bytes >= 200'000);
  CHECK(size.checkpoint_bytes < 300'000);
  const auto done = remove(run);
  REQUIRE(done.has_value());
  CHECK(done->undeleted_count == 0);
  CHECK(done->freed.files == size.files);
  CHECK(done->freed.bytes == size.bytes);
  CHECK(entry_count() == 0);
  CHECK(index.list()->entries.empty());
  const auto found = resolve(kOlderId);
  REQUIRE_FALSE(found.has_value());
  CHECK(found.error().code == Errc::kNotFound);
  CHECK(has(found.error().message, "was deleted on 20"));
  CHECK(has(found.error().message, "it was completed"));
  CHECK(has(resolve(run.path.string()).error().message, "was deleted on 20"));
}

TEST_CASE_FIXTURE(DeletionFixture, "the name of a deleted run does not refer to an older run") {
  const auto older = make_run(kOlderId, "2026-11-21T12:00:00.000Z");
  const auto newer = make_run(kNewerId, "2026-11-21T13:00:00.000Z");
  CHECK(resolve("mnist")->id == kNewerId);
  REQUIRE(remove(newer).has_value());
  const auto found = resolve("mnist");
  REQUIRE_FALSE(found.has_value());
  CHECK(has(found.error().message, kNewerId));
  CHECK(has(found.error().message,
            std::string("To use an older run of this name, give its id, ") + kOlderId));
  CHECK(resolve(kOlderId)->path == older.path);
  CHECK(resolve("last")->path == older.path);
  make_run("mnist-20261121-140000-00cc", "2026-11-21T14:00:00.000Z");
  CHECK(resolve("mnist")->id == "mnist-20261121-140000-00cc");
  // The deletion of an older run does not affect the name.
  REQUIRE(remove(older).has_value());
  CHECK(resolve("mnist")->id == "mnist-20261121-140000-00cc");
}

TEST_CASE_FIXTURE(
    DeletionFixture,
    "the name or the id of a deleted run does not refer to a run whose id starts alike") {
  const auto run = make_run(kOlderId);
  const auto large = make_run("mnist-large-20261121-130000-00bb");
  REQUIRE(remove(run).has_value());
  CHECK(has(resolve("mnist").error().message, std::string(kOlderId) + " was deleted on"));
  CHECK(has(resolve(kOlderId).error().message, "was deleted on"));
  CHECK(resolve("mnist-l")->id == large.id);
}

TEST_CASE_FIXTURE(
    DeletionFixture,
    "rm and cancel accept the start of an id only if the start has the run's name and date") {
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
    CHECK(has(found.error().message, "needs at least the run's name and date"));
    CHECK(resolve(start).has_value());
  }
  CHECK(resolved("mnist-large-20261121")->id == run.id);
  CHECK(resolved("mnist-large")->id == run.id);
  CHECK(resolved("exp-42")->id == by_hand.id);
}

TEST_CASE_FIXTURE(DeletionFixture, "a deleted run is forgotten after a year") {
  REQUIRE(remove(make_run(kOlderId)).has_value());
  const auto deleted = DeletedRuns::beside(index);
  const auto now = std::chrono::system_clock::now();
  deleted.forget_old(now);
  CHECK(deleted.find(kOlderId).has_value());
  deleted.forget_old(now + kDeletedRunsKeptFor + std::chrono::hours(1));
  CHECK_FALSE(deleted.find(kOlderId).has_value());
}

TEST_CASE_FIXTURE(DeletionFixture, "links in a run are deleted, and the files behind them stay") {
  const auto run = make_run(kOlderId);
  fs::create_directory_symlink(outside, run.path / "code");
  fs::create_directory_symlink(outside, run.path / "ckpt");
  fs::create_symlink(outside / "kept", run.path / "events.jsonl");
  fs::create_hard_link(outside / "kept", run.path / "linked");
  const auto done = remove(run);
  REQUIRE(done.has_value());
  CHECK(entry_count() == 0);
  CHECK(read_file(outside / "kept", 100).value() == "kept");
}

TEST_CASE_FIXTURE(DeletionFixture,
                  "a file with a hard link outside frees no space, and one with two links in the "
                  "run counts once") {
  const auto run = make_run(kOlderId);
  put(outside / "large", std::string(1'000'000, 'x'));
  fs::create_hard_link(outside / "large", run.path / "large");
  CHECK(examine_run(run, RunParts::kAll)->size.bytes < 1'000'000);
  CHECK(remove(run)->freed.bytes < 1'000'000);
  const auto other = make_run(kNewerId);
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
  const auto run = make_run(kOlderId);
  UniqueFd at(::open(run.path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  constexpr int kLevels = 2000;  // more folders than a process may open; too many for a path
  for (int i = 0; i < kLevels; ++i) {
    REQUIRE(::mkdirat(at.get(), "deep", 0700) == 0);
    at.reset(::openat(at.get(), "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    REQUIRE(at.is_open());
  }
  put(run.path / "read-only" / "file", "x");
  REQUIRE(::chmod((run.path / "read-only").c_str(), 0500) == 0);
  const auto done = remove(run);
  REQUIRE(done.has_value());
  CHECK(done->undeleted_count == 0);
  CHECK(entry_count() == 0);
}

TEST_CASE_FIXTURE(DeletionFixture, "another directory at the run's path is not deleted") {
  const auto run = make_run(kOlderId);
  const auto examined = examine_run(run, RunParts::kAll);
  fs::rename(run.path, runs / "elsewhere");
  put_journal(run.path);
  const auto done = delete_run(index, run, examined->identity, RunParts::kAll,
                               [] { return Result<RunState>(RunState::kCompleted); });
  REQUIRE_FALSE(done.has_value());
  CHECK(has(done.error().message, "was replaced by another directory"));
  CHECK(fs::exists(run.path / "submission.json"));
  CHECK(fs::exists(runs / "elsewhere" / "submission.json"));
  CHECK(index.list()->entries.size() == 1);
}

TEST_CASE_FIXTURE(DeletionFixture,
                  "a directory that replaces the run during the check is not deleted") {
  const auto run = make_run(kOlderId);
  const auto done = remove(run, [&] {
    if (!fs::exists(runs / "elsewhere")) {
      fs::rename(run.path, runs / "elsewhere");
      put_journal(run.path);
    }
    return Result<RunState>(RunState::kCompleted);
  });
  REQUIRE_FALSE(done.has_value());
  CHECK(fs::exists(run.path / "submission.json"));
  CHECK(fs::exists(runs / "elsewhere" / "submission.json"));
}

TEST_CASE_FIXTURE(DeletionFixture,
                  "a deletion checks the state again if the run's files change, and a run that "
                  "keeps changing stays") {
  const auto run = make_run(kOlderId);
  int check_count = 0;
  REQUIRE(remove(run, [&] {
            if (++check_count == 1) put(run.path / "events.jsonl", "");
            return Result<RunState>(RunState::kCompleted);
          }).has_value());
  CHECK(check_count == 2);
  const auto busy = make_run(kNewerId);
  const auto refused = remove(busy, [&] {
    put(busy.path / "attempt", std::to_string(++check_count));
    return Result<RunState>(RunState::kCompleted);
  });
  REQUIRE_FALSE(refused.has_value());
  CHECK(has(refused.error().message, "its files change"));
  CHECK(fs::exists(busy.path / "submission.json"));
  const auto failed = remove(busy, [] { return fail(Errc::kUsage, "it is running"); });
  REQUIRE_FALSE(failed.has_value());
  CHECK(failed.error().message == "it is running");
}

TEST_CASE_FIXTURE(DeletionFixture,
                  "a run that a job claims during its deletion is deleted whole or stays whole") {
  int kept_count = 0, deleted_count = 0;
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
    // A deleted run may have a claim that was written during the check. The check was then
    // repeated, and the result was again that the run is completed.
    if (done) {
      ++deleted_count;
      CHECK_FALSE(fs::exists(run.path));
    } else {
      ++kept_count;
      CHECK(is_claimed);
      CHECK(fs::exists(run.path / "claim"));
      CHECK(fs::exists(run.path / "submission.json"));
      CHECK(index.find(id).has_value());
    }
  }
  MESSAGE("not deleted: ", kept_count, ", deleted: ", deleted_count);
  CHECK(kept_count + deleted_count == 300);
}

TEST_CASE_FIXTURE(DeletionFixture,
                  "a thread that swaps a directory and a link cannot make the deletion remove "
                  "files behind the link") {
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
    static_cast<void>(finish_deletions(runs).done);
    CHECK(entry_count() == 0);
  }
}

TEST_CASE_FIXTURE(
    DeletionFixture,
    "a run that is being submitted or deleted, or whose search has not ended, stays") {
  const auto run = make_run(kOlderId);
  {
    const auto lock = SubmissionLock::take(run.path);
    REQUIRE(lock.has_value());
    CHECK(has(remove(run).error().message, "another dlrun is submitting it"));
  }
  {
    const UniqueFd locked(::open(run.path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    REQUIRE(::flock(locked.get(), LOCK_EX | LOCK_NB) == 0);
    CHECK(has(remove(run).error().message, "another dlrun is deleting it"));
    put(run.path / "sweep.json", "{}");
    CHECK(has(remove(run).error().message, "its search (sweep.ask) still runs"));
    fs::remove(run.path / "sweep.json");
  }
  CHECK(fs::exists(run.path / "submission.json"));
  CHECK(remove(run).has_value());
}

TEST_CASE_FIXTURE(
    DeletionFixture,
    "a sweep stays while a point is resubmitted, and is checked again if a point is claimed") {
  const auto sweep = make_run("lr-20261121-120000-00aa");
  put(sweep.path / "sweep.json", "{}");
  const auto point = sweep.path / "array-0" / "1";
  put(point / "submission.json", journal_of_task(1));
  {
    const auto lock = SubmissionLock::take(point);
    REQUIRE(lock.has_value());
    CHECK(has(remove(sweep).error().message, "another dlrun is submitting it"));
  }
  int check_count = 0;
  CHECK(remove(sweep, [&] {
          if (++check_count == 1) put(point / "claim", "{}");
          return Result<RunState>(RunState::kCompleted);
        }).has_value());
  CHECK(check_count == 2);  // the claim of a point counts as a change of the sweep
  CHECK(entry_count() == 0);
}

TEST_CASE_FIXTURE(DeletionFixture,
                  "only a directory with the name and the files of a run is deleted") {
  const auto refusal_of = [&](const fs::path& path) {
    const auto examined = examine_run({path.filename().string(), "x", path, ""}, RunParts::kAll);
    REQUIRE_FALSE(examined.has_value());
    return examined.error().message;
  };
  put(runs / "project" / "claim", "{}");  // DLRUN_RUN of a job can be any directory
  CHECK(has(refusal_of(runs / "project"), "does not have a name that dlrun gives to runs"));
  put(runs / "notes-20261121-120000-00aa" / "notes.txt", "x");
  CHECK(has(refusal_of(runs / "notes-20261121-120000-00aa"), "holds no files of a run"));
  const auto run = make_run(kOlderId);
  fs::create_directory_symlink(run.path, runs / kNewerId);
  CHECK(has(refusal_of(runs / kNewerId), "not a symbolic link"));
  CHECK(has(refusal_of(runs / "mnist-20261121-140000-00cc"), "No such file"));
  const IndexEntry of_hand_written_script{"exp-42", "exp", runs / "exp-42", ""};
  put(of_hand_written_script.path / "claim", "{}");
  put(of_hand_written_script.path / "origin", R"({"job":"42","name":"exp"})");
  CHECK(remove(of_hand_written_script).has_value());
  CHECK_FALSE(fs::exists(of_hand_written_script.path));
}

TEST_CASE_FIXTURE(DeletionFixture,
                  "the deletion of a copied run keeps the index entry of the original") {
  const auto run = make_run(kOlderId);
  const IndexEntry copy{kOlderId, "mnist", folder.path() / "copies" / kOlderId, ""};
  put_journal(copy.path);
  CHECK(remove(copy).has_value());
  CHECK_FALSE(fs::exists(copy.path));
  CHECK(resolve("mnist")->path == run.path);
}

TEST_CASE_FIXTURE(DeletionFixture,
                  "a run whose journal is another user's stays, and so does another user's "
                  "directory .deleted-*") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root can give a file to another user");
    return;
  }
  constexpr uid_t kOtherUser = 65534;
  const auto run = make_run(kOlderId);
  REQUIRE(::chown((run.path / "submission.json").c_str(), kOtherUser, kOtherUser) == 0);
  CHECK(has(remove(run).error().message, "only its owner can delete it"));
  CHECK(fs::exists(run.path / "submission.json"));
  const auto renamed = runs / fmt::format(".deleted-{}-0123456789abcdef", kNewerId);
  put(renamed / ".deleted", "");
  REQUIRE(::chown(renamed.c_str(), kOtherUser, kOtherUser) == 0);
  static_cast<void>(finish_deletions(runs).done);
  CHECK(fs::exists(renamed));
}

TEST_CASE_FIXTURE(DeletionFixture,
                  "a directory of the user at the run's path is deleted only if its files show "
                  "that it is this run") {
  const auto run = make_run(kOlderId);
  const auto other = make_run(kNewerId);
  fs::rename(run.path, runs / "hidden");
  SUBCASE("another run") {
    fs::rename(other.path, run.path);
  }
  SUBCASE("a folder with a job script") {
    put(run.path / "job.sh", "#!/bin/bash");
  }
  SUBCASE("a folder with another plan") {
    put(run.path / "job.sh", "#!/bin/bash");
    put(run.path / "plan.json", R"({"name":"resnet"})");
  }
  const auto done = remove(run);
  REQUIRE_FALSE(done.has_value());
  CHECK(has(done.error().message,
            "the files in this directory do not show that it belongs to the run " + run.id));
  CHECK(fs::exists(run.path));
}

TEST_CASE_FIXTURE(DeletionFixture,
                  "a run that was never submitted is deleted if its plan.json has the run's name") {
  const IndexEntry run{kOlderId, "mnist", runs / kOlderId, ""};
  put(run.path / "spec.yaml", "name: mnist");
  put(run.path / "plan.json", R"({"name":"mnist"})");
  CHECK(remove(run).has_value());
  CHECK(entry_count() == 0);
}

TEST_CASE_FIXTURE(DeletionFixture,
                  "a submission's lock file is removed from the run's directory, even if the "
                  "directory was renamed") {
  const auto run = make_run(kOlderId);
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

TEST_CASE_FIXTURE(
    DeletionFixture,
    "a run stays if another run is inside its directory, but its diagnostics can be deleted") {
  const auto run = make_run(kOlderId);
  put(run.path / "code" / "events.jsonl", "{}");  // a file of the user
  put(run.path / "code" / "claim", "text");
  CHECK(examine_run(run, RunParts::kAll).has_value());
  SUBCASE("with the name of a run") {
    put(run.path / "code" / "runs" / kNewerId / "submission.json", "{}");
  }
  SUBCASE("with a claim") {
    put(run.path / "code" / "run" / "claim", R"({"job":"42","token":"0123"})");
  }
  const auto done = remove(run);
  REQUIRE_FALSE(done.has_value());
  CHECK(has(done.error().message, "another run is inside its directory"));
  CHECK(has(done.error().message, run.path.string() + "/code/run"));
  CHECK(remove(run, RunParts::kDiagnostics).has_value());
}

TEST_CASE_FIXTURE(DeletionFixture,
                  "runs stay in the index if the runs folder is empty, because its file system may "
                  "not be mounted") {
  const auto run = make_run(kOlderId);
  const auto other = make_run(kNewerId);
  fs::remove_all(run.path);
  fs::remove_all(other.path);
  CHECK(has(remove_run_without_directory(index, run).error().message,
            "file system is not mounted here"));
  CHECK(index.find(kOlderId).has_value());
  put(runs / "deleted", "");
  CHECK(remove_run_without_directory(index, run).has_value());
  CHECK(index.find(kNewerId).has_value());
}

TEST_CASE_FIXTURE(DeletionFixture,
                  "the logs, profiles and traces of a run can be deleted without the rest of it") {
  const auto run = make_run(kOlderId);
  const std::vector<std::string> diagnostics = {"logs/attempt-0/rank-0000.log",
                                                "logs/attempt-10/server/rank-0001.log",
                                                "debug/lead.log",
                                                "debug/server-rank-0001.log",
                                                "debug/trainer-0001.log",
                                                "autopsy/attempt-0/rank-0000.txt",
                                                "autopsy/attempt-0/rank-0.nccl-trace",
                                                "slurm-42.out",
                                                "profile/attempt-0/rank-0000.nsys-rep",
                                                "trace/attempt-0.json",
                                                "trace/attempt-0-rank-0001.json",
                                                "local.out"};
  const std::vector<std::string> kept_files = {
      "ckpt/step-1/model.bin",  "model.pt",       "code/best.pt",        "logs/best.pt",
      "events.jsonl",           "result.out",     "task-results.out",    "slurm-notes.out",
      "logs/attempt-best/x.pt", "logs/tb.log/x",  "logs/attempt-0/x.pt", "logs/attempt-1",
      "logs/attempt-best.pt",   "logs/train.log", "trace/attempt-x.json"};
  for (const std::string& diagnostic : diagnostics) put(run.path / diagnostic, "x");
  for (const std::string& kept : kept_files) put(run.path / kept, "x");
  CHECK(examine_run(run, RunParts::kDiagnostics)->size.files == diagnostics.size());
  const auto done = remove(run, RunParts::kDiagnostics);
  REQUIRE(done.has_value());
  CHECK(done->freed.files == diagnostics.size());
  for (const std::string& kept : kept_files) {
    CAPTURE(kept);
    CHECK(fs::exists(run.path / kept));
  }
  for (const std::string& diagnostic : diagnostics) {
    CAPTURE(diagnostic);
    CHECK_FALSE(fs::exists(run.path / diagnostic));
  }
  CHECK_FALSE(fs::exists(run.path / "autopsy" / "attempt-0"));  // it has become empty
  CHECK_FALSE(fs::exists(run.path / "slurm-42.out"));
  CHECK(resolve("mnist")->path == run.path);
  CHECK(examine_run(run, RunParts::kDiagnostics)->size.files == 0);
}

TEST_CASE_FIXTURE(DeletionFixture,
                  "logs in the checkpoint folder of a run stay when its other logs are deleted") {
  const auto run = make_run(kOlderId);
  put(run.path / "plan.json",
      R"({"program":[{"words":["--checkpoint-dir","logs/attempt-0"],"key":"checkpoint.dir"}]})");
  put(run.path / "logs" / "attempt-0" / "rank-0000.log", "x");
  put(run.path / "logs" / "attempt-1" / "rank-0000.log", "x");
  CHECK(remove(run, RunParts::kDiagnostics)->freed.files == 1);
  CHECK(fs::exists(run.path / "logs" / "attempt-0" / "rank-0000.log"));
}

namespace {

/// Runs the function in a process with mounts of its own. Returns the function's text. Returns
/// nullopt, and reports that the test is skipped, if this user cannot mount.
std::optional<std::string> with_own_mounts(const std::function<std::string()>& function) {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
      ::_exit(77);
    static_cast<void>(write_all(ends[1], function()));
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(ends[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(got));
  ::close(ends[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
    MESSAGE("skipped: only root can mount");
    return std::nullopt;
  }
  CHECK(status == 0);
  return text;
}

/// Makes statx() fail with ENOSYS in this process, as on an old kernel. Returns false if the kernel
/// does not allow it.
bool forbid_statx() {
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_statx, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{4, rules};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace

TEST_CASE_FIXTURE(DeletionFixture, "a mount inside a run is not deleted, and the result says so") {
  const auto run = make_run(kOlderId);
  RunParts parts = RunParts::kAll;
  std::string mounted = "a b";
  bool has_statx = true;
  SUBCASE("with statx") {}
  SUBCASE("without statx") {
    has_statx = false;
  }
  SUBCASE("with the logs alone") {
    parts = RunParts::kDiagnostics;
    mounted = "logs";
  }
  fs::create_directories(run.path / mounted);
  put(outside / "attempt-0" / "rank-0000.log", "x");
  const auto text = with_own_mounts([&]() -> std::string {
    if (::mount(outside.c_str(), (run.path / mounted).c_str(), nullptr, MS_BIND, nullptr) != 0)
      return "cannot mount";
    if (!has_statx && !forbid_statx()) return "cannot forbid statx()";
    const auto done = remove(run, parts);
    return done ? fmt::format("{} left: {}", done->undeleted_count, done->first_undeleted)
                : done.error().message;
  });
  if (!text) return;
  CHECK(*text == "1 left: " + mounted + ": it is a mount point");
  CHECK(fs::exists(outside / "attempt-0" / "rank-0000.log"));
  CHECK(fs::exists(outside / "kept"));
}

TEST_CASE_FIXTURE(DeletionFixture, "directories that their owner may not read are deleted") {
  const auto top = runs / "top";
  put(top / "closed" / "deep" / "file", "x");
  constexpr uid_t kOtherUser = 65534;
  const bool is_root = ::geteuid() == 0;  // root may read all directories
  for (const fs::path& path : {top, top / "closed", top / "closed" / "deep"}) {
    if (is_root) REQUIRE(::chown(path.c_str(), kOtherUser, kOtherUser) == 0);
  }
  REQUIRE(::chmod((top / "closed" / "deep").c_str(), 0) == 0);
  REQUIRE(::chmod((top / "closed").c_str(), 0) == 0);
  const UniqueFd opened(::open(top.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const pid_t child = ::fork();
  if (child == 0) {
    if (is_root && ::setuid(kOtherUser) != 0) ::_exit(2);
    ::_exit(delete_contents(opened.get()).undeleted_count == 0 ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(fs::is_empty(top));
}

TEST_CASE_FIXTURE(DeletionFixture,
                  "a run that was deleted by hand can be removed from the index, unless the runs "
                  "folder is also missing") {
  const auto run = make_run(kOlderId);
  CHECK_FALSE(remove_run_without_directory(index, run).has_value());
  fs::remove_all(run.path);
  CHECK(remove_run_without_directory(index, run).has_value());
  CHECK(index.list()->entries.empty());
  // If the whole runs folder is missing, perhaps its file system is not mounted.
  const auto other = make_run(kNewerId);
  fs::remove_all(runs);
  CHECK(has(remove_run_without_directory(index, other).error().message,
            "file system is not mounted here"));
  CHECK(index.list()->entries.size() == 1);
}

}  // namespace dlrun
