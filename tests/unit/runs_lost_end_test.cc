#include <unistd.h>

#include <doctest/doctest.h>

#include "common/files.h"
#include "common/json_lines.h"
#include "launcher/executors/foreground.h"
#include "launcher/runs/journal.h"
#include "launcher/runs/lost_end.h"
#include "launcher/runs/status.h"
#include "tests/temporary_directory.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

/// A run without Slurm. job: the id of lead's process (local_job_id()), which has claimed the run.
struct LocalRun {
  TemporaryDirectory folder;
  std::filesystem::path events = folder.path() / "events.jsonl";
  explicit LocalRun(const std::string& job,
                    const std::string& pid_namespace = own_pid_namespace()) {
    Submission submission;
    submission.token = std::string(32, 'a');
    submission.state = Submission::State::kSubmitted;
    submission.job = {std::string(kLocalCluster), job};
    submission.pid_namespace = pid_namespace;
    REQUIRE(write_submission(folder.path(), submission).has_value());
    append({{"event", "claimed"}, {"attempt", 0}, {"job", job}});
  }
  void append(const Json& event) const { append_text(to_checked_line(event)); }
  void append_text(const std::string& text) const {
    REQUIRE(
        write_file_atomic(events, read_file(events, 1U << 20U).value_or("") + text).has_value());
  }
  /// Returns the status as a command gets it: if lead is gone, this may write an end.
  [[nodiscard]] RunStatus status() const {
    Env env;
    env.set("PATH", "/nowhere");
    auto status = RunInspector(env).inspect(folder.path());
    REQUIRE(status.has_value());
    return std::move(*status);
  }
  /// Returns the content of the record.
  [[nodiscard]] std::string text() const { return read_file(events, 1U << 20U).value_or(""); }
};

/// Returns the job id of a process that no longer exists: this process's pid with another start
/// time.
std::string job_of_gone_process() {
  return local_job_id(::getpid()).value() + "1";
}

}  // namespace

TEST_CASE(
    "if lead ended without recording an end, the first command that notices this records the end "
    "once") {
  const LocalRun run(job_of_gone_process());
  run.append_text("{\"event\":\"prog");  // lead was killed while it wrote
  CHECK(run.status().state == RunState::kFailed);
  const std::string written = run.text();
  const auto lines = parse_checked_lines(written);
  CHECK(lines.objects.size() == 2);
  CHECK_FALSE(lines.has_incomplete_end);
  const RunStatus again = run.status();
  CHECK(again.state == RunState::kFailed);
  CHECK(again.detail == "lead ended without recording an end");
  CHECK(run.text() == written);
}

TEST_CASE("no end is written for a run whose lead is in another PID namespace") {
  const LocalRun run(job_of_gone_process(), "pid:[1]");
  const std::string before = run.text();
  CHECK_FALSE(is_over(run.status()));
  CHECK(run.text() == before);
}

TEST_CASE(
    "a run without a recorded PID namespace is assumed to be in the machine's initial namespace") {
  const bool is_in_initial_namespace = own_pid_namespace() == "pid:[4026531836]";
  CHECK(is_over(LocalRun(job_of_gone_process(), "").status()) == is_in_initial_namespace);
}

TEST_CASE("an end that lead wrote is kept, and no end is written for a living lead") {
  const LocalRun ended(job_of_gone_process());
  ended.append({{"event", "ended"},
                {"attempt", 0},
                {"state", "completed"},
                {"code", 0},
                {"message", "done"}});
  const auto record = write_lost_end(ended.folder.path(), 137, "killed");
  REQUIRE(record.has_value());
  CHECK(record->end_state == EndState::kCompleted);
  CHECK(ended.status().state == RunState::kCompleted);
  const LocalRun alive(local_job_id(::getpid()).value());
  CHECK(alive.status().state == RunState::kRunning);
  CHECK(parse_checked_lines(alive.text()).objects.size() == 1);
}

TEST_CASE("the state of a run on another machine is unknown, and no end is written for it") {
  const LocalRun run("some-other-host:1:1");
  const RunStatus status = run.status();
  CHECK(status.state == RunState::kUnknown);
  CHECK(status.detail ==
        "it ran on some-other-host; run `dlrun status` there to see whether it still runs");
  CHECK(parse_checked_lines(run.text()).objects.size() == 1);
}

TEST_CASE(
    "a run without a journal counts as not submitted, because dlrun was killed before writing it") {
  const TemporaryDirectory run;
  REQUIRE(write_file_atomic(run.path() / "job.sh", "#!/bin/bash\n").has_value());
  Env env;
  env.set("PATH", "/nowhere");
  const auto status = RunInspector(env).inspect(run.path());
  REQUIRE(status.has_value());
  CHECK(status->state == RunState::kNotSubmitted);
  CHECK(status->detail.find("its job is not submitted yet") != std::string::npos);
  const TemporaryDirectory other;  // any folder that is no run
  CHECK_FALSE(RunInspector(env).inspect(other.path()).has_value());
}

}  // namespace dlrun
