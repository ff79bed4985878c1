#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <stdexcept>

#include <doctest/doctest.h>

#include "common/files.h"
#include "launcher/runs/journal.h"
#include "tests/temporary_directory.h"

using namespace dlrun;

namespace {

/// Returns `answer` from find(). Every other call is a bug.
class FakeExecutor final : public Executor {
 public:
  Result<std::optional<JobId>> answer = std::nullopt;
  int find_call_count = 0;

  Result<> check(const SubmitRequest&) override { throw std::logic_error("checked"); }
  Result<JobId> submit(const SubmitRequest&) override { throw std::logic_error("submitted again"); }
  Result<std::string> test(const SubmitRequest&) override { throw std::logic_error("tested"); }
  Result<std::optional<JobId>> do_find(std::string_view comment, const std::string&) override {
    ++find_call_count;
    CHECK(comment == "dlrun:00112233445566778899aabbccddeeff");
    return answer;
  }
  Result<QueryAnswer> do_query(std::span<const JobId>, std::chrono::milliseconds) override {
    throw std::logic_error("queried");
  }
  Result<> do_cancel(const JobId&, std::string_view) override {
    throw std::logic_error("cancelled");
  }
};

Submission intent() {
  Submission submission;
  submission.token = "00112233445566778899aabbccddeeff";
  submission.argv = {"sbatch", "job.sh"};
  return submission;
}

}  // namespace

TEST_CASE(
    "start folder and dependency are read from a journal's command line if the journal lacks their "
    "fields") {
  const TemporaryDirectory run;
  REQUIRE(write_file_atomic(run / "submission.json",
                            R"({"token":"00112233445566778899aabbccddeeff","state":"submitted",)"
                            R"("cluster":"","job":"42","argv":["sbatch","--chdir=/a b/code",)"
                            R"("--dependency=afterok:12","job.sh"]})")
              .has_value());
  const auto read = read_submission(run.path());
  REQUIRE(read.has_value());
  REQUIRE(read->has_value());
  CHECK((*read)->chdir == "/a b/code");
  CHECK((*read)->dependency == "afterok:12");
}

TEST_CASE("a submission's journal is read back as it was written") {
  const TemporaryDirectory run;
  Submission submission = intent();
  submission.state = Submission::State::kSubmitted;
  submission.job = {"inter", "42"};
  submission.log_pattern = "/x/out-%j.txt";
  submission.chdir = "/runs/x/code/src";
  submission.dependency = "afterok:12,afterany:13_4";
  submission.server = RestServer{"unix:/run/s", "/home/me/token"};
  REQUIRE(write_submission(run.path(), submission).has_value());
  const auto read = read_submission(run.path());
  REQUIRE(read.has_value());
  REQUIRE(read->has_value());
  CHECK((*read)->chdir == "/runs/x/code/src");
  CHECK((*read)->dependency == "afterok:12,afterany:13_4");
  CHECK((*read)->job == JobId{"inter", "42"});
  CHECK((*read)->argv == submission.argv);
  CHECK((*read)->state == Submission::State::kSubmitted);
  CHECK((*read)->log_pattern == "/x/out-%j.txt");
  CHECK((*read)->server == submission.server);
}

TEST_CASE("a missing journal is no error, and the error for a damaged one names the file") {
  const TemporaryDirectory run;
  CHECK_FALSE(read_submission(run.path())->has_value());
  for (const char* text : {"", "{", "[]", "{\"state\":\"guessed\"}", "{\"state\":3}", "\xff\xfe"}) {
    CAPTURE(text);
    REQUIRE(write_file_atomic(run.path() / "submission.json", text).has_value());
    const auto read = read_submission(run.path());
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().code == Errc::kInvalid);
    CHECK(read.error().message.find("submission.json") != std::string::npos);
  }
}

