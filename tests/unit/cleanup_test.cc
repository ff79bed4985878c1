// Checks the choice of runs by `rm` and `prune`, what `track sync` adds to runs, and how `du`
// measures them.

#include "launcher/cleanup/cleanup.h"

#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>

#include <doctest/doctest.h>

#include "common/files.h"
#include "common/json_lines.h"
#include "common/mlflow.h"
#include "common/text.h"
#include "launcher/cleanup/cleanup_execution.h"
#include "launcher/cleanup/disk_usage.h"
#include "launcher/runs/deleted_runs.h"
#include "launcher/runs/journal.h"
#include "launcher/runs/run_directory.h"
#include "launcher/runs/sweep_record.h"
#include "launcher/runs/tracked_record.h"
#include "tests/contains.h"
#include "tests/python_server.h"
#include "tests/temporary_directory.h"

namespace dlrun {
namespace {

namespace fs = std::filesystem;

struct CleanupFixture {
  TemporaryDirectory folder;
  fs::path runs = folder.path() / "runs";
  Env env;

  CleanupFixture() {
    env.set("HOME", folder.path().string());
    env.set("PATH", (folder.path() / "bin").string() + ":/usr/bin:/bin");
    env.set("XDG_RUNTIME_DIR", folder.path().string());
    // A Slurm that knows no job.
    for (const char* command : {"squeue", "sacct", "scontrol"}) {
      put(folder.path() / "bin" / command, "#!/bin/sh\nexit 0\n");
      fs::permissions(folder.path() / "bin" / command, fs::perms::owner_all);
    }
  }
  static void put(const fs::path& path, std::string_view text) {
    fs::create_directories(path.parent_path());
    REQUIRE(write_file_atomic(path, text).has_value());
  }
  /// Replaces a command of Slurm by a program that prints this line, whatever its arguments are.
  void set_answer(const std::string& command, const std::string& line) const {
    put(folder.path() / "bin" / command, "#!/bin/sh\necho '" + line + "'\n");
    fs::permissions(folder.path() / "bin" / command, fs::perms::owner_all);
  }
  void set_answer_of_squeue(const std::string& line) const { set_answer("squeue", line); }
  [[nodiscard]] RunIndex index() const { return RunIndex::of_user(env).value(); }
  static std::string days_ago(int days) {
    return utc_timestamp(std::chrono::system_clock::now() - std::chrono::hours(24 * days));
  }
  IndexEntry make_run(const std::string& id, int created_days_ago) {
    const IndexEntry run{id, name_of_id(id), runs / id, days_ago(created_days_ago)};
    fs::create_directories(run.path);
    REQUIRE(index().add(run).has_value());
    return run;
  }
  static void write_journal(const fs::path& run, Submission::State state, const char* job) {
    Submission submission;
    submission.token = std::string(32, 'a');
    submission.state = state;
    submission.job.id = job;
    submission.argv = {"sbatch", (run / "job.sh").string()};
    REQUIRE(write_submission(run, submission).has_value());
  }
  static void record_end(const fs::path& run, int ended_days_ago) {
    put(run / "events.jsonl", to_checked_line({{"t", days_ago(ended_days_ago)},
                                               {"event", "ended"},
                                               {"attempt", 0},
                                               {"state", "completed"},
                                               {"code", 0},
                                               {"message", ""}}));
  }
  IndexEntry make_ended_run(const std::string& id, int created_days_ago, int ended_days_ago) {
    const auto run = make_run(id, created_days_ago);
    write_journal(run.path, Submission::State::kSubmitted, "42");
    record_end(run.path, ended_days_ago);
    return run;
  }
  /// Creates a sweep with two points that have ended.
  IndexEntry make_sweep(const std::string& id) {
    const auto sweep = make_run(id, 50);
    SweepRecord record;
    record.keys = {"train.lr"};
    record.array_count = 1;
    for (std::size_t i = 0; i < 2; ++i) record.points.push_back({0, i, {std::to_string(i)}});
    put(sweep.path / "sweep.json", sweep_json(record));
    for (const auto& point : record.points) {
      const auto path = point_path(sweep.path, point);
      put(path / "submission.json", journal_of_task(point.point_in_array));
      record_end(path, 40);
    }
    write_journal(array_path(sweep.path, 0), Submission::State::kSubmitted, "43");
    return sweep;
  }
  CleanupPlan plan(const std::vector<IndexEntry>& chosen) const {
    RunInspector inspector(env);
    auto made = plan_removal(env, inspector, chosen);
    REQUIRE(made.has_value());
    return std::move(*made);
  }
  /// Returns the reason why `dlrun rm` keeps the run. Fails the test if the run would be deleted.
  std::string why_kept(const IndexEntry& run) const {
    const auto made = plan({run});
    CHECK(made.deletions.empty());
    REQUIRE(made.kept.size() == 1);
    return made.kept[0].why.message;
  }
  std::vector<std::string> ids_to_prune(PruneRequest request) const {
    RunInspector inspector(env);
    const auto made = plan_pruning(env, inspector, request);
    REQUIRE(made.has_value());
    std::vector<std::string> ids;
    for (const PlannedDeletion& planned : made->deletions) ids.push_back(planned.run.id);
    return ids;
  }
  Result<TreeDeletion> remove(const PlannedDeletion& planned) const {
    RunInspector inspector(env);
    return delete_planned(env, inspector, planned, RunParts::kAll);
  }
};

/// Returns the request of `prune --keep-checkpoints --older-than 24h`.
PruneRequest request_for_diagnostics() {
  PruneRequest request;
  request.older_than = std::chrono::hours(24);
  request.parts = RunParts::kDiagnostics;
  return request;
}

}  // namespace

TEST_CASE_FIXTURE(CleanupFixture, "a run stays if its state is unknown or Slurm does not answer") {
  const auto run = make_run("a-20261121-120000-00aa", 50);
  write_journal(run.path, Submission::State::kSubmitted, "42");
  CHECK(has(why_kept(run), "its state is unknown"));
  fs::remove_all(folder.path() / "bin");
  env.set("PATH", "/nowhere");
  CHECK(has(why_kept(run), "its state is not known now"));
  record_end(run.path, 40);  // the record has the end, so Slurm is not needed
  CHECK(plan({run}).deletions.size() == 1);
}

TEST_CASE_FIXTURE(CleanupFixture,
                  "a run stays while it is, or may be, in the middle of its submission") {
  const auto run = make_run("a-20261121-120000-00aa", 50);
  write_journal(run.path, Submission::State::kIntent, "");
  {
    const auto lock = SubmissionLock::take_if_free(run.path);
    CHECK(has(why_kept(run), "is pending"));
  }
  CHECK(has(why_kept(run), "try again in an hour"));
  const timeval old[2] = {{::time(nullptr) - 7200, 0}, {::time(nullptr) - 7200, 0}};
  REQUIRE(::utimes((run.path / "submission.json").c_str(), old) == 0);
  CHECK(plan({run}).deletions.size() == 1);
}

TEST_CASE_FIXTURE(CleanupFixture, "a run stays if it starts after the plan was made") {
  const auto run = make_run("a-20261121-120000-00aa", 50);
  write_journal(run.path, Submission::State::kRefused, "");
  const auto made = plan({run});
  REQUIRE(made.deletions.size() == 1);
  write_journal(run.path, Submission::State::kSubmitted, "42");
  CHECK_FALSE(remove(made.deletions[0]).has_value());
  CHECK(fs::exists(run.path));
  write_journal(run.path, Submission::State::kRefused, "");
  CHECK(remove(made.deletions[0]).has_value());
  CHECK_FALSE(fs::exists(run.path));
}

TEST_CASE_FIXTURE(
    CleanupFixture,
    "an ended run stays if Slurm has queued its job again or has not finished the job") {
  const auto run = make_ended_run("a-20261121-120000-00aa", 50, 40);
  const std::string comment = "dlrun:" + std::string(32, 'a');
  set_answer_of_squeue("42|PENDING|BeginTime|||N/A|" + comment);
  CHECK(has(why_kept(run), "Slurm has queued or started its job 42 (PENDING)"));
  set_answer_of_squeue("42|RUNNING|None|n1|N/A||" + comment);
  CHECK(has(why_kept(run), "Slurm has not finished its job 42 (RUNNING)"));
  set_answer_of_squeue("42|RUNNING|None|n1|N/A||dlrun:another");  // Slurm used the id again
  CHECK(plan({run}).deletions.size() == 1);
  set_answer_of_squeue("");
  auto made = plan({run});
  REQUIRE(made.deletions.size() == 1);
  set_answer_of_squeue("42|PENDING|BeginTime|||N/A|" + comment);
  made.deletions[0].asked_at -= std::chrono::minutes(2);  // the user confirms two minutes later
  CHECK(has(remove(made.deletions[0]).error().message, "Slurm has queued or started its job 42"));
  set_answer_of_squeue("42|RUNNING|None|n1|N/A||" + comment);
  // The script of a job runs on for a moment after the record has the end.
  record_end(run.path, 0);
  CHECK(plan({run}).deletions.size() == 1);
  set_answer_of_squeue("42|COMPLETED|None|n1|N/A||" + comment);
  record_end(run.path, 40);
  CHECK(plan({run}).deletions.size() == 1);
}

TEST_CASE_FIXTURE(CleanupFixture, "a sweep whose sweep.json is missing stays") {
  const auto sweep = make_sweep("lr-20261121-120000-00aa");
  put(sweep.path / "spec.yaml", "name: lr");
  fs::remove(sweep.path / "sweep.json");
  CHECK(has(why_kept(sweep), "is a sweep whose sweep.json is missing"));
}

TEST_CASE_FIXTURE(CleanupFixture,
                  "a run stays if another run is inside its directory through a link") {
  const auto outer = make_ended_run("a-20261121-120000-00aa", 50, 40);
  fs::create_directories(outer.path / "code");
  fs::create_directory_symlink(outer.path / "code", folder.path() / "link");
  const IndexEntry inner{"b-20261121-120000-00bb", "b",
                         folder.path() / "link" / "b-20261121-120000-00bb", days_ago(45)};
  put(inner.path / "submission.json", R"({"state":"refused"})");
  REQUIRE(index().add(inner).has_value());
  CHECK(has(why_kept(outer), "the run b-20261121-120000-00bb is inside its directory"));
}

TEST_CASE_FIXTURE(
    CleanupFixture,
    "if another process has deleted a run since the plan was made, rm fails and prune does not") {
  const auto run = make_ended_run("a-20261121-120000-00aa", 50, 40);
  RunInspector inspector(env);
  PruneRequest request;
  request.older_than = std::chrono::hours(24 * 30);
  const auto pruning = plan_pruning(env, inspector, request);
  REQUIRE(pruning.has_value());
  const auto removal = plan({run});
  fs::remove_all(run.path);
  std::vector<std::string> notes, errors;
  const CleanupListener listener{[](const std::string&) {},
                                 [&](const std::string& text) { notes.push_back(text); },
                                 [&](const Error& error) { errors.push_back(error.message); }};
  CHECK_FALSE(clean_up(env, inspector, *pruning, listener).failure.has_value());
  CHECK(notes.size() == 1);
  CHECK(errors.empty());
  CHECK(clean_up(env, inspector, removal, listener).failure == Errc::kNotFound);
  CHECK(errors.size() == 1);
}

TEST_CASE_FIXTURE(CleanupFixture,
                  "files of earlier deletions that cannot be deleted are reported") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root can make a file immutable");
    return;
  }
  const auto run = make_ended_run("a-20261121-120000-00aa", 50, 40);
  const std::string name = ".deleted-b-20261121-120000-00bb-0123456789abcdef";
  put(runs / name / "file", "x");
  struct stat info {};
  REQUIRE(::stat((runs / name).c_str(), &info) == 0);
  put(runs / name / ".deleted", fmt::format(R"({{"run":"b-20261121-120000-00bb","renamed":"{}",)"
                                            R"("inode":"{}"}})",
                                            name, info.st_ino));
  if (std::system(("chattr +i '" + (runs / name / "file").string() + "' 2>/dev/null").c_str())) {
    MESSAGE("skipped: this file system has no immutable files");
    return;
  }
  std::vector<std::string> notes;
  const CleanupListener listener{[](const std::string&) {},
                                 [&](const std::string& text) { notes.push_back(text); },
                                 [](const Error&) {}};
  RunInspector inspector(env);
  CHECK_FALSE(clean_up(env, inspector, plan({run}), listener).failure.has_value());
  REQUIRE(notes.size() == 1);
  CHECK(has(notes[0], "1 file of earlier deletions could not be deleted: " + name + "/file"));
  CHECK(std::system(("chattr -i '" + (runs / name / "file").string() + "'").c_str()) == 0);
}

