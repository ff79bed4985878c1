// Tests the files that lead and the rank agents write into the run directory (events.jsonl, claim,
// attempt and logs), and the progress file of a program.
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "common/files.h"
#include "common/json_lines.h"
#include "common/log.h"
#include "common/text.h"
#include "runtime/agent/agent_log.h"
#include "runtime/agent/event_log.h"
#include "runtime/agent/program_start.h"
#include "runtime/agent/progress_file.h"
#include "runtime/agent/run_claim.h"
#include "tests/temporary_directory.h"

namespace dlrun::agent {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using std::chrono::milliseconds;

std::string content(const fs::path& path) {
  return read_file(path, 1U << 20U).value_or(std::string("(unreadable)"));
}
mode_t mode_of(const fs::path& path) {
  struct stat status {};
  REQUIRE(::lstat(path.c_str(), &status) == 0);
  return status.st_mode & 0777U;
}

const JobIdentity kJob{"alps", "42", "feed"};

TEST_CASE("every event except progress is logged, with secrets in the command line masked") {
  const TemporaryDirectory folder;
  std::string text;
  open_log_to("lead", LogLevel::kInfo, {}, [&](const std::string& line) { text += line; });
  {
    auto events = EventLog::open(folder / "events.jsonl");
    REQUIRE(events);
    const std::vector<std::string> argv{"srun", "rank", "--env", "A=hunter2", "--", "train"};
    events->record(events::Started{.ranks = 2, .argv = argv});
    events->record(events::Progress{.step = 1});
    events->record(events::Ended{.state = EndState::kFailed, .code = 5, .message = "rank 1 ended"});
    REQUIRE(events->drain(milliseconds(5000)));
  }
  close_log();
  CAPTURE(text);
  CHECK(text.find("]: recorded event=started attempt=0 ranks=2 argv=\"srun rank --env 'A=***' ") !=
        std::string::npos);
  CHECK(text.find("recorded event=ended attempt=0 state=failed code=5 message=\"rank 1 ended\"") !=
        std::string::npos);
  CHECK(text.find("progress") == std::string::npos);
  CHECK(text.find("hunter2") == std::string::npos);
}

TEST_CASE("lead logs into a private file in its run, and only if DLRUN_LOG is set") {
  const TemporaryDirectory folder;
  Env env;
  {
    const AgentLog off(env, folder.path(), "lead", "lead.log");
    CHECK_FALSE(is_logged(LogLevel::kInfo));
  }
  env.set("DLRUN_LOG", "info");
  for (const char* line : {"first", "second"}) {
    const AgentLog log(env, folder.path(), "lead", "lead.log");
    log_info(line);
  }
  CHECK_FALSE(is_logged(LogLevel::kInfo));
  const auto file = folder / "debug" / "lead.log";
  CHECK(content(file).find("first") < content(file).find("second"));
  CHECK(content(file).find("second") != std::string::npos);
  CHECK(mode_of(file) == 0600);
  CHECK(mode_of(file.parent_path()) == 0700);
}

TEST_CASE(
    "a command that the agent has started is logged when it ends, with its arguments, exit code "
    "and duration") {
  std::string text;
  open_log_to("rank 0", LogLevel::kInfo, {}, [&](const std::string& line) { text += line; });
  const Program program{.argv = {"sh", "-c", "exit 3"}, .env = Env::of_process()};
  const auto pid = start_program(program);
  REQUIRE(pid);
  int status = 0;
  REQUIRE(::waitpid(*pid, &status, 0) == *pid);
  log_program_end(*pid, status);
  log_program_end(*pid, status);  // its end is logged once
  close_log();
  CAPTURE(text);
  CHECK(text.find("a command has ended argv=\"sh -c 'exit 3'\" pid=") != std::string::npos);
  CHECK(text.find(" code=3 seconds=") != std::string::npos);
  CHECK(text.find("ended") == text.rfind("ended"));
}

TEST_CASE("each event is a line with a checksum, time, name and attempt") {
  const TemporaryDirectory folder;
  auto log = EventLog::open(folder / "events.jsonl");
  REQUIRE(log);
  log->set_attempt(2);
  log->record(events::Unknown{.kind = "joined", .values = {{"ranks", 8}, {"attempt", 99}}});
  REQUIRE(log->drain(milliseconds(5000)));
  const auto lines = parse_checked_lines(content(folder / "events.jsonl"));
  REQUIRE(lines.objects.size() == 1);
  CHECK(lines.objects[0]["event"] == "joined");
  CHECK(lines.objects[0]["attempt"] == 2);
  CHECK(lines.objects[0]["ranks"] == 8);
  CHECK(lines.objects[0]["t"].get<std::string>().size() == 24);
  CHECK(mode_of(folder / "events.jsonl") == 0600);
}

TEST_CASE(
    "an incomplete last line is cut off, its size is reported, and later events can be read") {
  const TemporaryDirectory folder;
  const auto path = folder / "events.jsonl";
  const auto whole = to_checked_line({{"event", "claimed"}});
  std::ofstream(path) << whole << R"({"event":"joi)";
  auto log = EventLog::open(path);
  REQUIRE(log);
  CHECK(log->cut_bytes() == 13);
  log->record(events::Ended{});
  REQUIRE(log->drain(milliseconds(5000)));
  const auto lines = parse_checked_lines(content(path));
  CHECK(lines.objects.size() == 2);
  CHECK_FALSE(lines.has_incomplete_end);
}

