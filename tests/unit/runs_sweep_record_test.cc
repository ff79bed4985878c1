#include <doctest/doctest.h>

#include "common/files.h"
#include "launcher/runs/cancel_mark.h"
#include "launcher/runs/journal.h"
#include "launcher/runs/log_file.h"
#include "launcher/runs/resolve.h"
#include "launcher/runs/status.h"
#include "launcher/runs/sweep_record.h"
#include "tests/temporary_directory.h"

namespace dlrun {
namespace {

namespace fs = std::filesystem;

/// A sweep in an index: three points in two arrays. Points 0 and 2 are in the first array, job 70.
/// Point 1 is in the second array, which was never submitted.
struct SweepRecordFixture {
  TemporaryDirectory folder;
  RunIndex index{folder.path() / "state"};
  fs::path runs = folder.path() / "runs";
  IndexEntry sweep{"lr-20261121-120000-00aa", "lr", runs / "lr-20261121-120000-00aa",
                   "2026-11-21T12:00:00.000Z"};
  SweepRecord record;

  SweepRecordFixture() {
    record.keys = {"train.lr", "train.batch"};
    record.array_count = 2;
    record.max_parallel = 2;
    record.points = {
        {0, 0, {"0.1", std::nullopt}}, {1, 0, {"0.2", "8"}}, {0, 1, {"0.3", "\"a b\""}}};
    for (const auto& point : record.points) {
      const fs::path path = point_path(sweep.path, point);
      fs::create_directories(path);
      put(path / "submission.json", journal_of_task(point.point_in_array));
    }
    put(sweep.path / "sweep.json", sweep_json(record));
    Submission submission;
    submission.token = std::string(32, 'a');
    submission.state = Submission::State::kSubmitted;
    submission.job = {"", "70"};
    REQUIRE(write_submission(array_path(sweep.path, 0), submission).has_value());
    REQUIRE(index.add(sweep).has_value());
  }
  static void put(const fs::path& path, std::string_view text) {
    REQUIRE(write_file_atomic(path, text).has_value());
  }
  [[nodiscard]] std::string id_or_error(std::string_view text) const {
    const auto found = resolve_run(text, index, folder.path());
    return found ? found->id : found.error().message;
  }
  [[nodiscard]] fs::path path_of_point(std::size_t number) const {
    return point_path(sweep.path, record.points[number]);
  }
};

RunStatus status_in_state(RunState state) {
  RunStatus status;
  status.state = state;
  status.job = {"", "70_1"};
  return status;
}

RunState sweep_state(std::initializer_list<RunState> states) {
  std::vector<Result<RunStatus>> points;
  for (const RunState state : states) points.emplace_back(status_in_state(state));
  return sum_up_points(points).state;
}

/// An executor that finds no job, and counts the searches.
class ExecutorWithoutJobs final : public Executor {
 public:
  int find_call_count = 0;
  Result<> check(const SubmitRequest&) override { return {}; }
  Result<JobId> submit(const SubmitRequest&) override { return fail(Errc::kInternal, ""); }
  Result<std::string> test(const SubmitRequest&) override { return fail(Errc::kInternal, ""); }
  Result<std::optional<JobId>> do_find(std::string_view, const std::string&) override {
    ++find_call_count;
    return std::nullopt;
  }
  Result<QueryAnswer> do_query(std::span<const JobId>, std::chrono::milliseconds) override {
    return QueryAnswer{};
  }
  Result<> do_cancel(const JobId&, std::string_view) override { return {}; }
};

}  // namespace

TEST_CASE("a sweep's record can be read back, and a damaged record is refused") {
  const SweepRecordFixture f;
  const auto again = read_sweep(f.sweep.path);
  REQUIRE(again.has_value());
  CHECK(sweep_json(*again) == sweep_json(f.record));
  CHECK(describe(*again, again->points[1]) == "train.lr=0.2 train.batch=8");
  for (const char* text :
       {"", "{}", R"({"keys":[],"points":[],"arrays":1})",
        R"({"keys":["a"],"points":[{}],"arrays":1})",
        R"({"keys":["a"],"points":[{"array":1,"task":0,"values":["1"]}],"arrays":1})",
        R"({"keys":["a"],"points":[{"array":0,"task":0,"values":[]}],"arrays":1})",
        R"({"keys":["a"],"points":[3],"arrays":1})"}) {
    SweepRecordFixture::put(f.sweep.path / "sweep.json", text);
    const auto read = read_sweep(f.sweep.path);
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().code == Errc::kInvalid);
  }
}