TEST_CASE_FIXTURE(CleanupFixture, "a sweep is deleted as a whole, and only if all points ended") {
  const auto sweep = make_sweep("lr-20261121-120000-00aa");
  const auto point = point_entry(sweep, 1);
  REQUIRE(point.has_value());
  CHECK(has(why_kept(*point), "a sweep is deleted as a whole: `dlrun rm lr-2026"));
  fs::remove(point->path / "events.jsonl");
  CHECK(has(why_kept(sweep), "lr-20261121-120000-00aa/1: its state is unknown"));
  CHECK(has(why_kept(sweep), "delete " + sweep.path.string() + " by hand; `dlrun rm " + sweep.id +
                                 "` then removes the sweep"));
  record_end(point->path, 40);
  const auto made = plan({sweep});
  REQUIRE(made.deletions.size() == 1);
  CHECK(remove(made.deletions[0]).has_value());
  CHECK_FALSE(fs::exists(sweep.path));
}

TEST_CASE_FIXTURE(CleanupFixture,
                  "a repetition whose result counts for a point is deleted only after the sweep") {
  const auto sweep = make_sweep("lr-20261121-120000-00aa");
  const auto again = make_ended_run("lr-1-20261121-130000-00bb", 45, 40);
  put(again.path / "provenance.json", R"({"repeats":"lr-20261121-120000-00aa/1"})");
  CHECK(plan({again}).deletions.size() == 1);  // the sweep does not refer to it yet
  REQUIRE(write_successor(sweep.path / "array-0" / "1", again.path).has_value());
  CHECK(has(why_kept(again), "its result counts for the point lr-20261121-120000-00aa/1"));
  const auto both = plan({again, sweep});
  REQUIRE(both.deletions.size() == 2);
  CHECK(both.deletions[0].run.id == sweep.id);
  // The sweep must really be gone before the repetition is deleted.
  CHECK_FALSE(remove(both.deletions[1]).has_value());
  // If the sweep stays, the repetition stays, too.
  fs::rename(sweep.path / "array-0/0/events.jsonl", folder.path() / "aside");
  const auto none = plan({again, sweep});
  CHECK(none.deletions.empty());
  REQUIRE(none.kept.size() == 2);
  CHECK(has(none.kept[1].why.message, "its result counts for the point"));
  fs::rename(folder.path() / "aside", sweep.path / "array-0/0/events.jsonl");
  CHECK(remove(both.deletions[0]).has_value());
  CHECK(remove(both.deletions[1]).has_value());
}

