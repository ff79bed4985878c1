// Tests that the end of a step is noticed without SIGCHLD, and that all descendants of a process
// are found.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/agent/descendants.h"
#include "runtime/agent/program_start.h"
#include "runtime/agent/step.h"

namespace dlrun::agent {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

struct RecordingStepHandler final : StepHandler {
  std::vector<int> ended_ranks;
  bool is_over = false;
  void on_task_end(int rank, std::string_view, int, int) override { ended_ranks.push_back(rank); }
  void on_cancel_reason(std::string_view) override {}
  void on_out_of_memory() override {}
  void on_node_failure(std::string_view) override {}
  void on_unmarked_line(std::string_view) override {}
  void on_srun_killed(int) override {}
  void on_launch_failure(std::string_view, std::string_view) override {}
  void on_step_end(int, std::string_view) override { is_over = true; }
};

TEST_CASE("a step whose SIGCHLD was lost still ends, because tick() looks for ended processes") {
  for (const bool is_local : {true, false}) {
    CAPTURE(is_local);
    auto loop = EventLoop::create();
    REQUIRE(loop);
    RecordingStepHandler handler;
    Sink out(*loop, STDOUT_FILENO);
    Sink err(*loop, STDERR_FILENO);
    const StepContext context{*loop, handler, out, err};
    const auto env = Env::of_process();
    // For a step of Slurm, `true` is started in place of srun. It reports no task, so no rank ends.
    auto step =
        is_local ? start_local(context, {"true"}, env, 2) : start_srun(context, {"true"}, env);
    REQUIRE(step);
    for (const auto until = Clock::now() + seconds(10); !handler.is_over && Clock::now() < until;) {
      loop->run_once(milliseconds(10));
      (*step)->tick();
    }
    CHECK(handler.is_over);
    CHECK(handler.ended_ranks.size() == (is_local ? 2 : 0));
  }
}

TEST_CASE(
    "all descendants are found, also children of orphans, and has_children() is false when all are "
    "gone") {
  adopt_orphans();
  CHECK_FALSE(has_children());
  const auto pid = start_program(
      {.argv = {"bash", "-c", "setsid bash -c 'sleep 60 & sleep 60; :' & sleep 60; :"},
       .env = Env::of_process()});
  REQUIRE(pid);
  // The descendants are bash, another bash and three sleeps. All but the first may still be
  // starting.
  for (const auto until = Clock::now() + seconds(10);
       descendants().size() < 5 && Clock::now() < until;)
    ::usleep(5000);
  CHECK(descendants().size() == 5);
  CHECK(descendants_without(*pid).empty());
  CHECK(use_of_descendants_without(-1).process_count == 5);
  ::kill(*pid, SIGKILL);
  CHECK(reap_within(*pid, seconds(5)));
  CHECK(descendants().size() >= 3);  // this process is their parent now
  CHECK(has_children());
  for (const auto until = Clock::now() + seconds(10); has_children() && Clock::now() < until;) {
    for (const pid_t left : descendants()) ::kill(left, SIGKILL);
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
  }
  CHECK_FALSE(has_children());
  CHECK(descendants().empty());
}

}  // namespace
}  // namespace dlrun::agent
