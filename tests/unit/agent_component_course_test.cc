// Tests the course of a job with components: when each of them starts, stops and starts again, and
// how the job ends.
#include <signal.h>

#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/agent/component_course.h"
#include "runtime/agent/component_options.h"

namespace dlrun::agent {
namespace {

using Kind = ComponentCourse::Order::Kind;

constexpr std::size_t kServer = 0, kTrainer = 1, kEvaluator = 2;

/// Returns the options of three components: a server that may start again `retries` times, a
/// trainer that waits for the server, and an evaluator that waits for nothing.
std::vector<ComponentOptions> three_components(int retries = 0) {
  std::vector<ComponentOptions> components(3);
  components[kServer].name = "server";
  components[kServer].role = ComponentRole::kService;
  components[kServer].ready.kind = ReadyCheck::Kind::kHttp;
  components[kServer].retries = retries;
  components[kTrainer].name = "trainer";
  components[kTrainer].after = {"server"};
  components[kEvaluator].name = "evaluator";
  return components;
}

AttemptEnd component_end(int code, EndReason reason, Cause cause = Cause::kNone) {
  AttemptEnd end;
  end.code = code;
  end.reason = reason;
  end.cause = cause;
  end.message = "it ended";
  end.has_run = true;
  return end;
}
const AttemptEnd kGoodEnd = component_end(0, EndReason::kOk);
const AttemptEnd kBadEnd = component_end(7, EndReason::kRankFailed, Cause::kFailure);
const AttemptEnd kStoppedEnd = component_end(0, EndReason::kStopped);

using Orders = std::vector<std::string>;

/// Takes the orders from `course` and returns them as text, such as "start trainer".
Orders take_orders(ComponentCourse& course, const std::vector<ComponentOptions>& components) {
  Orders texts;
  for (const auto& order : course.take_orders()) {
    texts.push_back((order.kind == Kind::kStart ? "start " : "stop ") + components[order.at].name);
  }
  return texts;
}

/// Starts all three components, and makes the server ready.
void start_all(ComponentCourse& course, const std::vector<ComponentOptions>& components) {
  CHECK(take_orders(course, components) == Orders{"start server", "start evaluator"});
  course.on_joined(kServer);
  course.on_ready(kServer);
  CHECK(take_orders(course, components) == Orders{"start trainer"});
  course.on_joined(kTrainer);
  course.on_joined(kEvaluator);
}

TEST_CASE("a component that waits for another one starts only when that one is ready") {
  const auto components = three_components();
  ComponentCourse course(components);
  CHECK(take_orders(course, components) == Orders{"start server", "start evaluator"});
  CHECK(course.state(kTrainer) == ComponentState::kWaiting);
  course.on_joined(kServer);
  CHECK(course.state(kServer) == ComponentState::kJoined);
  CHECK(take_orders(course, components).empty());
  course.on_ready(kServer);
  CHECK(take_orders(course, components) == Orders{"start trainer"});
  CHECK(take_orders(course, components).empty());
}

TEST_CASE("services are stopped when all main components have ended, and the job succeeds") {
  const auto components = three_components();
  ComponentCourse course(components);
  start_all(course, components);
  course.on_over(kTrainer, kGoodEnd);
  CHECK(take_orders(course, components).empty());
  course.on_over(kEvaluator, kGoodEnd);
  CHECK(take_orders(course, components) == Orders{"stop server"});
  CHECK_FALSE(course.is_over());
  course.on_over(kServer, kStoppedEnd);
  REQUIRE(course.is_over());
  CHECK(course.state(kServer) == ComponentState::kStopped);
  CHECK_FALSE(course.decider());
  CHECK(course.attempt_end().code == 0);
  CHECK(course.attempt_end().message == "all 2 main components ended with 0");
}

TEST_CASE("the reason of a stop tells whether another component failed, or ended after a signal") {
  const auto components = three_components();
  ComponentCourse failing(components);
  start_all(failing, components);
  failing.on_failing(kTrainer, kBadEnd);
  CHECK(failing.take_orders().at(0).why == "component 'trainer' has failed; dlrun ends this one");
  ComponentCourse signalled(components);
  start_all(signalled, components);
  signalled.on_over(kTrainer, component_end(128 + SIGTERM, EndReason::kSignalled));
  CHECK(signalled.take_orders().at(0).why ==
        "component 'trainer' has ended after a signal; dlrun ends this one");
}

TEST_CASE("a main component that fails ends the job with its code, and stops all others") {
  const auto components = three_components(3);
  ComponentCourse course(components);
  start_all(course, components);
  course.on_failing(kTrainer, kBadEnd);
  CHECK(take_orders(course, components) == Orders{"stop server", "stop evaluator"});
  // The evaluator fails as a consequence, just before the order reaches it.
  course.on_over(kEvaluator, component_end(1, EndReason::kRankFailed, Cause::kFailure));
  course.on_over(kTrainer, kBadEnd);
  course.on_over(kServer, kStoppedEnd);
  REQUIRE(course.is_over());
  CHECK(course.decider() == kTrainer);
  CHECK(course.attempt_end().code == 7);
  CHECK(course.attempt_end().message == "component trainer: it ended");
  CHECK(course.attempt_end().cause == Cause::kFailure);
}

TEST_CASE("a service that ends by itself fails the job, even with code 0") {
  const auto components = three_components();
  ComponentCourse course(components);
  start_all(course, components);
  SUBCASE("with 0") {
    course.on_over(kServer, kGoodEnd);
    CHECK(take_orders(course, components) == Orders{"stop trainer", "stop evaluator"});
  }
  SUBCASE("with another code") {
    course.on_failing(kServer, kBadEnd);
    CHECK(take_orders(course, components) == Orders{"stop trainer", "stop evaluator"});
    course.on_over(kServer, kBadEnd);
  }
  course.on_over(kTrainer, kStoppedEnd);
  course.on_over(kEvaluator, kStoppedEnd);
  REQUIRE(course.is_over());
  CHECK(course.state(kServer) == ComponentState::kFailed);
  CHECK(course.attempt_end().code != 0);
  CHECK(course.attempt_end().cause == Cause::kFailure);
}

TEST_CASE(
    "a service with restarts left starts again alone, and a failure after its last restart ends "
    "the job") {
  const auto components = three_components(1);
  ComponentCourse course(components);
  start_all(course, components);
  course.on_failing(kServer, kBadEnd);
  CHECK(take_orders(course, components).empty());
  course.on_over(kServer, kBadEnd);
  CHECK(course.state(kServer) == ComponentState::kRestarting);
  CHECK(course.restarts(kServer) == 1);
  CHECK(take_orders(course, components) == Orders{"start server"});
  course.on_joined(kServer);
  course.on_failing(kServer, kBadEnd);
  CHECK(take_orders(course, components) == Orders{"stop trainer", "stop evaluator"});
}

TEST_CASE("after a signal to the job, a service that is about to start again does not start") {
  auto components = three_components(3);
  // Only the server has started, so no other component receives the signal.
  components[kEvaluator].after = {"server"};
  ComponentCourse course(components);
  CHECK(take_orders(course, components) == Orders{"start server"});
  CHECK(course.starts_again_after(kServer, kGoodEnd));
  SUBCASE("the srun of the service has not ended yet") {
    course.on_signal(SIGTERM);
    CHECK_FALSE(course.starts_again_after(kServer, kGoodEnd));
    course.on_over(kServer, kGoodEnd);
  }
  SUBCASE("the service is over") {
    course.on_over(kServer, kBadEnd);
    REQUIRE(course.state(kServer) == ComponentState::kRestarting);
    course.on_signal(SIGTERM);
  }
  CHECK(take_orders(course, components).empty());
  REQUIRE(course.is_over());
  const auto end = course.attempt_end();
  CHECK(end.code == 128 + SIGTERM);
  CHECK(end.reason == EndReason::kSignalled);
  CHECK(end.is_cancelled);
  CHECK(end.message == "component server: ended by SIGTERM");
}

TEST_CASE(
    "if a signal to the job ends a service and all main components, the message names no "
    "component") {
  const auto components = three_components(3);
  ComponentCourse course(components);
  start_all(course, components);
  course.on_signal(SIGTERM);
  course.on_over(kServer, kGoodEnd);
  auto signalled = component_end(128 + SIGTERM, EndReason::kSignalled);
  signalled.message = "ended by SIGTERM";
  for (const auto at : {kTrainer, kEvaluator}) course.on_over(at, signalled);
  CHECK(take_orders(course, components).empty());
  REQUIRE(course.is_over());
  CHECK(course.attempt_end().message == "ended by SIGTERM");
}

TEST_CASE(
    "the cause that Slurm gives for a signal counts, even if the signal ends a service that would "
    "otherwise start again") {
  const auto components = three_components(3);
  ComponentCourse course(components);
  SUBCASE("the first main component has ended with 0") {
    start_all(course, components);
    course.on_over(kTrainer, kGoodEnd);
  }
  SUBCASE("the first main component has not started") {
    CHECK(take_orders(course, components) == Orders{"start server", "start evaluator"});
  }
  course.on_signal(SIGTERM);
  course.on_over(kServer, kGoodEnd);
  CHECK(take_orders(course, components) == Orders{"stop evaluator"});
  auto timed_out = component_end(128 + SIGTERM, EndReason::kSignalled, Cause::kTimeout);
  timed_out.message = "ended by SIGTERM";
  course.on_over(kEvaluator, timed_out);
  REQUIRE(course.is_over());
  const auto end = course.attempt_end();
  CHECK(end.cause == Cause::kTimeout);
  CHECK(end.code == 128 + SIGTERM);
  CHECK_FALSE(end.is_cancelled);
  CHECK(end.message == "ended by SIGTERM");
}

TEST_CASE("if a signal reached only one component, the message names this component") {
  const auto components = three_components();
  ComponentCourse course(components);
  start_all(course, components);
  auto signalled = component_end(128 + SIGTERM, EndReason::kSignalled);
  signalled.message = "ended by SIGTERM, which reached rank 0 on n1";
  course.on_over(kEvaluator, signalled);
  for (const auto at : {kServer, kTrainer}) course.on_over(at, kStoppedEnd);
  CHECK(course.attempt_end().message ==
        "component evaluator: ended by SIGTERM, which reached rank 0 on n1");
}

TEST_CASE(
    "a service does not start again after a signal, a takeover, a lost node, a bad image or failed "
    "node checks") {
  const auto components = three_components(5);
  ComponentCourse course(components);
  start_all(course, components);
  auto end = kBadEnd;
  SUBCASE("a signal ended the service") {
    end = component_end(128 + SIGTERM, EndReason::kSignalled);
    end.is_cancelled = true;
  }
  SUBCASE("a later attempt has taken the run over") {
    end = component_end(75, EndReason::kSignalled);
  }
  SUBCASE("a node is lost") {
    end.bad_nodes = {"n2"};
  }
  SUBCASE("the image is bad") {
    end.cause = Cause::kImage;
  }
  SUBCASE("all nodes failed their check") {
    end.reason = EndReason::kPreflightFailed;
  }
  course.on_over(kServer, end);
  CHECK(course.state(kServer) == ComponentState::kFailed);
  CHECK(take_orders(course, components) == Orders{"stop trainer", "stop evaluator"});
}

TEST_CASE("a service that fails after the main components have ended does not fail the job") {
  const auto components = three_components();
  ComponentCourse course(components);
  start_all(course, components);
  course.on_over(kTrainer, kGoodEnd);
  course.on_over(kEvaluator, kGoodEnd);
  course.on_failing(kServer, kBadEnd);
  course.on_over(kServer, kBadEnd);
  std::ignore = course.take_orders();
  REQUIRE(course.is_over());
  CHECK(course.attempt_end().code == 0);
}

TEST_CASE("components that still wait never start once the job ends") {
  const auto components = three_components();
  ComponentCourse course(components);
  CHECK(take_orders(course, components) == Orders{"start server", "start evaluator"});
  course.on_over(kServer, kBadEnd);
  CHECK(take_orders(course, components) == Orders{"stop evaluator"});
  CHECK(course.state(kTrainer) == ComponentState::kStopped);
  course.on_over(kEvaluator, kStoppedEnd);
  CHECK(course.is_over());
}

TEST_CASE(
    "the failure of a component counts as a node failure if another component has lost a node") {
  const auto components = three_components();
  ComponentCourse course(components);
  start_all(course, components);
  course.on_over(kTrainer, kBadEnd);
  std::ignore = course.take_orders();
  auto stopped = kStoppedEnd;
  stopped.bad_nodes = {"n3"};
  course.on_over(kServer, stopped);
  course.on_over(kEvaluator, kStoppedEnd);
  const auto end = course.attempt_end();
  CHECK(end.code == 7);
  CHECK(end.cause == Cause::kNodeFailure);
  CHECK(end.bad_nodes == std::vector<std::string>{"n3"});
}

TEST_CASE(
    "after a main component has ended because the time limit is near, the others may save and "
    "end") {
  const auto components = three_components();
  ComponentCourse course(components);
  start_all(course, components);
  auto warned = component_end(3, EndReason::kRankFailed, Cause::kTimeout);
  warned.was_warned = true;
  course.on_over(kTrainer, warned);
  CHECK(take_orders(course, components).empty());
  course.on_over(kEvaluator, kGoodEnd);
  CHECK(take_orders(course, components) == Orders{"stop server"});
  course.on_over(kServer, kStoppedEnd);
  REQUIRE(course.is_over());
  CHECK(course.attempt_end().code == 3);
  CHECK(course.attempt_end().cause == Cause::kTimeout);
}

TEST_CASE("nothing starts after a main component has ended because the time limit is near") {
  const auto components = three_components();
  ComponentCourse course(components);
  CHECK(take_orders(course, components) == Orders{"start server", "start evaluator"});
  auto warned = component_end(143, EndReason::kTimeLimit, Cause::kTimeout);
  warned.was_warned = true;
  course.on_over(kEvaluator, warned);
  course.on_joined(kServer);
  course.on_ready(kServer);
  CHECK(take_orders(course, components) == Orders{"stop server"});
  CHECK(course.state(kTrainer) == ComponentState::kStopped);
}

TEST_CASE("a node is not silent if another component on it has left an exit record") {
  const auto components = three_components();
  ComponentCourse course(components);
  start_all(course, components);
  auto lost = component_end(137, EndReason::kRankFailed, Cause::kFailure);
  lost.suspects = {"n1"};
  lost.is_whole_node_silent = true;
  course.on_over(kTrainer, lost);
  std::ignore = course.take_orders();
  auto stopped = kStoppedEnd;
  bool is_silent = true;
  SUBCASE("the other component runs on another node") {
    stopped.heard_hosts = {"n2"};
  }
  SUBCASE("the other component runs on the same node") {
    stopped.heard_hosts = {"n1"};
    is_silent = false;
  }
  course.on_over(kServer, stopped);
  course.on_over(kEvaluator, kStoppedEnd);
  CHECK(course.attempt_end().is_whole_node_silent == is_silent);
}

TEST_CASE("a signal to the job is reported for the job, not for the component that ends first") {
  const auto components = three_components();
  ComponentCourse course(components);
  start_all(course, components);
  auto signalled = component_end(128 + SIGTERM, EndReason::kSignalled);
  signalled.is_cancelled = true;
  signalled.message = "ended by SIGTERM";
  course.on_failing(kServer, signalled);
  for (const auto at : {kServer, kTrainer, kEvaluator}) course.on_over(at, signalled);
  CHECK(course.attempt_end().message == "ended by SIGTERM");
  CHECK(course.attempt_end().is_cancelled);
}

}  // namespace
}  // namespace dlrun::agent
