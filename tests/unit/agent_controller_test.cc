// Tests lead's requests to Slurm's controller: their time limits, requeues with more memory, and
// the thread that sends them.

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <optional>
#include <string>

#include <doctest/doctest.h>

#include "runtime/agent/background_call.h"
#include "runtime/agent/controller.h"
#include "tests/temporary_directory.h"

namespace dlrun::agent {
namespace {

using Clock = std::chrono::steady_clock;

/// A folder with an scontrol that never answers and ignores SIGTERM.
struct SilentController {
  TemporaryDirectory folder;
  Env env;

  SilentController() {
    const auto program = folder.path() / "scontrol";
    std::ofstream(program) << "#!/bin/bash\ntrap '' TERM\nwhile :; do sleep 1; done\n";
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    env.set("PATH", folder.path().string() + ":/usr/bin:/bin");
  }
};

TEST_CASE("a query to a controller that does not answer fails at its time limit") {
  const SilentController controller;
  const auto start = Clock::now();
  const auto job = SlurmController(controller.env, "1").job();
  const auto waited = Clock::now() - start;
  REQUIRE_FALSE(job.has_value());
  CHECK(waited >= SlurmController::kLimit);
  // The time beyond kLimit is for ending scontrol, which ignores SIGTERM.
  CHECK(waited < 2 * SlurmController::kLimit);
}

TEST_CASE(
    "a query fails with kNotFound if Slurm does not know the job, and otherwise with "
    "kUnavailable") {
  const TemporaryDirectory folder;
  Env env;
  env.set("PATH", folder.path().string() + ":/usr/bin:/bin");
  const auto code_if_scontrol_says = [&](const std::string& words) {
    const auto program = folder.path() / "scontrol";
    std::ofstream(program) << "#!/bin/sh\necho '" << words << "' >&2\nexit 1\n";
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    const auto job = SlurmController(env, "1").job();
    REQUIRE_FALSE(job.has_value());
    return job.error().code;
  };
  Env without_scontrol;
  without_scontrol.set("PATH", folder.path().string());
  const auto none = SlurmController(without_scontrol, "1").job();
  REQUIRE_FALSE(none.has_value());
  CHECK(none.error().code == Errc::kUnavailable);
  CHECK(code_if_scontrol_says("slurm_load_jobs error: Invalid job id specified") ==
        Errc::kNotFound);
  CHECK(code_if_scontrol_says("slurm_load_jobs error: Unable to contact slurm controller") ==
        Errc::kUnavailable);
}

/// A folder with programs scontrol and scancel, which write their calls into a file.
/// failing_command: the command of scontrol that fails (such as "update"). `show job` shows that
/// the job excludes n7.
struct RecordingController {
  TemporaryDirectory folder;
  Env env;

  explicit RecordingController(const std::string& failing_command = "none") {
    for (const char* name : {"scontrol", "scancel"}) {
      const auto program = folder.path() / name;
      std::ofstream(program) << "#!/bin/bash\necho \"" << name << " $*\" >>"
                             << (folder.path() / "calls").string() << "\n"
                             << "[[ $1 != " << failing_command << " ]] || exit 1\n"
                             << "[[ $1 != show ]] || echo '   ReqNodeList=(null) ExcNodeList=n7'\n";
      std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    }
    env.set("PATH", folder.path().string() + ":/usr/bin:/bin");
  }
  [[nodiscard]] std::string calls() const {
    std::ifstream file(folder.path() / "calls");
    return {std::istreambuf_iterator<char>(file), {}};
  }
};

TEST_CASE("a requeue with more memory requeues the job first, and then raises its memory") {
  const RecordingController slurm;
  REQUIRE(SlurmController(slurm.env, "7").requeue({}, JobMemory{1500, false}).has_value());
  CHECK(slurm.calls() == "scontrol requeue 7\nscontrol update JobId=7 MinMemoryNode=1500\n");
  const RecordingController other;
  REQUIRE(SlurmController(other.env, "7_2").requeue({}, JobMemory{96, true}).has_value());
  CHECK(other.calls() == "scontrol requeue 7_2\nscontrol update JobId=7_2 MinMemoryCPU=96\n");
  const RecordingController plain;
  REQUIRE(SlurmController(plain.env, "7").requeue({}, std::nullopt).has_value());
  CHECK(plain.calls() == "scontrol requeue 7\n");
}

TEST_CASE("a requeue adds bad nodes to the nodes that the job excludes already") {
  const RecordingController slurm;
  REQUIRE(SlurmController(slurm.env, "7").requeue({"n2"}, std::nullopt).has_value());
  CHECK(slurm.calls() ==
        "scontrol show job 7\nscontrol requeue 7\nscontrol update JobId=7 ExcNodeList=n[2,7]\n");
}

TEST_CASE("a requeue keeps the job's excluded nodes if Slurm does not say which these are") {
  const RecordingController slurm("show");
  REQUIRE(SlurmController(slurm.env, "7").requeue({"n2"}, std::nullopt).has_value());
  CHECK(slurm.calls() == "scontrol show job 7\nscontrol requeue 7\nscontrol show job 7\n");
}

TEST_CASE("a job whose memory Slurm does not raise is cancelled, so that it does not run again") {
  const RecordingController slurm("update");
  const auto requeued = SlurmController(slurm.env, "7").requeue({}, JobMemory{1500, false});
  REQUIRE_FALSE(requeued.has_value());
  CHECK(requeued.error().code == Errc::kRefused);
  CHECK(slurm.calls() ==
        "scontrol requeue 7\nscontrol update JobId=7 MinMemoryNode=1500\nscancel 7\n");
}

TEST_CASE("a query that blocks does not block its caller") {
  std::promise<int> late;
  BackgroundCall<int> call;
  CHECK_FALSE(call.is_pending());
  call.ask([answer = late.get_future().share()] { return answer.get(); });
  CHECK(call.is_pending());
  CHECK_FALSE(call.take().has_value());
  late.set_value(7);
  std::optional<int> answer;
  for (const auto until = Clock::now() + std::chrono::seconds(30); !answer && Clock::now() < until;)
    answer = call.take();
  CHECK(answer == 7);
  CHECK_FALSE(call.is_pending());
}

TEST_CASE("the answer of a query whose caller has gone is dropped") {
  std::promise<int> late;
  std::promise<void> call_begins;
  {
    BackgroundCall<int> call;
    call.ask([answer = late.get_future().share(), &call_begins] {
      call_begins.set_value();
      return answer.get();
    });
    call_begins.get_future().wait();
  }
  late.set_value(7);  // the object that stores the answer belongs only to the thread now
}

}  // namespace
}  // namespace dlrun::agent