TEST_CASE(
    "read_submission() of a point returns the journal of its array, with the job id of the point's "
    "task") {
  const SweepRecordFixture f;
  const auto sent = read_submission(f.path_of_point(2));
  REQUIRE(sent.has_value());
  CHECK((*sent)->job.id == "70_1");
  CHECK((*sent)->task == 1);
  CHECK((*sent)->state == Submission::State::kSubmitted);
  const auto unsent = read_submission(f.path_of_point(1));
  REQUIRE(unsent.has_value());
  CHECK((*unsent)->state == Submission::State::kIntent);
  CHECK((*unsent)->job.id.empty());
}

TEST_CASE(
    "%A and %a in an output pattern are expanded only for a task of an array, and %j only for "
    "other jobs") {
  CHECK(expand_output_pattern("o_%A_%a", "70_1", "eva") == "o_70_1");
  CHECK_FALSE(expand_output_pattern("o_%j", "70_1", "eva").has_value());
  CHECK_FALSE(expand_output_pattern("o_%a", "70", "eva").has_value());
}

TEST_CASE(
    "a point is found by its number, its job or its path, and a sweep by the job of its array") {
  const SweepRecordFixture f;
  for (const char* text :
       {"lr/2", "last/2", "lr-20261121-120000-00aa/2", "lr-2026/2", "70_1",
        "runs/lr-20261121-120000-00aa/2", "runs/lr-20261121-120000-00aa/array-0/1"}) {
    CHECK_MESSAGE(f.id_or_error(text) == "lr-20261121-120000-00aa/2", text);
  }
  CHECK(f.id_or_error("70") == f.sweep.id);
  CHECK(f.id_or_error("lr/3").find("has no point 3: its points are 0 to 2") != std::string::npos);
  CHECK(f.id_or_error("no/1").find("no run 'no'") != std::string::npos);
}

TEST_CASE("if a sweep and a run have had the same job id, the newer one is found") {
  const SweepRecordFixture f;
  const auto make_run = [&](const std::string& id, const char* created) {
    const fs::path path = f.runs / id;
    fs::create_directories(path);
    SweepRecordFixture::put(path / "submission.json", R"({"state":"submitted","job":"70"})");
    REQUIRE(f.index.add({id, "mnist", path, created}).has_value());
  };
  make_run("mnist-20251121-120000-00bb", "2025-11-21T12:00:00.000Z");
  CHECK(f.id_or_error("70") == f.sweep.id);
  make_run("mnist-20271121-120000-00cc", "2027-11-21T12:00:00.000Z");
  CHECK(f.id_or_error("70") == "mnist-20271121-120000-00cc");
}

TEST_CASE("a point has its sweep's time of creation, also if the point is given by its path") {
  const SweepRecordFixture f;
  for (const std::string& text : {f.sweep.id + "/1", f.path_of_point(1).string()}) {
    const auto found = resolve_run(text, f.index, f.folder.path());
    REQUIRE(found.has_value());
    CHECK(found->id == f.sweep.id + "/1");
    CHECK(found->created == f.sweep.created);
  }
}

TEST_CASE(
    "a point has its sweep's time of creation, also if the index has the sweep's path through a "
    "symbolic link") {
  const SweepRecordFixture f;
  fs::create_directory_symlink(f.runs, f.folder.path() / "link");
  const RunIndex index(f.folder.path() / "other-state");
  IndexEntry sweep = f.sweep;
  sweep.path = f.folder.path() / "link" / f.sweep.id;
  REQUIRE(index.add(sweep).has_value());
  const auto found = resolve_run(f.path_of_point(1).string(), index, f.folder.path());
  REQUIRE(found.has_value());
  CHECK(found->created == f.sweep.created);
}

