// Tests what a job of a chain (retry.chain) decides at its start and at its end.
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "common/files.h"
#include "common/json_lines.h"
#include "runtime/agent/run_chain.h"
#include "runtime/agent/run_claim.h"
#include "tests/temporary_directory.h"

namespace dlrun::agent {
namespace {

using Json = nlohmann::ordered_json;
using Jobs = std::vector<std::string>;

LeadOptions options_of_chain(int jobs) {
  LeadOptions options;
  options.retry.chain = jobs;
  return options;
}

/// Returns the environment of the job with this number in a chain.
Env env_of_job(const std::string& number) {
  Env env;
  env.set("DLRUN_CHAIN", number);
  return env;
}

/// A run whose first job, 42, has claimed it. Slurm's commands are missing.
struct ChainFixture {
  TemporaryDirectory folder;
  Env env;
  ChainFixture() {
    env.set("PATH", "/nowhere");
    REQUIRE(claim_run(folder.path(), {"alps", "42", "feed"}, "x", 0, 0));
  }

  void write_events(const std::vector<Json>& events) {
    std::string text;
    for (const auto& event : events) text += to_checked_line(event);
    REQUIRE(write_file_atomic(folder.path() / "events.jsonl", text));
  }
  /// Returns why job 43, the second job of the chain, is not needed; std::nullopt if it is
  /// needed. Fails if the first job may still run.
  [[nodiscard]] Result<std::optional<UnneededJob>> why_second_is_unneeded() const {
    return why_unneeded(folder.path(), options_of_chain(3), env, "43");
  }
  /// Writes the journal of the submission of a job of the chain.
  void write_journal(int number, const std::string& text) {
    const auto path = folder.path() / ("chain-" + std::to_string(number));
    REQUIRE(make_private_directories(path));
    REQUIRE(write_file_atomic(path / "submission.json", text));
  }
  /// Makes a program scontrol that prints job 42 with this state, whatever its arguments are.
  void let_scontrol_print(const std::string& state) {
    const auto program = folder.path() / "scontrol";
    const std::string job = "JobId=42 JobName=x\\n   UserId=me(1)\\n   JobState=" + state + "\\n";
    REQUIRE(write_file_atomic(program, "#!/bin/sh\nprintf '" + job + "'\n", 0700));
    env.set("PATH", folder.path().string() + ":/usr/bin:/bin");
  }
};

const Json kFirstClaim = {{"event", "claimed"}, {"attempt", 0}, {"job", "42"}};

TEST_CASE("only a job that a chain's submission queued has a number in the chain") {
  const Env first = env_of_job("0"), third = env_of_job("2");
  CHECK(job_number_in_chain(options_of_chain(3), first) == 0);
  CHECK(job_number_in_chain(options_of_chain(3), third) == 2);
  CHECK_FALSE(job_number_in_chain(options_of_chain(2), third));
  CHECK_FALSE(job_number_in_chain({}, first));
  CHECK_FALSE(job_number_in_chain(options_of_chain(3), Env()));
  CHECK_FALSE(job_number_in_chain(options_of_chain(3), env_of_job("-1")));
  auto in_existing_allocation = options_of_chain(3);
  in_existing_allocation.uses_existing_allocation = true;
  CHECK_FALSE(job_number_in_chain(in_existing_allocation, first));
}

TEST_CASE_FIXTURE(ChainFixture,
                  "a later job ends with 0 if the run has completed, else with the run's exit "
                  "code, or 1 if that is 0") {
  write_events(
      {kFirstClaim, {{"event", "ended"}, {"attempt", 0}, {"state", "completed"}, {"code", 0}}});
  auto unneeded = why_second_is_unneeded();
  REQUIRE(unneeded);
  REQUIRE(*unneeded);
  CHECK((*unneeded)->code == 0);
  CHECK((*unneeded)->message.find("has completed") != std::string::npos);
  write_events(
      {kFirstClaim, {{"event", "ended"}, {"attempt", 0}, {"state", "failed"}, {"code", 137}}});
  CHECK((*why_second_is_unneeded())->code == 137);
  write_events(
      {kFirstClaim, {{"event", "ended"}, {"attempt", 0}, {"state", "cancelled"}, {"code", 0}}});
  CHECK((*why_second_is_unneeded())->code == 1);
}

TEST_CASE_FIXTURE(ChainFixture,
                  "a later job continues a run whose record announces another attempt") {
  write_events({kFirstClaim,
                {{"event", "restarting"}, {"attempt", 0}, {"cause", "timeout"}, {"by", "chain"}}});
  const auto unneeded = why_second_is_unneeded();
  REQUIRE(unneeded);
  CHECK_FALSE(*unneeded);
}

TEST_CASE_FIXTURE(ChainFixture,
                  "a later job leaves the run to an earlier job that still runs or waits") {
  write_events({kFirstClaim});
  for (const char* state : {"RUNNING", "PENDING", "REQUEUE_HOLD"}) {
    CAPTURE(state);
    let_scontrol_print(state);
    const auto unneeded = why_second_is_unneeded();
    REQUIRE_FALSE(unneeded);
    CHECK(unneeded.error().code == Errc::kRefused);
  }
  let_scontrol_print("TIMEOUT");
  CHECK_FALSE(*why_second_is_unneeded());
}

TEST_CASE_FIXTURE(ChainFixture, "a later job is refused while the first job still waits") {
  std::filesystem::remove(folder.path() / "claim");
  REQUIRE(write_file_atomic(folder.path() / "submission.json",
                            R"({"token":"feed","state":"submitted","cluster":"","job":"42"})"));
  let_scontrol_print("PENDING");
  CHECK(why_second_is_unneeded().error().code == Errc::kRefused);
  let_scontrol_print("CANCELLED");
  CHECK_FALSE(*why_second_is_unneeded());
}

TEST_CASE_FIXTURE(ChainFixture,
                  "a later job of a deleted run ends with 1 and creates nothing, and a run that "
                  "cannot be read is an error") {
  std::filesystem::remove_all(folder.path());
  const auto unneeded = why_second_is_unneeded();
  REQUIRE(unneeded);
  CHECK((*unneeded)->code == 1);
  CHECK_FALSE(std::filesystem::exists(folder.path()));
  std::filesystem::create_symlink(folder.path(), folder.path());  // a link to itself: ELOOP
  const auto unknown = why_second_is_unneeded();
  std::filesystem::remove(folder.path());
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().code != Errc::kNotFound);
}

TEST_CASE_FIXTURE(ChainFixture, "the later jobs are those that Slurm has accepted") {
  write_journal(1, R"({"token":"a","state":"submitted","cluster":"","job":"43"})");
  write_journal(2, R"({"token":"b","state":"refused","cluster":"","job":""})");
  write_journal(3, R"({"token":"c","state":"submitted","cluster":"","job":"--all"})");
  write_journal(4, "{");
  write_journal(5, R"({"token":"d","state":"submitted","cluster":"","job":"47"})");
  CHECK(later_jobs(folder.path(), 0, 6) == Jobs{"43", "47"});
  CHECK(later_jobs(folder.path(), 1, 6) == Jobs{"47"});
  CHECK(later_jobs(folder.path(), 0, 5) == Jobs{"43"});
  CHECK(later_jobs(folder.path(), 5, 6).empty());
}

TEST_CASE_FIXTURE(ChainFixture, "the next job is the first one that may still run") {
  let_scontrol_print("PENDING");
  CHECK(first_that_may_still_run({"43", "44"}, env) == "43");
  let_scontrol_print("CANCELLED");
  CHECK_FALSE(first_that_may_still_run({"43", "44"}, env));
  CHECK_FALSE(first_that_may_still_run({}, env));
}

TEST_CASE_FIXTURE(ChainFixture,
                  "a job that Slurm does not know counts as ended, but if Slurm does not answer, "
                  "the job may still run") {
  CHECK(first_that_may_still_run({"43"}, env) == "43");  // there is no scontrol
  const auto let_scontrol_fail_with = [&](const std::string& words) {
    REQUIRE(write_file_atomic(folder.path() / "scontrol",
                              "#!/bin/sh\necho '" + words + "' >&2\nexit 1\n", 0700));
    env.set("PATH", folder.path().string() + ":/usr/bin:/bin");
  };
  let_scontrol_fail_with("slurm_load_jobs error: Unable to contact slurm controller");
  CHECK(first_that_may_still_run({"43"}, env) == "43");
  let_scontrol_fail_with("slurm_load_jobs error: Invalid job id specified");
  CHECK_FALSE(first_that_may_still_run({"43"}, env));
}

TEST_CASE_FIXTURE(
    ChainFixture,
    "the last job of a chain is not cancelled if a job in a hidden partition waits for it") {
  const auto program = folder.path() / "squeue";
  REQUIRE(write_file_atomic(
      program, "#!/bin/sh\ncase \"$*\" in *--all*) echo 'afterok:44(unfulfilled)';; esac\n", 0700));
  env.set("PATH", folder.path().string() + ":/usr/bin:/bin");
  const auto dependencies = SlurmController(env, "42").dependencies_of_pending_jobs();
  REQUIRE(dependencies);
  CHECK(jobs_to_cancel({"43", "44"}, *dependencies) == Jobs{"43"});
}

TEST_CASE("the last job of a chain is not cancelled if another job waits for it") {
  const Jobs later{"43", "44"};
  CHECK(jobs_to_cancel(later, "") == later);
  CHECK(jobs_to_cancel(later, "afterany:43(unfulfilled)\n") == later);
  CHECK(jobs_to_cancel(later, "afterany:43(unfulfilled)\nafterok:44(unfulfilled)\n") == Jobs{"43"});
  CHECK(jobs_to_cancel(later, "afterok:144,afterok:441") == later);
  CHECK(jobs_to_cancel(later, "afterok:441,afterok:44") == Jobs{"43"});
  CHECK(jobs_to_cancel({}, "afterok:44").empty());
}

}  // namespace
}  // namespace dlrun::agent
