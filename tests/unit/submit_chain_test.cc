// Tests the jobs of a chain (retry.chain): their submission, states and cancellation.

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include "common/files.h"
#include "common/json_lines.h"
#include "launcher/runs/cancel_mark.h"
#include "launcher/runs/follow_ups.h"
#include "launcher/runs/index.h"
#include "launcher/runs/log_file.h"
#include "launcher/submit/cancellation.h"
#include "launcher/submit/follow_up_jobs.h"
#include "launcher/submit/submitting.h"
#include "launcher/submit/user_settings.h"
#include "launcher/view/account_text.h"
#include "launcher/view/waiting_lines.h"
#include "tests/contains.h"
#include "tests/temporary_directory.h"
#include "tests/unit/submit_cluster.h"

using namespace dlrun;
namespace fs = std::filesystem;

namespace {

/// A simulated cluster that gives its jobs the ids 7, 8, and so on. As in Slurm, its squeue leaves
/// out the unknown jobs of a list, and refuses a single unknown job.
struct ChainCluster : Cluster {
  Result<Submitted> submitted = fail(Errc::kNotFound, "");
  ChainCluster() {
    const std::string calls_file = (folder / "called").string();
    write_program("sbatch",
                  "case \"$*\" in *--help*) echo '  --account=name'; exit 0;; esac\n"
                  "echo \"$* chain=$DLRUN_CHAIN token=$DLRUN_TOKEN\" >>" +
                      calls_file + "\necho $((6 + $(wc -l <" + calls_file + ")))");
    write_program("squeue",
                  "echo asked >>" + (folder / "squeue-asked").string() +
                      "\nfor word; do case $before in -j) ids=$word;; esac; before=$word; done\n"
                      "for id in $(echo $ids | tr , ' '); do grep \"^$id|\" " +
                      (folder / "queue").string() +
                      " && known=1; done\n"
                      "case $ids in *,*) exit 0;; esac\n[ -n \"$known\" ] && exit 0\n"
                      "echo 'Invalid job id specified' >&2; exit 1");
    write_program("scancel", "echo $* >>" + (folder / "cancelled").string());
  }
  /// Submits a script with a chain of three jobs, and returns one line for each call of sbatch.
  std::vector<std::string> submit_chain() {
    std::ofstream(folder / "long.sh") << "#!/bin/bash\n#SBATCH --job-name=long\ndlrun_lead=(\n"
                                         "  --chain 3  # retry.chain\n)\ntrue\n";
    submitted = submit("long.sh");
    REQUIRE(submitted.has_value());
    std::vector<std::string> calls;
    std::ifstream file(folder / "called");
    for (std::string line; std::getline(file, line);) calls.push_back(line);
    return calls;
  }
  /// Writes the events of a run whose first job has reached its time limit and handed the run over.
  void record_hand_over() const {
    using Json = nlohmann::ordered_json;
    REQUIRE(write_file_atomic(
        submitted->run.path / "events.jsonl",
        to_checked_line(Json{{"event", "claimed"}, {"attempt", 0}, {"job", "7"}}) +
            to_checked_line(Json{{"event", "restarting"},
                                 {"attempt", 0},
                                 {"cause", "timeout"},
                                 {"left", 2},
                                 {"by", "chain"}})));
  }
  /// Makes squeue list `jobs`, which have the form "7 RUNNING", and returns the run's status.
  RunStatus status_with_queue(const std::vector<std::string>& jobs) {
    std::ofstream queue(folder / "queue");
    for (const std::string& job : jobs)
      queue << job.substr(0, job.find(' ')) << '|' << job.substr(job.find(' ') + 1)
            << "|None||||\n";
    queue.close();
    RunInspector inspector(context.env, known_servers(context));
    auto status = inspector.inspect(submitted->run.path);
    REQUIRE(status.has_value());
    return std::move(*status);
  }
};

}  // namespace

