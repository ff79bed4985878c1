// Tests `track` in a spec.

#include <doctest/doctest.h>

#include "common/bounded_json.h"
#include "launcher/plan/plan.h"
#include "launcher/plan/render.h"
#include "launcher/spec/load.h"
#include "load_checks.h"
#include "tests/contains.h"

namespace dlrun {
namespace {

LoadRequest with_track(const std::string& track,
                       const std::string& other_sections = "launch: {command: [x]}\n") {
  LoadRequest request;
  request.file = "exp.yaml";
  request.text = "name: t\nresources: {time: 1m}\ntrack: " + track + "\n" + other_sections;
  request.current_dir = "/exp";
  return request;
}

LaunchPlan tracked_plan(const LoadRequest& request) {
  const auto plan = make_plan(loaded(request),
                              {.runs_dir = "/runs", .agent_path = "/agent", .trainer_path = "/t"});
  REQUIRE(plan.has_value());
  return *plan;
}

std::string lead_options_of(const LaunchPlan& plan) {
  std::string text;
  for (const PlannedOption& option : plan.lead_options)
    text += option.option + " " + option.value.value_or("") + ";";
  return text;
}

TEST_CASE(
    "lead gets --tensorboard, or the MLflow server, the experiment and the name of the token's "
    "variable") {
  CHECK(lead_options_of(tracked_plan(with_track("{tensorboard: true}"))) == "--tensorboard ;");
  CHECK(lead_options_of(tracked_plan(with_track("{tensorboard: false}"))).empty());
  const auto plan =
      tracked_plan(with_track("{mlflow: {url: 'https://h/ml/', secret: MLFLOW_TRACKING_TOKEN}}"));
  CHECK(lead_options_of(plan) ==
        "--mlflow https://h/ml;--mlflow-experiment t;--mlflow-secret MLFLOW_TRACKING_TOKEN;");
  CHECK(plan.lead_secrets == std::vector<std::string>{"MLFLOW_TRACKING_TOKEN"});
}

TEST_CASE(
    "parameters.json is made only for an MLflow server, and has all set values except those of "
    "notify and track") {
  CHECK(parameters_json(loaded(with_track("{tensorboard: true}"))).empty());
  const auto parameters =
      parse_json(parameters_json(loaded(with_track("{mlflow: {url: 'https://h'}}"))));
  CHECK(parameters.value("launch.command", "") == R"(["x"])");
  CHECK(parameters.value("name", "") == "t");
  CHECK_FALSE(parameters.contains("track.mlflow.url"));
}

TEST_CASE(
    "all attempts have the same wandb run id, and variables that the user sets are not replaced") {
  const auto plan = tracked_plan(with_track("{wandb: {project: '{p}', entity: e, mode: offline}}"));
  const auto script = render_script(plan).value();
  CHECK(has(script, "WANDB_RUN_ID={run_id}"));
  CHECK(has(script, "WANDB_RESUME=allow"));
  CHECK(has(script, "WANDB_DIR={run}"));
  CHECK(has(script, "WANDB_PROJECT={{p}}"));  // doubled, so that the agent keeps {p}
  CHECK(has(script, "WANDB_ENTITY=e"));
  CHECK(has(script, "WANDB_MODE=offline"));
  // An interactive session also has these variables. It runs a shell, a command, or a command in a
  // container.
  CHECK(has(render_interactive(plan, {}, "s").script, "export WANDB_PROJECT='{p}'\n"));
  CHECK(has(render_interactive(plan, {"x"}, "s").script, "env 'WANDB_PROJECT={p}'"));
  const auto contained = tracked_plan(
      with_track("{wandb: {project: p}}",
                 "launch: {command: [x]}\ncontainer: {runtime: pyxis, image: /a.sqsh}\n"));
  CHECK(has(render_interactive(contained, {"x"}, "s").script, " env WANDB_PROJECT=p x"));
  const auto with_users_id =
      render_script(tracked_plan(with_track("{wandb: {project: p}}",
                                            "launch: {command: [x]}\nenvironment: "
                                            "{vars: {WANDB_RUN_ID: mine}}\n")));
  CHECK_FALSE(has(with_users_id.value(), "WANDB_RUN_ID={run_id}"));
  CHECK(has(with_users_id.value(), "WANDB_RUN_ID=mine"));
}

TEST_CASE("a value of `track` that cannot work is refused with the line of the key") {
  for (const auto& [track, words] :
       {std::pair("{mlflow: {url: 'mlflow.example.org'}}", "does not start with https://"),
        std::pair("{mlflow: {url: 'https://me:token@h'}}", "has a user name"),
        std::pair("{mlflow: {url: 'https://h/?a=b'}}", "no '?' and no '#'"),
        std::pair("{mlflow: {experiment: x}}", "track.mlflow.experiment needs track.mlflow.url"),
        std::pair("{mlflow: {url: 'https://h', secret: 'a b'}}", "is the name of a variable"),
        std::pair("{wandb: {entity: x}}", "track.wandb.entity needs track.wandb.project"),
        std::pair("{wandb: {project: x, mode: later}}", "'later' is not one of: online offline")}) {
    CAPTURE(track);
    const auto message = refused(with_track(track));
    CHECK(has(message, "exp.yaml:3:"));
    CHECK(has(message, words));
  }
  for (const char* track :
       {"{tensorboard: true}", "{mlflow: {url: 'https://h'}}", "{wandb: {project: p}}"}) {
    auto agentless = with_track(track);
    agentless.set_arguments = {"launch.agent=false"};
    CAPTURE(track);
    CHECK(has(refused(agentless), "only the agent can record the run for other tools (track)"));
  }
}

}  // namespace
}  // namespace dlrun