TEST_CASE_FIXTURE(CleanupFixture, "a run with another run inside its directory stays") {
  const auto outer = make_ended_run("a-20261121-120000-00aa", 50, 40);
  const IndexEntry inner{"b-20261121-120000-00bb", "b",
                         outer.path / "code" / "runs" / "b-20261121-120000-00bb", days_ago(45)};
  put(inner.path / "submission.json", R"({"state":"refused"})");
  REQUIRE(index().add(inner).has_value());
  CHECK(has(why_kept(outer), "the run b-20261121-120000-00bb is inside its directory"));
  fs::remove_all(inner.path);
  CHECK(plan({outer}).deletions.size() == 1);
}

TEST_CASE_FIXTURE(CleanupFixture,
                  "prune --keep-checkpoints explains diagnostic files once, not for each run, and "
                  "a second prune finds none") {
  const auto run = make_ended_run("a-20261121-120000-00aa", 50, 40);
  put(run.path / "slurm-42.out", "word\n");
  RunInspector inspector(env);
  PruneRequest request = request_for_diagnostics();
  const auto pruning = plan_pruning(env, inspector, request);
  REQUIRE(pruning.has_value());
  CHECK(cleanup_question(*pruning).starts_with(
      "Delete the diagnostic files (logs, traces, profiles and stacks of hung ranks) of 1 run (1 "
      "file, "));
  std::vector<std::string> lines;
  const CleanupListener listener{[&](const std::string& line) { lines.push_back(line); },
                                 [](const std::string&) {}, [](const Error&) {}};
  CHECK_FALSE(clean_up(env, inspector, *pruning, listener).failure);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].starts_with("deleted the diagnostic files of " + run.id + " (1 file, "));
  const auto second = plan_pruning(env, inspector, request);
  REQUIRE(second.has_value());
  CHECK(second->deletions.empty());
  CHECK(nothing_to_prune_text(*second, "1d") ==
        "1 run that ended more than 1d ago has no diagnostic files (logs, traces, profiles and "
        "stacks of hung ranks) left; without --keep-checkpoints, prune deletes whole runs");
  request.older_than = std::chrono::hours(24 * 45);
  const auto later = plan_pruning(env, inspector, request);
  REQUIRE(later.has_value());
  CHECK(nothing_to_prune_text(*later, "45d") ==
        "no run that ended more than 45d ago can be deleted");
}