TEST_CASE_FIXTURE(
    ChainCluster,
    "each follow-up job of a chain waits for the job before it and has the token of the run") {
  const auto calls = submit_chain();
  REQUIRE(calls.size() == 3);
  const std::string token = submitted->submissions.front().token;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    CAPTURE(calls[i]);
    CHECK(has(calls[i], "chain=" + std::to_string(i)));
    CHECK(has(calls[i], "token=" + token));
    CHECK(has(calls[i], "--comment=dlrun:" + token) == (i == 0));
    CHECK(has(calls[i], "--dependency=afterany:" + std::to_string(6 + i)) == (i > 0));
    CHECK(has(calls[i], "/slurm-7.out") == (i > 0));
  }
  const auto later = read_follow_ups(submitted->run.path, submitted->submissions.front());
  REQUIRE(later.has_value());
  REQUIRE(later->size() == 2);
  CHECK((*later)[0].submission.job.id == "8");
  CHECK((*later)[0].submission.dependency == "afterany:7");
  CHECK((*later)[1].submission.job.id == "9");
  CHECK((*later)[1].number == 2);
  CHECK(submitted->follow_ups.size() == 2);
}

TEST_CASE_FIXTURE(
    ChainCluster,
    "a user's script in which a program has an option --chain is submitted as one job") {
  std::ofstream(folder / "own.sh") << "#!/bin/bash\n#SBATCH --job-name=own\noptions=(\n"
                                      "  --chain 3\n)\nsrun sample \\\n  --chain 4\n";
  submitted = submit("own.sh");
  REQUIRE(submitted.has_value());
  CHECK_FALSE(submitted->job.settings.chain);
  CHECK(submitted->follow_ups.empty());
}

TEST_CASE_FIXTURE(
    ChainCluster,
    "a follow-up job that Slurm refuses causes a warning, and the other jobs stay queued") {
  write_program(
      "sbatch",
      "case \"$*\" in *--help*) exit 0;; *afterany:8*) echo 'sbatch: error: Batch job "
      "submission failed: Job violates accounting/QOS policy' >&2; exit 1;; *afterany:7*) "
      "echo 8;; *) echo 7;; esac");
  submit_chain();
  CHECK(submitted->follow_ups.size() == 1);
  REQUIRE(reporter.messages.size() == 1);
  CHECK(has(reporter.messages[0], "job 3 of 3 was not queued, so the run has 2 jobs now"));
  CHECK(has(reporter.messages[0], "accounting/QOS policy"));
}

TEST_CASE_FIXTURE(ChainCluster,
                  "the state of a run is that of the first job of its chain that waits "
                  "or runs") {
  submit_chain();
  auto status = status_with_queue({"7 RUNNING", "8 PENDING", "9 PENDING"});
  CHECK(status.state == RunState::kRunning);
  CHECK(status.job.id == "7");
  status = status_with_queue({"7 TIMEOUT", "8 PENDING", "9 PENDING"});
  CHECK(status.state == RunState::kPending);
  CHECK(status.job.id == "8");
  CHECK_FALSE(is_over(status));
  status = status_with_queue({"8 PENDING", "9 PENDING"});  // Slurm has forgotten job 7
  CHECK(status.state == RunState::kPending);
  CHECK(status.job.id == "8");
  status = status_with_queue({"7 TIMEOUT", "8 CANCELLED", "9 CANCELLED"});
  CHECK(status.state == RunState::kTimeout);
  CHECK(status.job.id == "7");
  CHECK(is_over(status));
  // The first job has handed the run over, and a user cancelled the jobs after it.
  record_hand_over();
  status = status_with_queue({"7 TIMEOUT", "8 CANCELLED", "9 CANCELLED"});
  CHECK(status.state == RunState::kCancelled);
  CHECK(status.job.id == "8");
}

TEST_CASE_FIXTURE(ChainCluster,
                  "a waiting job of a chain is shown with the job for which it waits") {
  submit_chain();
  record_hand_over();
  std::ofstream(folder / "queue") << "7|TIMEOUT|None||||\n8|PENDING|Dependency||||\n";
  RunInspector inspector(context.env, known_servers(context));
  const auto status = inspector.inspect(submitted->run.path);
  REQUIRE(status.has_value());
  CHECK(status->job.id == "8");
  CHECK(status->detail ==
        "attempt 0 has ended (timeout); a job of the chain continues the run: Dependency: it waits "
        "for afterany:7");
}