TEST_CASE("an events file that is a symbolic link is refused") {
  const TemporaryDirectory folder;
  std::ofstream(folder / "elsewhere") << "precious";
  fs::create_symlink(folder / "elsewhere", folder / "events.jsonl");
  CHECK_FALSE(EventLog::open(folder / "events.jsonl"));
  CHECK(content(folder / "elsewhere") == "precious");
}

TEST_CASE("the first job claims the run, and the files of the claim are private") {
  const TemporaryDirectory folder;
  const auto directory = folder / "runs" / "x-42";
  const auto run = claim_run(directory, kJob, "x", 0);
  REQUIRE(run);
  CHECK(run->attempt == 0);
  CHECK_FALSE(run->was_claimed_before);
  auto claim = Json::parse(content(directory / "claim"));
  claim.erase("log");  // present only if this test's output is a file
  CHECK(claim == Json{{"cluster", "alps"}, {"job", "42"}, {"token", "feed"}});
  CHECK(content(directory / "attempt") == "0\n");
  CHECK(Json::parse(content(directory / "origin"))["script"] == "by hand");
  CHECK(mode_of(directory) == 0700);
  CHECK(mode_of(directory / "claim") == 0600);
}

TEST_CASE("the same job claims the run again after a requeue, and gets the next attempt number") {
  const TemporaryDirectory folder;
  REQUIRE(claim_run(folder.path(), kJob, "x", 0));
  auto claim = Json::parse(content(folder / "claim"));
  claim["log"] = "/x/of-the-node-before.out";
  REQUIRE(write_file_atomic(folder / "claim", claim.dump()));
  const auto again = claim_run(folder.path(), kJob, "x", 1);
  REQUIRE(again);
  CHECK(Json::parse(content(folder / "claim")).value("log", "") != "/x/of-the-node-before.out");
  CHECK(mode_of(folder / "claim") == 0600);
  CHECK(again->was_claimed_before);
  CHECK(again->attempt == 1);
  CHECK(claim_run(folder.path(), kJob, "x", 1)->attempt == 2);
  CHECK(*read_attempt(folder.path()) == 2);
}

TEST_CASE("a later job of a chain takes the run over, and no earlier job can take the run back") {
  const TemporaryDirectory folder;
  const JobIdentity first{"alps", "42", "feed"}, second{"alps", "43", "feed"},
      third{"alps", "44", "feed"};
  REQUIRE(claim_run(folder.path(), first, "x", 0, 0));
  CHECK(Json::parse(content(folder / "claim"))["chain"] == 0);
  CHECK(claim_run(folder.path(), first, "x", 1, 0)->attempt == 1);  // Slurm has requeued it
  const auto taken = claim_run(folder.path(), third, "x", 0, 2);
  REQUIRE(taken);
  CHECK(taken->was_claimed_before);
  CHECK(taken->attempt == 2);
  CHECK(taken->number_in_chain == 2);
  CHECK(run_holder(folder.path())->job == "44");
  for (const auto& [job, number] : {std::pair(first, 0), std::pair(second, 1)}) {
    const auto refused = claim_run(folder.path(), job, "x", 0, number);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Errc::kRefused);
    CHECK(refused.error().message.find("job 44 of cluster 'alps' holds this run") !=
          std::string::npos);
  }
  CHECK(*read_attempt(folder.path()) == 2);
  CHECK(claim_run(folder.path(), third, "x", 0, 2)->attempt == 3);
}