TEST_CASE_FIXTURE(CleanupFixture,
                  "the table of runs to delete has their checkpoints only if these are deleted") {
  const auto run = make_ended_run("a-20261121-120000-00aa", 50, 40);
  const auto other = make_ended_run("b-20261121-120000-00aa", 49, 40);
  put(run.path / "ckpt" / "model.bin", std::string(1'000'000, 'x'));
  put(run.path / "slurm-42.out", "word\n");
  const auto rows = cleanup_rows(plan({run, other}));
  REQUIRE(rows.size() == 3);
  CHECK(rows[0] == std::vector<std::string>{"RUN", "STATE", "FILES", "CHECKPOINTS", "SIZE"});
  CHECK(rows[1][3].ends_with("B"));
  CHECK(rows[2][3] == "-");
  RunInspector inspector(env);
  const auto pruning = plan_pruning(env, inspector, request_for_diagnostics());
  REQUIRE(pruning.has_value());
  CHECK(cleanup_rows(*pruning)[0] == std::vector<std::string>{"RUN", "STATE", "FILES", "SIZE"});
}

TEST_CASE_FIXTURE(CleanupFixture, "prune chooses runs by the time of their end, oldest first") {
  make_ended_run("new-20261121-120000-00aa", 10, 9);
  make_ended_run("long-20261121-120000-00aa", 60, 2);
  make_ended_run("old-20261121-120000-00aa", 50, 40);
  make_ended_run("older-20261121-120000-00aa", 90, 80);
  const auto lost = make_run("lost-20261121-120000-00aa", 70);
  write_journal(lost.path, Submission::State::kSubmitted, "7");
  const auto gone = make_ended_run("gone-20261121-120000-00aa", 50, 40);
  fs::remove_all(gone.path);
  PruneRequest request;
  request.older_than = std::chrono::hours(24 * 30);
  const std::vector<std::string> expected{"older-20261121-120000-00aa", "old-20261121-120000-00aa"};
  CHECK(ids_to_prune(request) == expected);
  request.folder = folder.path() / "other";
  CHECK(ids_to_prune(request).empty());
  request.folder = runs / ".";
  CHECK(ids_to_prune(request) == expected);
  request.parts = RunParts::kDiagnostics;
  CHECK(ids_to_prune(request).empty());  // these runs have no diagnostic files
  put(runs / "old-20261121-120000-00aa" / "slurm-42.out", "x");
  CHECK(ids_to_prune(request) == std::vector<std::string>{"old-20261121-120000-00aa"});
}

