// Tests that errors and warnings about a spec show no secret.

#include <algorithm>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "launcher/spec/load.h"
#include "launcher/spec/secret_lines.h"
#include "load_checks.h"
#include "tests/contains.h"

namespace dlrun {
namespace {

LoadRequest request_with(const std::string& more, std::vector<std::string> set_arguments = {}) {
  LoadRequest request;
  request.file = "exp.yaml";
  request.text = "resources: {time: 1m}\nlaunch: {command: [x]}\n" + more;
  request.set_arguments = std::move(set_arguments);
  request.current_dir = "/exp";
  return request;
}

TEST_CASE("the source line of an error is hidden if it holds a secret") {
  for (const auto& [text, line] :
       {std::pair("environment:\n  vars: {API_KEY: SEKRIT-123, \"BAD=NAME\": x}\n", 4),
        std::pair("environment:\n  vars:\n    API_KEY:SEKRIT-123\n    B: 2\n", 5),
        std::pair("environment: {secrets: SEKRIT-123}\n", 3),
        std::pair("environment:\n  secrets: {HF_TOKEN: hf_SEKRIT}\n", 4),
        std::pair("environment:\n  secrets:\n    HF_TOKEN: hf_SEKRIT\n", 5),
        std::pair("environment:\n  secrets:\n  - SEKRIT-1\n", 5),
        std::pair("environment:\n  secrets: [\n    SEKRIT-1\n  ]\n", 5),
        std::pair("environment:\n  secretz: [SEKRIT-1]\n", 4),
        std::pair("environment:\n  HF_TOKEN: SEKRIT-1\n", 4),
        std::pair("environment:\n  vars:\n    HF_TOKEN: [SEKRIT-1]\n", 5),
        std::pair("environment:\n  vars:\n    HF_TOKEN:\n      - SEKRIT-1\n", 6),
        std::pair("environment:\n  vars:\n    'HF_TOKEN=SEKRIT-1': x\n", 5),
        std::pair("notify:\n  webhook: https://hooks.slack.com/services/SEKRIT-1\n", 4),
        std::pair("notify:\n  webhook:\n    secret: https://h/SEKRIT-1\n", 5),
        std::pair("notify:\n  webhook:\n    urll: https://h/SEKRIT-1\n", 5),
        std::pair("notify:\n  on: [failed]\n  urll: https://h/SEKRIT-1\n", 5),
        std::pair("notify: {\n  urll: https://h/SEKRIT-1}\n", 4),
        std::pair("hooks: https://hooks.slack.com/services/SEKRIT-1\n", 3),
        std::pair("trak: {uri: 'https://me:SEKRIT-1@h'}\n", 3),
        std::pair("environment:\n  vars:\n    HF_TOKEN: *SEKRIT-1\n", 5),
        std::pair("environment:\n  vars:\n    HF_TOKEN: !SEKRIT-1 x\n", 5),
        std::pair("submit: {via: slurmrestd, url: 'https://u:SEKRIT-1@h'}\n", 3)}) {
    CAPTURE(text);
    const std::string message = refused(request_with(text));
    CHECK_FALSE(has(message, "SEKRIT"));
    CHECK(has(message, fmt::format("exp.yaml:{}:", line)));
    CHECK(has(message, fmt::format("{:>5} | (not shown)\n", line)));
  }
}

TEST_CASE("the argument of --set is hidden in an error if it holds a secret") {
  for (const auto& [argument, shown] :
       {std::pair("environment.vars.HF_TOKEN=[SEKRIT-1]", "--set environment.vars.HF_TOKEN=...: "),
        std::pair("environment.secrets=SEKRIT-1", "--set environment.secrets=...: "),
        std::pair("notify.webhook=https://h/SEKRIT-1", "--set notify.webhook=...: ")}) {
    CAPTURE(argument);
    const std::string message = refused(request_with("", {argument}));
    CHECK(has(message, shown));
    CHECK_FALSE(has(message, "SEKRIT"));
  }
}

TEST_CASE("a line without a secret is shown, even beside lines with secrets") {
  const std::string message = refused(request_with(
      "environment:\n  secrets:\n  - HF_TOKEN\n  modulez: [a]\nnotify:\n  on: [often]\n"
      "submit: {token_file: [a]}\n"));
  CHECK(has(message, "    6 |   modulez: [a]\n"));
  CHECK(has(message, "    8 |   on: [often]\n"));
  CHECK(has(message, "    9 | submit: {token_file: [a]}\n"));
}

TEST_CASE("lines with secrets are hidden, even after a quote that is never closed") {
  const SecretLines lines(
      "name: \"x\nenvironment:\n  secrets:\n    - SEKRIT\nname: [a\nvars:\n  HF_TOKEN:\n  SEKRIT");
  CHECK_FALSE(lines.contains(1));
  CHECK(lines.contains(4));
  CHECK(lines.contains(8));
}

TEST_CASE("is_secret_key() is true only for keys whose values may be secrets") {
  for (const char* key : {"environment.vars.HF_TOKEN", "environment.secrets[0]", "notify.webhook",
                          "notify.webhook.url", "environment.secrt", "WANDB_API_KEY"}) {
    CAPTURE(key);
    CHECK(is_secret_key(key));
  }
  for (const char* key : {"", "submit.token_file", "resources.nodes", "notify.on", "name",
                          "health.preflight", "train.data.path", "environment.vars.TOKENIZERS"}) {
    CAPTURE(key);
    CHECK_FALSE(is_secret_key(key));
  }
}

TEST_CASE("a token of a known service and the password in an address are masked in a message") {
  Diagnostic diagnostic;
  diagnostic.message = "secret hf_abcdefghijklmnopqrstuvwx is not set; write 'https://u:SEKRIT@h'";
  const std::string text = format_diagnostic(diagnostic);
  CHECK(has(text, "secret ... is not set"));
  CHECK_FALSE(has(text, "SEKRIT"));
}

TEST_CASE(
    "an address of slurmrestd that has a user name is refused, and the user name is not shown") {
  const auto message = refused(
      request_with("submit: {via: slurmrestd, url: 'https://SEKRIT-1@h', token_file: t}\n"));
  CHECK(has(message,
            "submit.url: the address has a user name; remove everything between :// and the host"));
  CHECK_FALSE(has(message, "SEKRIT"));
}

TEST_CASE("an address instead of the map notify.webhook causes one error") {
  const auto result =
      load_spec(request_with("notify:\n  on: [failed]\n  webhook: https://h/SEKRIT-1\n"));
  REQUIRE_FALSE(result.has_value());
  REQUIRE(std::count_if(result.error().begin(), result.error().end(), is_error) == 1);
  CHECK(result.error()[0].where.line == 5);
  CHECK(has(result.error()[0].message, "write `webhook: {secret: NAME}`"));
}

TEST_CASE("a variable with the name of a secret causes a warning, unless its value is no secret") {
  const auto warnings_of = [](const std::string& vars) {
    return format_diagnostics(
        loaded(request_with("environment:\n  vars: {" + vars + "}\n")).warnings);
  };
  const auto warned = warnings_of("WANDB_API_KEY: SEKRIT-1");
  CHECK(has(warned, "environment.vars.WANDB_API_KEY: its value is readable in the script"));
  CHECK(has(warned, "environment.secrets"));
  CHECK_FALSE(has(warned, "SEKRIT"));
  for (const char* vars :
       {"SSL_KEY: /etc/key.pem", "MAX_TOKEN: '5'", "TOKEN_FILE: a", "A: b", "API_KEY: ''"}) {
    CAPTURE(vars);
    CHECK_FALSE(has(warnings_of(vars), "its value is readable"));
  }
}

}  // namespace
}  // namespace dlrun