TEST_CASE(
    "a job killed while it takes a run over can claim the run again, and so can later jobs, but no "
    "earlier job") {
  const TemporaryDirectory folder;
  REQUIRE(claim_run(folder.path(), {"alps", "42", "feed"}, "x", 0, 0));
  // The second job was killed after it created this file and before it rewrote the claim.
  REQUIRE(write_file_atomic(folder / "claim.after-0",
                            R"({"cluster":"alps","job":"43","token":"feed","chain":1})"));
  CHECK(claim_run(folder.path(), {"alps", "42", "feed"}, "x", 1, 0).error().code == Errc::kRefused);
  CHECK(claim_run(folder.path(), {"alps", "43", "feed"}, "x", 1, 1)->was_claimed_before);
  CHECK(claim_run(folder.path(), {"alps", "44", "feed"}, "x", 1, 2)->was_claimed_before);
  CHECK(run_holder(folder.path())->number == 2);
}

TEST_CASE(
    "a job of a chain takes over no run of a job outside the chain, and refuses damaged claims") {
  const TemporaryDirectory folder;
  REQUIRE(claim_run(folder.path(), {"alps", "42", "feed"}, "x", 0));
  CHECK(claim_run(folder.path(), {"alps", "43", "feed"}, "x", 0, 1).error().code == Errc::kRefused);
  const TemporaryDirectory other;
  REQUIRE(claim_run(other.path(), {"alps", "42", "feed"}, "x", 0, 0));
  for (const char* damaged :
       {"{", R"({"job":"43","chain":0})", R"({"job":"43","chain":1000000})", R"({"job":"43"})"}) {
    CAPTURE(damaged);
    REQUIRE(write_file_atomic(other / "claim.after-0", damaged));
    CHECK(claim_run(other.path(), {"alps", "44", "feed"}, "x", 0, 2).error().code ==
          Errc::kInvalid);
  }
}

TEST_CASE(
    "a requeued job without an attempt file takes its attempt number from Slurm's restart count") {
  const TemporaryDirectory folder;
  CHECK(claim_run(folder.path(), kJob, "x", 3)->attempt == 3);
  CHECK(restart_count_of(Env({{"SLURM_RESTART_COUNT", "3"}, {"X", ""}})) == 3);
  CHECK(restart_count_of(Env({{"SLURM_RESTART_COUNT", "-3"}, {"X", ""}})) == 0);
}

TEST_CASE(
    "another job, or a job with the same id on another cluster, is refused and changes nothing") {
  const TemporaryDirectory folder;
  REQUIRE(claim_run(folder.path(), kJob, "x", 0));
  for (const auto& other :
       {JobIdentity{"alps", "43", "feed"}, JobIdentity{"daint", "42", "feed"}}) {
    const auto refused = claim_run(folder.path(), other, "x", 0);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Errc::kRefused);
    CHECK(refused.error().message.find("job 42 of cluster 'alps' holds this run") !=
          std::string::npos);
  }
  CHECK(content(folder / "attempt") == "0\n");
}

TEST_CASE("a job with another token than the submission's is refused") {
  const TemporaryDirectory folder;
  std::ofstream(folder / "submission.json") << R"({"token":"beef","state":"intent"})";
  CHECK(claim_run(folder.path(), kJob, "x", 0).error().code == Errc::kRefused);
  CHECK_FALSE(fs::exists(folder / "claim"));
  const auto run = claim_run(folder.path(), {"alps", "42", "beef"}, "x", 0);
  REQUIRE(run);
  CHECK_FALSE(fs::exists(folder / "origin"));
}

TEST_CASE("a claim that is a dangling symbolic link is refused") {
  const TemporaryDirectory folder;
  fs::create_symlink(folder / "elsewhere", folder / "claim");
  CHECK_FALSE(claim_run(folder.path(), kJob, "x", 0));
  CHECK_FALSE(fs::exists(folder / "elsewhere"));
}

TEST_CASE(
    "the error about a damaged claim names the file, and the error about a damaged attempt file "
    "quotes its text") {
  const TemporaryDirectory folder;
  std::ofstream(folder / "claim") << "";
  CHECK(claim_run(folder.path(), kJob, "x", 0).error().message.find("claim: is damaged") !=
        std::string::npos);
  fs::remove(folder / "claim");
  std::ofstream(folder / "attempt") << "two";
  CHECK(
      claim_run(folder.path(), kJob, "x", 0).error().message.find("'two' is no attempt's number") !=
      std::string::npos);
}