TEST_CASE_FIXTURE(ChainCluster,
                  "a run with a chain is not over, and keeps its secrets, while Slurm does not "
                  "answer about a later job") {
  submit_chain();
  std::ofstream(submitted->run.path / "secrets") << "TOKEN=s3cret";
  write_program("squeue",
                "for word; do case $before in -j) id=$word;; esac; before=$word; done\n"
                "[ $id != 7 ] || { echo '7|TIMEOUT|None||||'; exit 0; }\n"
                "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1");
  RunInspector inspector(context.env, known_servers(context));
  const auto status = inspector.inspect(submitted->run.path);
  REQUIRE(status.has_value());
  CHECK(is_unreachable(*status));
  CHECK_FALSE(is_over(*status));
  CHECK(fs::exists(submitted->run.path / "secrets"));
}

TEST_CASE_FIXTURE(ChainCluster,
                  "status looks up the runs of the first eight jobs of a dependency") {
  submit_chain();
  RunStatus waiting;
  waiting.state = RunState::kPending;
  waiting.facts.report.emplace().reason = "Dependency";
  waiting.facts.submission.emplace().dependency = "afterok:91:92:93:94:95:96:97:7";
  CHECK(waiting_lines(context.env, waiting) ==
        std::vector<std::string>{"job 7 is the run " + submitted->run.id});
  waiting.facts.submission->dependency = "afterok:91:92:93:94:95:96:97:98:7";
  CHECK(waiting_lines(context.env, waiting).empty());
}

TEST_CASE_FIXTURE(
    ChainCluster,
    "the status of a run that was cancelled while it waited shows the run that it waited for") {
  submit_chain();
  RunStatus cancelled;
  cancelled.state = RunState::kCancelled;
  cancelled.facts.report.emplace().phase = JobPhase::kEnded;
  cancelled.facts.submission.emplace().dependency = "afterok:7";
  const std::string id = submitted->run.id;
  CHECK(waiting_lines(context.env, cancelled) ==
        std::vector<std::string>{"for job 7, the run " + id});
  REQUIRE(
      write_file_atomic(submitted->run.path / "events.jsonl", to_checked_line({{"event", "ended"},
                                                                               {"attempt", 0},
                                                                               {"state", "failed"},
                                                                               {"code", 1},
                                                                               {"message", ""}})));
  CHECK(waiting_lines(context.env, cancelled) ==
        std::vector<std::string>{"for job 7, the run " + id + " (failed)"});
  CHECK(end_text_with_runs(context.env, {"next-1", "next", "/x", ""}, cancelled) ==
        "next-1: cancelled; job 7 is the run " + id + " (failed), see `dlrun status " + id + "`");
  cancelled.facts.claim.emplace();
  CHECK(end_text_with_runs(context.env, {"next-1", "next", "/x", ""}, cancelled) ==
        "next-1: cancelled");
  CHECK(waiting_lines(context.env, cancelled).empty());
}

TEST_CASE_FIXTURE(ChainCluster,
                  "a job that claims the run of a chain counts only if it belongs to the chain") {
  submit_chain();
  const auto write_claim = [&](const std::string& job) {
    REQUIRE(write_file_atomic(submitted->run.path / "claim",
                              R"({"cluster":"c","job":")" + job + R"(","token":"t","chain":1})"));
  };
  const auto job_in_files = [&] {
    return job_of(*RunInspector::read_facts(submitted->run.path))->id;
  };
  CHECK(job_in_files() == "7");
  write_claim("8");
  CHECK(job_in_files() == "8");
  write_claim("12");
  CHECK(job_in_files() == "7");
  CHECK(job_log(submitted->run.path, *RunInspector::read_facts(submitted->run.path)) ==
        submitted->run.path / "slurm-7.out");
}

TEST_CASE_FIXTURE(ChainCluster,
                  "accounting is not queried for forgotten jobs of a chain while another job of "
                  "the chain runs or waits") {
  submit_chain();
  fs::remove(folder / "squeue-asked");
  write_program("sacct", "echo asked >>" + (folder / "sacct-asked").string());
  CHECK(status_with_queue({"7 RUNNING", "8 PENDING"}).state == RunState::kRunning);
  CHECK_FALSE(fs::exists(folder / "sacct-asked"));
  // The first job has handed the run over, and Slurm has forgotten the first job.
  record_hand_over();
  const auto status = status_with_queue({"8 PENDING"});
  CHECK(status.state == RunState::kPending);
  CHECK(status.job.id == "8");
  CHECK_FALSE(fs::exists(folder / "sacct-asked"));
  CHECK(text(folder / "squeue-asked") == "asked\nasked\n");
}