TEST_CASE_FIXTURE(
    CleanupFixture,
    "the record of an ended point is sent even if another point of its sweep has not ended") {
  const auto sweep = make_sweep("lr-20261121-120000-00aa");
  for (const char* point : {"0", "1"}) {
    REQUIRE(MlflowRecord(sweep.path / "array-0" / point)
                .create({.url = "http://127.0.0.1:1", .experiment = "e", .run = "r"})
                .has_value());
  }
  fs::remove(sweep.path / "array-0" / "0" / "events.jsonl");
  set_answer_of_squeue("43_0|RUNNING|None|n1|N/A||");
  RunInspector inspector(env);
  const auto tracked = sync_records(env, inspector, sweep);
  REQUIRE(tracked.has_value());
  REQUIRE(tracked->size() == 2);
  CHECK(has(tracked->at(0).report.problem, "has not ended"));
  CHECK_FALSE(tracked->at(0).report.is_complete);
  // No server listens at this address.
  CHECK_FALSE(tracked->at(1).report.problem.empty());
  CHECK_FALSE(has(tracked->at(1).report.problem, "has not ended"));
}

namespace {

/// A run whose job 42 was submitted on cluster alpha. Its MLflow record is for a server that does
/// not exist.
struct TrackedRunFixture : CleanupFixture {
  IndexEntry run = make_run("mnist-20261121-120000-00aa", 50);
  fs::path values_file = run.path / "track/mlflow.jsonl";