TEST_CASE(
    "the current run of a point is its latest resubmission, or the point's first run if a "
    "resubmission was removed") {
  const SweepRecordFixture f;
  CHECK(current_run_of(f.path_of_point(0)) == f.path_of_point(0));
  const fs::path second = f.runs / "second", third = f.runs / "third";
  for (const auto& run : {second, third}) {
    fs::create_directories(run);
    SweepRecordFixture::put(run / "submission.json", R"({"state":"submitted","job":"80"})");
  }
  REQUIRE(write_successor(f.path_of_point(0), second).has_value());
  REQUIRE(write_successor(second, third).has_value());
  CHECK(current_run_of(f.path_of_point(0)) == third);
  REQUIRE(write_successor(third, second).has_value());  // a cycle must not loop forever
  CHECK_FALSE(current_run_of(f.path_of_point(0)).empty());
  fs::remove_all(second);
  CHECK(current_run_of(f.path_of_point(0)) == f.path_of_point(0));
}

TEST_CASE("runs_of_point() returns all runs of a point in the order of submission") {
  const SweepRecordFixture f;
  const fs::path second = f.runs / "second";
  fs::create_directories(second);
  SweepRecordFixture::put(second / "submission.json", R"({"state":"submitted","job":"80"})");
  REQUIRE(write_successor(f.path_of_point(0), second).has_value());
  CHECK(runs_of_point(f.path_of_point(0)) == std::vector<fs::path>{f.path_of_point(0), second});
  CHECK(runs_of_point(f.path_of_point(1)) == std::vector<fs::path>{f.path_of_point(1)});
}

TEST_CASE("the status of a point whose array was not submitted has the reason and the remedy") {
  const SweepRecordFixture f;
  const auto assessed = [&] {
    auto facts = RunInspector::read_facts(f.path_of_point(1));
    REQUIRE(facts.has_value());
    return assess(std::move(*facts));
  };
  RunStatus status = assessed();
  CHECK(status.state == RunState::kNotSubmitted);
  CHECK(status.detail ==
        "it was not submitted: the submission ended before its array's turn; `dlrun resubmit` of "
        "the sweep submits the missing points");
  Submission intent;
  intent.token = std::string(32, 'c');
  REQUIRE(write_submission(array_path(f.sweep.path, 1), intent).has_value());
  status = assessed();
  CHECK(status.state == RunState::kNotSubmitted);
  CHECK(status.detail.find("the submission of its array was interrupted, and Slurm knows no job of "
                           "it; `dlrun resubmit`") == 0);
}

TEST_CASE(
    "the error about a missing point does not suggest `dlrun rm`, which could delete another run") {
  const SweepRecordFixture f;
  fs::remove_all(f.path_of_point(2));
  const auto point = RunInspector::read_facts(f.path_of_point(2));
  REQUIRE_FALSE(point.has_value());
  CHECK(point.error().code == Errc::kNotFound);
  CHECK(point.error().message.find("array-0/1: the point's directory is gone") !=
        std::string::npos);
  CHECK(point.error().message.find("dlrun rm") == std::string::npos);
  fs::remove_all(f.sweep.path);
  const auto sweep = RunInspector::read_facts(f.sweep.path);
  REQUIRE_FALSE(sweep.has_value());
  CHECK(sweep.error().message.find("`dlrun rm " + f.sweep.id + "`") != std::string::npos);
}

TEST_CASE(
    "a submission of a sweep is refused while another submission holds the lock of the sweep") {
  const SweepRecordFixture f;
  {
    const auto first = SubmissionLock::take(f.sweep.path);
    REQUIRE(first.has_value());
    const auto second = SubmissionLock::take(f.sweep.path);
    REQUIRE_FALSE(second.has_value());
    CHECK(second.error().code == Errc::kRefused);
    // A process that does not obtain the lock leaves the holder's lock file in place.
    { const auto third = SubmissionLock::take_if_free(f.sweep.path); }
    CHECK(is_being_submitted(f.sweep.path));
  }
  CHECK_FALSE(is_being_submitted(f.sweep.path));
  CHECK(SubmissionLock::take(f.sweep.path).has_value());
}

TEST_CASE(
    "a sweep is pending while all points are, running until all end, and then failed if one failed "
    "or timed out") {
  using S = RunState;
  CHECK(sweep_state({S::kPending, S::kPending}) == S::kPending);
  CHECK(sweep_state({S::kCompleted, S::kPending}) == S::kRunning);
  CHECK(sweep_state({S::kFailed, S::kRunning}) == S::kRunning);
  CHECK(sweep_state({S::kCompleted, S::kCompleted}) == S::kCompleted);
  CHECK(sweep_state({S::kCompleted, S::kTimeout}) == S::kFailed);
  CHECK(sweep_state({S::kCompleted, S::kCancelled}) == S::kCancelled);
  CHECK(sweep_state({S::kFailed, S::kCancelled}) == S::kFailed);
  CHECK(sweep_state({S::kCompleted, S::kNotSubmitted}) == S::kNotSubmitted);
  CHECK(sweep_state({S::kCompleted, S::kUnknown}) == S::kUnknown);
}