TEST_CASE_FIXTURE(
    ChainCluster,
    "watchers of a chain share one answer of squeue although Slurm has forgotten a later job") {
  submit_chain();
  fs::remove(folder / "squeue-asked");
  context.env.set("XDG_RUNTIME_DIR", folder.path().string());
  write_program("squeue", "echo asked >>" + (folder / "squeue-asked").string() +
                              "; echo '7|RUNNING|None||||'; echo '8|PENDING|None||||'");
  for (int i = 0; i < 2; ++i) {
    RunInspector inspector(context.env, known_servers(context));
    const auto status = inspector.inspect(submitted->run.path, std::chrono::hours(1));
    REQUIRE(status.has_value());
    CHECK(status->state == RunState::kRunning);
  }
  CHECK(text(folder / "squeue-asked") == "asked\n");
}

TEST_CASE_FIXTURE(ChainCluster,
                  "a few queries find the waiting job of a chain, however many jobs have ended") {
  submit_chain();
  Submission first = submitted->submissions.front();
  first.chain_job_count = 20;
  REQUIRE(write_submission(submitted->run.path, first).has_value());
  for (std::int64_t number = 3; number < first.chain_job_count; ++number) {
    Submission later = submitted->follow_ups.back();
    later.job.id = std::to_string(7 + number);
    const auto journal = follow_up_path(submitted->run.path, number);
    fs::create_directory(journal);
    REQUIRE(write_submission(journal, later).has_value());
  }
  fs::remove(folder / "squeue-asked");
  const auto status = status_with_queue({"26 PENDING"});
  CHECK(status.state == RunState::kPending);
  CHECK(status.job.id == "26");
  CHECK(text(folder / "squeue-asked") == "asked\nasked\nasked\nasked\nasked\nasked\n");
}

TEST_CASE_FIXTURE(ChainCluster, "the chains of several runs share the queries to squeue") {
  submit_chain();
  const auto again = submit_again(submitted->run.id);
  REQUIRE(again.has_value());
  std::ofstream(folder / "queue") << "8|RUNNING|None||||\n9|PENDING|None||||\n"
                                     "10|TIMEOUT|None||||\n11|PENDING|None||||\n";
  std::filesystem::remove(folder / "squeue-asked");
  const std::vector<std::filesystem::path> paths{submitted->run.path, again->run.path};
  const auto statuses = RunInspector(context.env, known_servers(context)).inspect_all(paths);
  REQUIRE(statuses.size() == 2);
  REQUIRE(statuses[0].has_value());
  REQUIRE(statuses[1].has_value());
  CHECK(statuses[0]->state == RunState::kRunning);
  CHECK(statuses[0]->job.id == "8");
  CHECK(statuses[1]->state == RunState::kPending);
  CHECK(statuses[1]->job.id == "11");
  // Both chains share the query about their first jobs and the query about the jobs after them.
  CHECK(text(folder / "squeue-asked") == "asked\nasked\n");
}

TEST_CASE_FIXTURE(ChainCluster, "cancel ends the jobs of a chain from the last one to the first") {
  submit_chain();
  std::ignore = status_with_queue({"7 RUNNING", "8 PENDING", "9 PENDING"});
  RunInspector inspector(context.env, known_servers(context));
  const auto cancelled =
      cancel_run(inspector, {submitted->run.id, "long", submitted->run.path, ""});
  REQUIRE(cancelled.has_value());
  CHECK(cancelled->jobs == std::vector<std::string>{"9", "8", "7"});
  CHECK(text(folder / "cancelled") == "9\n8\n7\n");
}

TEST_CASE_FIXTURE(ChainCluster,
                  "if a job of a chain cannot be cancelled, the cancelled jobs are listed, and the "
                  "run is not marked as cancelled") {
  submit_chain();
  std::ignore = status_with_queue({"7 RUNNING", "8 PENDING", "9 PENDING"});
  write_program("scancel", "[ $1 != 8 ] || { echo 'Access denied' >&2; exit 1; }");
  RunInspector inspector(context.env, known_servers(context));
  const auto cancelled =
      cancel_run(inspector, {submitted->run.id, "long", submitted->run.path, ""});
  REQUIRE(cancelled.has_value());
  CHECK(cancelled->jobs == std::vector<std::string>{"9"});
  REQUIRE(cancelled->failure);
  CHECK(has(cancelled->failure->message, submitted->run.id + ": job 8: "));
  CHECK_FALSE(is_marked_cancelled(submitted->run.path));
}

