// Tests environment.secrets, which has the names and files of secrets, never their values.

#include <doctest/doctest.h>

#include "launcher/plan/plan.h"
#include "launcher/plan/render.h"
#include "launcher/spec/load.h"
#include "launcher/spec/secret_lines.h"
#include "launcher/spec/spec_builder.h"
#include "load_checks.h"
#include "tests/contains.h"

namespace dlrun {
namespace {

LoadRequest secrets_request(std::string_view secrets, std::vector<std::string> set_arguments = {}) {
  LoadRequest request;
  request.file = "exp.yaml";
  request.text = "resources: {time: 1m}\nlaunch: {command: [x]}\nenvironment:\n  secrets: " +
                 std::string(secrets) + "\n";
  request.set_arguments = std::move(set_arguments);
  request.current_dir = "/exp";
  request.env.set("HOME", "/home/u");
  request.env.set("TOKEN", "canary-value");
  return request;
}

TEST_CASE(
    "an item of environment.secrets is a name, or a name with a file, and the script has only the "
    "name") {
  const auto loaded = load_spec(secrets_request("[TOKEN, {name: OTHER, file: ~/.other}]"));
  REQUIRE(loaded.has_value());
  REQUIRE(loaded->spec.environment.secrets.size() == 2);
  CHECK(loaded->spec.environment.secrets[1].file == "/home/u/.other");
  const auto plan =
      make_plan(*loaded, {"/runs", "/runs/a/dlrun-agent", "/runs/a/dlrun-trainer", Target::kSlurm});
  REQUIRE(plan.has_value());
  for (const std::string& text : {*render_script(*plan), render_local_script(*plan),
                                  plan_json(*plan), resolved_yaml(*loaded)}) {
    CHECK(has(text, "TOKEN"));
    CHECK_FALSE(has(text, "canary-value"));
  }
  CHECK(has(*render_script(*plan), "  --secret TOKEN  "));
}

TEST_CASE(
    "wrong items of environment.secrets are refused, and text that may be a secret's value is not "
    "shown") {
  const std::string errors = refused(secrets_request("[\"sk-12345\"]"));
  CHECK(
      has(errors, "exp.yaml:4:13: error: environment.secrets: this is not the name of a variable"));
  CHECK_FALSE(has(errors.substr(0, errors.find('\n')), "sk-12345"));
  CHECK(has(refused(secrets_request("[DLRUN_TOKEN]")), "dlrun's own variables"));
  CHECK(has(refused(secrets_request("[A, A]")), "'A' is given twice"));
  CHECK(has(refused(secrets_request("[{name: A}]")),
            "file is missing; a secret from a file is {name: NAME, file: PATH}"));
  CHECK(has(refused(secrets_request("[{name: A, value: x}]")), "unknown key 'value'"));
  CHECK(has(refused(secrets_request("TOKEN")),
            "expected a list of variables' names, not a single value"));
}

TEST_CASE("a refused name of a secret is shown, unless it may be the value of a secret") {
  for (const auto& [list, name] :
       {std::pair("[HF-TOKEN]", "HF-TOKEN"), std::pair("[$HF_TOKEN]", "$HF_TOKEN"),
        std::pair("[OTHER_KEY, 'HF TOKEN']", "HF TOKEN"), std::pair("[MY.API.KEY]", "MY.API.KEY"),
        std::pair("[SLURM_JOB_ID]", "SLURM_JOB_ID"), std::pair("[DLRUN_TOKEN]", "DLRUN_TOKEN")}) {
    CAPTURE(list);
    const std::string errors = refused(secrets_request(list));
    CHECK(has(errors, std::string("environment.secrets: '") + name + "' "));
    CHECK(has(errors, std::string("    4 |   secrets: ") + list + "\n"));
  }
  for (const char* list : {"[sk-12345]", "[my-secret]", "[SEKRIT-1]", "[AKIA-ABCDEFGH]",
                           "[A1B2C3-D]", "[pa$$word]", "[HF-TOKEN, sekrit]", "[HF_TOKEN=SEKRIT]",
                           "[A-B-C-D-E-F-G-H-I-J-K-L-M-N-O-P-Q-R-S-T-KEY]"}) {
    CAPTURE(list);
    CHECK(has(refused(secrets_request(list)), "    4 | (not shown)\n"));
  }
  CHECK(looks_like_names_only("MY_KEY_2 $MY_KEY"));
  for (const char* text : {"", "$", "HUNTER", "hf_token", "MY_KEY_123", "2ND_TOKEN", "PA$$W_D",
                           "MY_KEY: MASTER_KEY", "MY_KEY # MASTER_KEY"}) {
    CAPTURE(text);
    CHECK_FALSE(looks_like_names_only(text));
  }
}

TEST_CASE(
    "if ${VAR} stands where a secret's name is expected, the error does not show the value of "
    "VAR") {
  LoadRequest request = secrets_request("[\"${ODD}\"]");
  request.env.set("ODD", "CANARY-KEY");
  CHECK_FALSE(has(refused(request), "CANARY"));
}

TEST_CASE(
    "a secret cannot be set in environment.vars, and its value cannot be used in another key") {
  CHECK(has(refused(secrets_request("[TOKEN]", {"environment.vars.TOKEN=x"})),
            "TOKEN is a secret; remove it from environment.vars"));
  std::string errors = refused(secrets_request("[TOKEN]\n  setup: login ${TOKEN}"));
  CHECK(
      has(errors, "exp.yaml:5:10: error: TOKEN is a secret: its value must not reach the script"));
  CHECK_FALSE(has(errors, "canary-value"));
  CHECK(has(refused(secrets_request("[TOKEN]", {"launch.command=[a, \"--key=${TOKEN}\"]"})),
            "--set launch.command="));
  CHECK(has(errors, "let the program read $TOKEN"));
  // The program does not get the secret of a webhook, so the message does not say "let the program
  // read $HOOK".
  CHECK(has(refused(secrets_request(
                "[TOKEN]", {"notify.webhook.secret=HOOK", "launch.command=[a, \"${HOOK}\"]"})),
            "HOOK is a secret: its value must not reach the script; remove ${HOOK} here"));
  CHECK(load_spec(secrets_request("[TOKEN]\n  setup: login $${TOKEN}")).has_value());
  CHECK(load_spec(secrets_request("[TOKEN]\n  setup: login ${HOME}")).has_value());
}

TEST_CASE("uses_variable() is true only if ${NAME} would be replaced") {
  CHECK(uses_variable("a ${X}", "X"));
  CHECK(uses_variable("$${X} ${X}", "X"));
  CHECK_FALSE(uses_variable("$${X}", "X"));
  CHECK_FALSE(uses_variable("$X ${XY}", "X"));
}

}  // namespace
}  // namespace dlrun