TEST_CASE("a job that is killed while it writes its claim leaves no claim, and can claim again") {
  const TemporaryDirectory folder;
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_DFL);
    // The first write stops after 5 bytes. The next one ends the process.
    const rlimit five_bytes{5, 5};
    ::setrlimit(RLIMIT_FSIZE, &five_bytes);
    const rlimit no_core{};
    ::setrlimit(RLIMIT_CORE, &no_core);
    std::ignore = claim_run(folder.path(), kJob, "x", 0);
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK_FALSE(fs::exists(folder / "claim"));
  CHECK(claim_run(folder.path(), kJob, "x", 0));
}

TEST_CASE(
    "only the job that the run was made for may replace an incomplete claim of an earlier version "
    "of dlrun") {
  for (const auto* incomplete : {"", R"({"cluster":"al)"}) {
    CAPTURE(incomplete);
    const TemporaryDirectory folder;
    std::ofstream(folder / "claim") << incomplete;
    std::ofstream(folder / "submission.json") << R"({"token":"feed","state":"intent"})";
    const auto run = claim_run(folder.path(), kJob, "x", 0);
    REQUIRE(run);
    CHECK_FALSE(run->was_claimed_before);
    CHECK(Json::parse(content(folder / "claim"))["job"] == "42");
    // The claim is incomplete again: the same job may claim the run, another may not.
    std::ofstream(folder / "claim", std::ios::trunc) << incomplete;
    CHECK(
        claim_run(folder.path(), {"alps", "43", "feed"}, "x", 0).error().message.find("job 42 ") !=
        std::string::npos);
    CHECK(claim_run(folder.path(), kJob, "x", 0)->was_claimed_before);
  }
}

TEST_CASE(
    "an incomplete claim is kept if the origin is another job, and replaced if the folder's name "
    "has this job's id") {
  const TemporaryDirectory folder;
  std::ofstream(folder / "claim") << "{";
  std::ofstream(folder / "origin") << R"({"cluster":"alps","job":"41"})";
  CHECK_FALSE(claim_run(folder.path(), kJob, "x", 0));
  CHECK(content(folder / "claim") == "{");
  const auto by_hand = folder / "x-42";  // the folder's name contains the job id
  fs::create_directory(by_hand);
  std::ofstream(by_hand / "claim") << "";
  CHECK(claim_run(by_hand, kJob, "x", 0));
}

TEST_CASE(
    "a job is identified by its cluster and id, and an array task by the array's id and the task's "
    "index") {
  const Env job({{"SLURM_JOB_ID", "99"}, {"SLURM_CLUSTER_NAME", "alps"}, {"DLRUN_TOKEN", "feed"}});
  CHECK(identify_job(job, false)->job == "99");
  CHECK(identify_job(job, false)->cluster == "alps");
  auto task = job;
  task.set("SLURM_ARRAY_JOB_ID", "90");
  task.set("SLURM_ARRAY_TASK_ID", "7");
  CHECK(identify_job(task, false)->job == "90_7");
  const auto local = identify_job(job, true);
  CHECK(local->cluster == "local");
  CHECK(local->job.find(":" + std::to_string(::getpid()) + ":") != std::string::npos);
  CHECK(identify_job(Env{}, false).error().code == Errc::kUsage);
}

TEST_CASE("the run directory is DLRUN_RUN, else a folder named after the job") {
  CHECK(run_directory_of(Env({{"DLRUN_RUN", "/a/b"}, {"X", ""}}), kJob, "/runs", "x") == "/a/b");
  CHECK(run_directory_of(Env{}, kJob, "/runs", "x") == "/runs/x-42");
  CHECK(run_directory_of(Env{}, {"local", "vm:1:2", ""}, "/runs", "x") == "/runs/x-vm-1-2");
}