TEST_CASE_FIXTURE(
    ChainCluster,
    "after an interrupted submission of a chain, only the missing jobs are submitted") {
  submit_chain();
  std::filesystem::remove_all(follow_up_path(submitted->run.path, 2));
  RunInspector inspector(context.env, known_servers(context));
  const Submission& first = submitted->submissions.front();
  const auto later =
      continue_follow_ups(context, reporter, inspector.executor_of(submitted->job.settings.server),
                          submitted->run, first);
  REQUIRE(later.has_value());
  REQUIRE(later->submissions.size() == 2);
  CHECK(later->submissions[0].job.id == "8");
  CHECK(later->submissions[1].job.id == "10");  // sbatch was called once more
  CHECK(has(text(folder / "called"), "--dependency=afterany:8 --"));
  CHECK(reporter.messages.empty());
}

TEST_CASE_FIXTURE(ChainCluster, "a run that is submitted again gets a chain of its own") {
  submit_chain();
  const auto again = submit_again(submitted->run.id);
  REQUIRE(again.has_value());
  REQUIRE(again->follow_ups.size() == 2);
  CHECK(again->submissions.front().job.id == "10");
  CHECK(again->follow_ups.back().job.id == "12");
}

TEST_CASE_FIXTURE(ChainCluster,
                  "the text about a job's dependencies lists each run once, even if it has ended "
                  "or the spec lists it twice") {
  write_x_yaml("");
  submitted = submit("x.yaml");
  REQUIRE(submitted.has_value());
  const std::string first = submitted->run.id;
  std::ofstream(folder / "y.yaml") << "name: y\nresources: {time: 1m, output: o-%j.txt}\n"
                                   << "launch: {agent: false, command: [\"true\"]}\n"
                                   << "after: {ok: [x, " << first << "]}\n";
  using Texts = std::vector<std::string>;
  std::ofstream(folder / "queue") << "7|PENDING|None||||\n";
  const auto waiting = submit("y.yaml");
  REQUIRE(waiting.has_value());
  CHECK(waiting->submissions.front().dependency == "afterok:7");
  CHECK(waits_texts(waiting->job.prior_runs) == Texts{"afterok:7 (" + first + ")"});
  std::ofstream(folder / "queue") << "7|COMPLETED|None||||\n";
  const auto free = submit("y.yaml");
  REQUIRE(free.has_value());
  CHECK(free->submissions.front().dependency.empty());
  CHECK(waits_texts(free->job.prior_runs) == Texts{"for nothing: " + first + " has completed"});
}

TEST_CASE_FIXTURE(ChainCluster,
                  "the error about an ambiguous id in `after` lists the runs in one line") {
  for (const char* id : {"a-20261123-120000-00aa", "a-20261123-120000-00ab"})
    REQUIRE(
        RunIndex::of_user(context.env)->add({id, "a", folder / id, "2026-11-23T12:00:00.000Z"}));
  write_x_yaml("after: {ok: [a-20261123]}\n");
  const auto refused = submit("x.yaml");
  REQUIRE_FALSE(refused.has_value());
  const auto diagnostics = refused.error().diagnostics.all();
  REQUIRE(diagnostics.size() == 1);
  CHECK(diagnostics.front().message ==
        "after.ok: the ids of 2 runs start with 'a-20261123': a-20261123-120000-00ab, "
        "a-20261123-120000-00aa");
}

TEST_CASE("runs that have ended are listed after the dependencies that are still open") {
  using Texts = std::vector<std::string>;
  CHECK(waits_texts({}).empty());
  CHECK(waits_texts({{"a", "", RunState::kCompleted}, {"", "afterok:4"}, {"b", "afterany:5"}}) ==
        Texts{"afterok:4", "afterany:5 (b)", "a has completed"});
  CHECK(waits_texts({{"a", "", RunState::kFailed}}) == Texts{"for nothing: a has ended (failed)"});
}