TEST_CASE(
    "a job that is found by its token settles an open submission, and the journal then has the "
    "job") {
  const TemporaryDirectory run;
  FakeExecutor executor;
  executor.answer = std::optional<JobId>(JobId{"", "42"});
  const auto settled = find_and_record_outcome(run.path(), intent(), executor);
  REQUIRE(settled.has_value());
  CHECK(settled->state == Submission::State::kSubmitted);
  CHECK((*read_submission(run.path()))->job.id == "42");
}

TEST_CASE("the job's own claim settles a submission without a query to Slurm") {
  const TemporaryDirectory run;
  REQUIRE(
      write_file_atomic(run.path() / "claim",
                        R"({"cluster":"c","job":"43","token":"00112233445566778899aabbccddeeff"})")
          .has_value());
  FakeExecutor executor;
  CHECK(find_and_record_outcome(run.path(), intent(), executor)->job.id == "43");
  CHECK(executor.find_call_count == 0);
}

TEST_CASE("another submission's claim does not settle a submission") {
  const TemporaryDirectory run;
  REQUIRE(
      write_file_atomic(run.path() / "claim",
                        R"({"cluster":"c","job":"43","token":"ffffffffffffffffffffffffffffffff"})")
          .has_value());
  FakeExecutor executor;
  CHECK(find_and_record_outcome(run.path(), intent(), executor)->state ==
        Submission::State::kIntent);
  CHECK(executor.find_call_count == 1);
}

TEST_CASE("while the controller does not answer, a submission stays open") {
  const TemporaryDirectory run;
  REQUIRE(write_submission(run.path(), intent()).has_value());
  FakeExecutor executor;
  executor.answer = fail(Errc::kUnavailable, "away");
  CHECK(find_and_record_outcome(run.path(), intent(), executor).error().code == Errc::kUnavailable);
  CHECK((*read_submission(run.path()))->state == Submission::State::kIntent);
}

TEST_CASE("a submission is in progress while dlrun or a program that it started lives") {
  const TemporaryDirectory run;
  CHECK_FALSE(is_being_submitted(run.path()));
  std::optional<SubmissionLock> lock = SubmissionLock::take_if_free(run.path());
  CHECK(is_being_submitted(run.path()));
  const pid_t sbatch = ::fork();
  if (sbatch == 0) {
    ::pause();
    ::_exit(0);
  }
  // A killed dlrun closes its descriptors, but leaves its files.
  const auto kept = run.path() / "kept";
  std::filesystem::create_hard_link(run.path() / "submission.lock", kept);
  lock.reset();
  std::filesystem::rename(kept, run.path() / "submission.lock");
  CHECK(is_being_submitted(run.path()));
  ::kill(sbatch, SIGKILL);
  ::waitpid(sbatch, nullptr, 0);
  CHECK_FALSE(is_being_submitted(run.path()));
}

TEST_CASE(
    "a journal or claim with a malformed job id is refused, and so is a journal whose cluster "
    "looks like an option") {
  const TemporaryDirectory folder;
  for (const char* job : {"--me", "42 43", "../42", "42;43", "h:0:1"}) {
    CAPTURE(job);
    const std::string text =
        fmt::format(R"({{"token":"a","state":"submitted","cluster":"","job":"{}"}})", job);
    REQUIRE(write_file_atomic(folder.path() / "submission.json", text).has_value());
    const auto submission = read_submission(folder.path());
    REQUIRE_FALSE(submission.has_value());
    CHECK(submission.error().code == Errc::kInvalid);
    CHECK(submission.error().message.find("is damaged") != std::string::npos);
    REQUIRE(write_file_atomic(folder.path() / "claim", text).has_value());
    CHECK_FALSE(read_claim(folder.path()).has_value());
  }
  REQUIRE(write_file_atomic(folder.path() / "submission.json",
                            R"({"token":"a","state":"submitted","cluster":"--me","job":"1"})")
              .has_value());
  CHECK_FALSE(read_submission(folder.path()).has_value());
}