TEST_CASE(
    "a progress report is checked for the fields of ENVIRONMENT.md, and each problem is "
    "described") {
  for (const char* right :
       {R"({"step": 120})", R"({"epoch": 1, "loss": 0.5, "mine": [1]})", R"({"final": true})"})
    CHECK_FALSE(progress_problem(right));
  CHECK(*progress_problem("120\n") == "'120' is not a JSON object");
  CHECK_FALSE(progress_problem(R"({"step": 5, "loss": NaN})"));
  CHECK(*progress_problem(R"({"step": NaN})") ==
        R"(in '{"step": NaN}' "step" is not a whole number)");
  CHECK(*progress_problem(R"({"step": "5"})") ==
        R"(in '{"step": "5"}' "step" is not a whole number)");
  CHECK(progress_problem(R"({"step": 5, "loss": "low"})")->ends_with(R"("loss" is not a number)"));
  CHECK(*progress_problem(R"({"iteration": 5})") ==
        R"('{"iteration": 5}' has no field of a progress report, such as step, epoch or loss)");
  CHECK(progress_problem(std::string(1U << 17U, '{'))->find("is longer than 65535 bytes") !=
        std::string::npos);
}

TEST_CASE(
    "a progress report that is nested as deeply as its file allows is refused without a crash") {
  const std::string deep =
      "{\"step\":1,\"a\":" + std::string(30'000, '[') + std::string(30'000, ']') + "}";
  REQUIRE(progress_problem(deep));
  CHECK(progress_problem(deep)->ends_with("is not a JSON object"));
  auto file = ProgressFile::create();
  REQUIRE(file);
  std::ofstream(file->path()) << deep;
  CHECK(file->take_news() == nlohmann::ordered_json::object());
}

TEST_CASE(
    "a half-written report is no error, but a wrong report that stays or is the last one is "
    "reported once") {
  auto file = ProgressFile::create();
  REQUIRE(file);
  const auto write = [&](const char* text) { std::ofstream(file->path()) << text; };
  write(R"({"step": )");
  CHECK(file->take_news() == nlohmann::ordered_json::object());
  CHECK_FALSE(file->take_problem(false));
  write(R"({"step": 1})");
  CHECK(file->take_news());
  CHECK_FALSE(file->take_news());
  CHECK_FALSE(file->take_problem(true));
  write("step 2");
  CHECK(file->take_news()->empty());
  SUBCASE("the error stays") {
    CHECK_FALSE(file->take_problem(false));
    CHECK_FALSE(file->take_news());
    CHECK(file->take_problem(false));
  }
  SUBCASE("the error is in the last report") {
    CHECK(file->take_problem(true));
  }
  write("step 3");
  CHECK(file->take_news()->empty());
  CHECK_FALSE(file->take_problem(true));
}

TEST_CASE("a number that is not finite is left out of a progress report, and the rest counts") {
  auto file = ProgressFile::create();
  REQUIRE(file);
  const auto write_and_read = [&](const char* text) {
    std::ofstream(file->path()) << text;
    const auto news = file->take_news();
    return news ? news->dump() : "nothing";
  };
  CHECK(write_and_read(R"({"step": 3, "loss": NaN, "steps": 9})") == R"({"step":3,"steps":9})");
  CHECK(write_and_read(R"({"loss":-Infinity,"step":4,"accuracy":+inf,"work_ms":-nan})") ==
        R"({"step":4})");
  CHECK(write_and_read(R"({"final": true, "loss": NaN, "said": "NaN \"-Infinity"})") ==
        R"({"final":true,"said":"NaN \"-Infinity"})");
  CHECK(write_and_read(R"({"loss": null})") == "{}");
  CHECK_FALSE(file->take_problem(true));
  CHECK(write_and_read(R"({"step": NaNs})") == "{}");
  CHECK(file->take_problem(true));
}

TEST_CASE(
    "if five looks in a row find new but bad progress reports, an error is reported once while the "
    "program runs") {
  auto file = ProgressFile::create();
  REQUIRE(file);
  const auto write_and_look = [&](const std::string& text) {
    std::ofstream(file->path()) << text;
    CHECK(file->take_news());
    return file->take_problem(false);
  };
  for (int step = 1; step < 5; ++step) CHECK_FALSE(write_and_look("step " + std::to_string(step)));
  CHECK_FALSE(write_and_look(R"({"step": 5})"));
  for (int step = 6; step < 10; ++step) CHECK_FALSE(write_and_look("step " + std::to_string(step)));
  CHECK(write_and_look("step 10") == "'step 10' is not a JSON object");
  CHECK_FALSE(write_and_look("step 11"));
}

}  // namespace
}  // namespace dlrun::agent
