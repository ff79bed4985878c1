// Tests `notify` in a spec.

#include <doctest/doctest.h>

#include "launcher/plan/plan.h"
#include "launcher/plan/render.h"
#include "launcher/spec/load.h"
#include "load_checks.h"
#include "tests/contains.h"

namespace dlrun {
namespace {

LoadRequest with_notify(const std::string& notify, const std::string& more = "") {
  LoadRequest request;
  request.file = "exp.yaml";
  request.text = "resources: {time: 1m}\nlaunch: {command: [x]}\nnotify: " + notify + "\n" + more;
  request.current_dir = "/exp";
  return request;
}

LaunchPlan plan_of(const std::string& notify) {
  const auto plan = make_plan(loaded(with_notify(notify)),
                              {.runs_dir = "/runs", .agent_path = "/agent", .trainer_path = "/t"});
  REQUIRE(plan.has_value());
  return *plan;
}

std::string options_of(const LaunchPlan& plan) {
  std::string text;
  for (const PlannedOption& option : plan.lead_options)
    text += option.option + " " + option.value.value_or("") + ";";
  return text;
}

constexpr const char* kWebhookUrl = "https://hooks.slack.com/services/T0/B0/token";

TEST_CASE(
    "the plan has the occasions, and the name of the secret or the command, but never the "
    "address") {
  const auto by_secret = plan_of("{on: [failed, started], webhook: {secret: SLACK_URL}}");
  CHECK(options_of(by_secret) == "--notify failed,started;--webhook SLACK_URL;");
  CHECK(by_secret.lead_secrets == std::vector<std::string>{"SLACK_URL"});
  const auto by_url = plan_of(std::string("{webhook: {url: ") + kWebhookUrl + "}}");
  CHECK(options_of(by_url) == "--notify failed,hang,completed;--webhook DLRUN_WEBHOOK_URL;");
  CHECK_FALSE(has(render_script(by_url).value(), "token"));
  CHECK_FALSE(has(plan_json(by_url), "token"));
  const auto by_command = plan_of("{command: [mail, -s, '{subject}', me]}");
  CHECK(options_of(by_command) ==
        "--notify failed,hang,completed;--notify-word mail;--notify-word -s;--notify-word "
        "{subject};--notify-word me;");
  CHECK(by_command.lead_secrets.empty());
}

TEST_CASE(
    "the resolved spec gives the same plan, and neither it nor the list of values shows the "
    "address") {
  const auto spec = loaded(with_notify(std::string("{webhook: {url: ") + kWebhookUrl + "}}"));
  const auto resolved = resolved_yaml(spec);
  CHECK_FALSE(has(resolved, "token"));
  CHECK(has(resolved, "secret: DLRUN_WEBHOOK_URL"));
  for (const EffectiveValue& value : effective_values(spec.spec))
    CHECK_FALSE(has(value.text, "token"));
  LoadRequest again;
  again.file = "resolved.yaml";
  again.text = resolved;
  again.current_dir = "/exp";
  const auto plan =
      make_plan(loaded(again), {.runs_dir = "/runs", .agent_path = "/agent", .trainer_path = "/t"});
  REQUIRE(plan.has_value());
  CHECK(options_of(*plan) == "--notify failed,hang,completed;--webhook DLRUN_WEBHOOK_URL;");
}

TEST_CASE("a value of `notify` that cannot work is refused with the line of the key") {
  for (const auto& [notify, words] :
       {std::pair("{on: [often], command: [x]}", "'often' is not one of: started completed"),
        std::pair("{on: [], command: [x]}", "notify.on names no occasion"),
        std::pair("{on: [failed]}", "notify.on needs notify.webhook or notify.command"),
        std::pair("{command: []}", "notify.command names no program"),
        std::pair("{webhook: {secret: A, url: 'https://h/x'}}", "exclude each other"),
        std::pair("{webhook: {url: 'ftp://h/token'}}", "does not start with https://"),
        std::pair("{webhook: {url: 'http://169.254.169.254/token'}}", "link-local"),
        std::pair("{webhook: {url: 'http://metadata.google.internal/token'}}", "metadata server"),
        std::pair("{webhook: {secret: 'https://h/token'}}",
                  "is the name of a variable that holds the address")}) {
    CAPTURE(notify);
    const auto message = refused(with_notify(notify));
    CHECK(has(message, "exp.yaml:3:"));
    CHECK(has(message, words));
  }
  auto agentless = with_notify("{command: [x]}");
  agentless.set_arguments = {"launch.agent=false"};
  CHECK(has(refused(agentless), "only the agent can send messages (notify)"));
}

TEST_CASE(
    "a webhook address in an argument is refused, and so is its variable if environment.vars sets "
    "it") {
  auto request = with_notify("{on: [failed]}");
  request.set_arguments = {std::string("notify.webhook.url=") + kWebhookUrl};
  CHECK(has(refused(request), "other users can see the arguments"));
  CHECK(has(refused(with_notify("{webhook: {secret: TOKEN}}", "environment: {vars: {TOKEN: a}}\n")),
            "TOKEN is a secret; remove it from environment.vars"));
}

TEST_CASE("a sweep over a key of notify is refused") {
  CHECK(has(refused(with_notify("{command: [x]}",
                                "sweep: {parameters: {notify.on: [[failed], [hang]]}}\n")),
            "cannot be swept"));
}

}  // namespace
}  // namespace dlrun