  TrackedRunFixture() {
    write_journal(run.path, Submission::State::kSubmitted, "42");
    put(run.path / "claim",
        R"({"cluster":"alpha","job":"42","token":")" + std::string(32, 'a') + R"("})");
    record_claim_at("2026-11-21T12:30:00.123Z");
    REQUIRE(MlflowRecord(run.path)
                .create({.url = "http://127.0.0.1:1", .experiment = "e", .run = "r"})
                .has_value());
  }
  void record_claim_at(const std::string& time) const {
    put(run.path / "events.jsonl",
        to_checked_line({{"t", time}, {"event", "claimed"}, {"attempt", 0}, {"job", "42"}}));
  }
  [[nodiscard]] Result<std::vector<RunSyncReport>> sync() const {
    RunInspector inspector(env);
    return sync_records(env, inspector, run);
  }
  /// Calls sync(). Returns the values of the MLflow record after it, or the error of sync().
  [[nodiscard]] std::string sync_and_read_values() const {
    const auto tracked = sync();
    return tracked ? read_file(values_file, 1U << 20U).value_or("") : tracked.error().message;
  }
};

}  // namespace

TEST_CASE_FIXTURE(TrackedRunFixture,
                  "the MLflow record of a run whose lead was killed gets the run's end before the "
                  "record is sent") {
  SUBCASE("it still runs") {
    set_answer_of_squeue("42|RUNNING|None|n1|N/A||");
    CHECK(has(sync_and_read_values(), "has not ended"));
    CHECK_FALSE(fs::exists(values_file));
  }
  SUBCASE("its job was cancelled") {
    set_answer_of_squeue("42|CANCELLED|None|n1|N/A||");
    CHECK(sync_and_read_values() == "{\"t\":1795264200123,\"status\":\"KILLED\"}\n");
  }
  SUBCASE("its node failed") {
    set_answer_of_squeue("42|NODE_FAIL|None|n1|N/A||");
    CHECK(sync_and_read_values() == "{\"t\":1795264200123,\"status\":\"FAILED\"}\n");
    CHECK(sync_and_read_values() == "{\"t\":1795264200123,\"status\":\"FAILED\"}\n");
  }
}

TEST_CASE_FIXTURE(
    TrackedRunFixture,
    "the MLflow record of a run that Slurm does not know gets an end only if the job is certainly "
    "gone") {
  record_claim_at(days_ago(1));
  set_answer("scontrol", "ClusterName             = alpha");
  SUBCASE("its job belongs to this cluster, and its last event is old") {
    CHECK(has(sync_and_read_values(), R"("status":"FAILED"})"));
    return;
  }
  std::string reason;
  SUBCASE("its job belongs to another cluster") {
    set_answer("scontrol", "ClusterName             = beta");
    reason = "its job 42 belongs to cluster alpha, and cluster beta does not know";
  }
  SUBCASE("the name of this cluster is not known") {
    set_answer("scontrol", "");
    reason = "it is not certain that this is the cluster of the job";
  }
  SUBCASE("the cluster of its job is not known") {
    fs::remove(run.path / "claim");
    reason = "it is not certain that this is the cluster of the job";
  }
  SUBCASE("its last event is new") {
    record_claim_at(days_ago(0));
    reason = "is not 10 minutes old yet";
  }
  const auto tracked = sync();
  REQUIRE_FALSE(tracked.has_value());
  CHECK(tracked.error().code == Errc::kInvalid);
  CAPTURE(tracked.error().message);
  CHECK(has(tracked.error().message, reason));
  CHECK_FALSE(fs::exists(values_file));
}

TEST_CASE_FIXTURE(TrackedRunFixture,
                  "a run's MLflow record gets the end without Slurm's cluster name if the "
                  "submission has the cluster's name") {
  record_claim_at(days_ago(1));
  Submission submission;
  submission.token = std::string(32, 'a');
  submission.state = Submission::State::kSubmitted;
  submission.job = {"alpha", "42"};
  REQUIRE(write_submission(run.path, submission).has_value());
  CHECK(has(sync_and_read_values(), R"("status":"FAILED"})"));
}

TEST_CASE_FIXTURE(TrackedRunFixture,
                  "track sync adds the end of a run only after ten minutes, when the job cannot "
                  "add it any more") {
  const PythonServer server("mlflow_server.py");
  std::string url = server.url("");
  url.pop_back();
  fs::remove(run.path / "track/mlflow.json");
  REQUIRE(MlflowRecord(run.path).create({.url = url, .experiment = "e", .run = "r"}).has_value());
  record_end(run.path, 0);
  const auto early = sync();
  REQUIRE(early.has_value());
  CHECK_FALSE(early->front().report.is_complete);
  CHECK(has(early->front().report.problem, "try again 10 minutes after the end"));
  CHECK_FALSE(fs::exists(values_file));
  // Ten minutes after the end, the job cannot write any more.
  record_end(run.path, 1);
  const auto late = sync();
  REQUIRE(late.has_value());
  CHECK(late->front().report.problem == "");
  CHECK(has(sync_and_read_values(), R"("status":"FINISHED"})"));
}