TEST_CASE(
    "a point that was cancelled before its start stays cancelled after Slurm has forgotten it") {
  const SweepRecordFixture f;
  const auto state = [&] {
    auto facts = RunInspector::read_facts(f.path_of_point(2));
    REQUIRE(facts.has_value());
    facts->has_answer = true;
    return assess(std::move(*facts)).state;
  };
  CHECK(state() == RunState::kUnknown);
  REQUIRE(mark_cancelled(array_path(f.sweep.path, 0)).has_value());
  REQUIRE(mark_cancelled(array_path(f.sweep.path, 0)).has_value());
  CHECK(state() == RunState::kCancelled);
  unmark_cancelled(array_path(f.sweep.path, 0));
  CHECK(state() == RunState::kUnknown);
}

TEST_CASE(
    "a run that was cancelled before its start stays cancelled after Slurm has forgotten it") {
  const SweepRecordFixture f;
  const fs::path run = f.runs / "plain";
  fs::create_directories(run);
  SweepRecordFixture::put(run / "submission.json", R"({"state":"submitted","job":"80"})");
  const auto state = [&] {
    auto facts = RunInspector::read_facts(run);
    REQUIRE(facts.has_value());
    facts->has_answer = true;
    return assess(std::move(*facts)).state;
  };
  CHECK(state() == RunState::kUnknown);
  REQUIRE(mark_cancelled(run).has_value());
  CHECK(state() == RunState::kCancelled);
}

TEST_CASE(
    "a task's claim with the array's token proves the array's submission, and without such a claim "
    "Slurm is asked") {
  const SweepRecordFixture f;
  const fs::path array = array_path(f.sweep.path, 0);
  Submission intent;
  intent.token = std::string(32, 'b');
  REQUIRE(write_submission(array, intent).has_value());
  ExecutorWithoutJobs slurm;
  auto point = read_submission(f.path_of_point(2));
  REQUIRE((point.has_value() && point->has_value()));
  CHECK(find_and_record_outcome(f.path_of_point(2), **point, slurm)->state ==
        Submission::State::kIntent);
  CHECK(slurm.find_call_count == 1);
  SweepRecordFixture::put(f.path_of_point(0) / "claim",
                          R"({"cluster":"c","job":"90_0","token":"another"})");
  CHECK(find_and_record_outcome(f.path_of_point(2), **point, slurm)->state ==
        Submission::State::kIntent);
  SweepRecordFixture::put(f.path_of_point(0) / "claim",
                          R"({"cluster":"c","job":"90_0","token":")" + intent.token + "\"}");
  const auto settled = find_and_record_outcome(f.path_of_point(2), **point, slurm);
  REQUIRE(settled.has_value());
  CHECK(settled->job.id == "90_1");
  CHECK((*read_submission(array))->job.id == "90");
  CHECK(slurm.find_call_count == 2);
  // An array that was never submitted has no token to look for.
  const auto unsent = read_submission(f.path_of_point(1));
  CHECK(find_and_record_outcome(f.path_of_point(1), **unsent, slurm)->state ==
        Submission::State::kIntent);
  CHECK(slurm.find_call_count == 2);
}

TEST_CASE_FIXTURE(SweepRecordFixture, "the newest sweep is found even if other runs are newer") {
  const IndexEntry newer{"x-20261122-120000-00bb", "x", runs / "x-20261122-120000-00bb",
                         "2026-11-22T12:00:00.000Z"};
  fs::create_directories(newer.path);
  REQUIRE(index.add(newer).has_value());
  CHECK(id_or_error("last") == newer.id);
  CHECK(newest_sweep(index)->id == sweep.id);
  REQUIRE(index.remove(sweep.id).has_value());
  CHECK(newest_sweep(index).error().message.starts_with("there is no sweep yet"));
}

}  // namespace dlrun