TEST_CASE_FIXTURE(TrackedRunFixture, "track sync says so if Slurm does not answer about a run") {
  put(folder.path() / "bin/squeue", "#!/bin/sh\necho 'no controller' >&2\nexit 1\n");
  fs::permissions(folder.path() / "bin/squeue", fs::perms::owner_all);
  const auto tracked = sync();
  REQUIRE_FALSE(tracked.has_value());
  CHECK(tracked.error().code == Errc::kUnavailable);
  CHECK(has(tracked.error().message, "no controller"));
  CHECK_FALSE(has(tracked.error().message, "has not ended"));
}

TEST_CASE_FIXTURE(CleanupFixture,
                  "prune fails if the path of the folder to prune cannot be resolved") {
  make_ended_run("old-20261121-120000-00aa", 50, 40);
  fs::create_symlink("loop", folder.path() / "loop");
  PruneRequest request;
  request.older_than = std::chrono::hours(24 * 30);
  request.folder = folder.path() / "loop";
  RunInspector inspector(env);
  const auto made = plan_pruning(env, inspector, request);
  REQUIRE_FALSE(made.has_value());
  CHECK(has(made.error().message, "loop"));
}

TEST_CASE_FIXTURE(CleanupFixture,
                  "a cleanup removes the records of runs that were deleted over a year ago, but "
                  "the plan of a cleanup does not") {
  const std::string id = "old-20261121-120000-00aa";
  const auto deleted = DeletedRuns::beside(index());
  REQUIRE(deleted.add({{id, name_of_id(id), runs / id, days_ago(500)}, "completed", days_ago(400)})
              .has_value());
  const std::time_t then = ::time(nullptr) - 400 * 86'400;
  const timeval old[2] = {{then, 0}, {then, 0}};
  const auto record = index().directory().parent_path() / "deleted" / id;
  REQUIRE(::utimes(record.c_str(), old) == 0);
  PruneRequest request;
  request.older_than = std::chrono::hours(24 * 30);
  RunInspector inspector(env);
  const auto made = plan_pruning(env, inspector, request);
  REQUIRE(made.has_value());
  CHECK(dry_cleanup(*made).runs.empty());
  CHECK(deleted.find(id).has_value());
  const CleanupListener listener{[](const std::string&) {}, [](const std::string&) {},
                                 [](const Error&) {}};
  CHECK_FALSE(clean_up(env, inspector, *made, listener).failure.has_value());
  CHECK_FALSE(deleted.find(id).has_value());
}

TEST_CASE_FIXTURE(CleanupFixture, "an entry without a directory can be removed from the list") {
  const auto run = make_ended_run("a-20261121-120000-00aa", 50, 40);
  fs::remove_all(run.path);
  const auto made = plan({run, run});
  REQUIRE(made.deletions.size() == 1);
  CHECK(made.deletions[0].is_gone);
  CHECK(remove(made.deletions[0]).has_value());
  CHECK(index().list()->entries.empty());
}

TEST_CASE_FIXTURE(
    CleanupFixture,
    "the sizes of runs and of their checkpoints are measured, and the largest run comes first") {
  const auto small = make_ended_run("small-20261121-120000-00aa", 50, 40);
  const auto large = make_ended_run("large-20261121-120000-00aa", 50, 40);
  put(large.path / "ckpt" / "model.bin", std::string(1'000'000, 'x'));
  put(large.path / "data", std::string(1'000'000, 'x'));
  const auto measured = measure_runs(all_own_runs(env).value());
  REQUIRE(measured.size() == 2);
  CHECK(measured[0].run.id == large.id);
  CHECK(measured[0].size.bytes >= 2'000'000);
  CHECK(measured[0].size.checkpoint_bytes >= 1'000'000);
  CHECK(measured[0].size.checkpoint_bytes < 2'000'000);
  CHECK(disk_usage_json(measured[0])["files"] == 4);
  CHECK(measured[1].run.id == small.id);
}

}  // namespace dlrun
