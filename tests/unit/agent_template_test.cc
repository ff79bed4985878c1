// Tests the templates of the variables and arguments that a preset adds to a program.

#include <string>

#include <doctest/doctest.h>

#include "runtime/agent/template.h"

namespace dlrun::agent {
namespace {

const TemplateValues kTemplateValues{
    .world = {.rank = 5, .size = 8, .local_rank = 1, .local_size = 2, .node_rank = 2, .nnodes = 4},
    .addr = "10.0.0.3",
    .master_addr = "10.0.0.1",
    .master_port = 29501,
    .port = 4711,
    .run = "/runs/x",
    .attempt = 3,
    .job = "77_1",
    .nproc_per_node = 4,
    .roles = {.ps = 3},
    .addresses = {{"10.0.0.1", 4000}, {"fd00::2", 4001}}};

/// Returns "NAME|VALUE" for an argument NAME=TEMPLATE.
std::string expanded(std::string_view argument) {
  const auto parsed = EnvTemplate::parse(argument);
  REQUIRE(parsed);
  return parsed->name + "|" + parsed->value.expand(kTemplateValues);
}

TEST_CASE("the template fields for the world, the addresses, the run and the job are replaced") {
  CHECK(expanded("A={rank} {world_size} {local_rank} {local_world_size} {node_rank} {nnodes}") ==
        "A|5 8 1 2 2 4");
  CHECK(expanded("B={master_addr}:{master_port}@{addr}") == "B|10.0.0.1:29501@10.0.0.3");
  CHECK(expanded("M={master}") == "M|10.0.0.1:29501");
  CHECK(expanded("C={run}/{attempt}-{job}") == "C|/runs/x/3-77_1");
  CHECK(expanded("W={run_id}") == "W|x");
}

TEST_CASE("{run_id} of a sweep's point consists of the sweep, the array and the task") {
  auto values = kTemplateValues;
  values.run = "/runs/sweep-1/array-2/7";
  CHECK(Template::parse("{run_id}")->expand(values) == "sweep-1-2-7");
}

TEST_CASE("a template can have the rank's port, its role, and every rank's address") {
  CHECK(expanded("P={port} {nproc_per_node}") == "P|4711 4");
  CHECK(expanded("R={role}{role_index}") == "R|ps0");
  CHECK(expanded("T={addresses}") == "T|10.0.0.1:4000,[fd00::2]:4001");
}

TEST_CASE("text without fields stays unchanged, and doubled braces become single ones") {
  CHECK(expanded("_X9=") == "_X9|");
  CHECK(expanded("T=a=b $HOME `x`\n\\") == "T|a=b $HOME `x`\n\\");
  CHECK(expanded(R"(TF={{"index": {rank}}})") == R"(TF|{"index": 5})");
}

TEST_CASE("unknown fields, unpaired braces and invalid names are refused") {
  struct Case {
    const char* argument;
    const char* message_part;
  };
  for (const auto& wrong :
       {Case{"A={rnak}", "did you mean '{rank}'"}, Case{"A={}", "unknown field '{}'"},
        Case{"A={rank", "an unpaired brace"}, Case{"A=rank}", "an unpaired brace"},
        Case{"A", "not NAME=TEMPLATE"}, Case{"=x", "is not a valid name of a variable"},
        Case{"1A=x", "is not a valid name of a variable"},
        Case{"A B=x", "is not a valid name of a variable"}}) {
    CAPTURE(wrong.argument);
    const auto parsed = EnvTemplate::parse(wrong.argument);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().code == Errc::kUsage);
    CHECK(parsed.error().message.find(wrong.message_part) != std::string::npos);
  }
}

TEST_CASE(
    "a template reports whether it needs the rank's port, the table of addresses, or the roles") {
  struct Case {
    const char* text;
    bool needs_port, needs_addresses, needs_roles;
  };
  for (const auto& [text, needs_port, needs_addresses, needs_roles] :
       {Case{"{rank}:{master_port}", false, false, false},
        Case{"{addr}:{port}", true, false, false}, Case{"{addresses}", true, true, false},
        Case{"{role}-{role_index}", false, false, true}, Case{"{tf_config}", true, true, true}}) {
    CAPTURE(text);
    const auto parsed = Template::parse(text);
    REQUIRE(parsed);
    CHECK(parsed->needs_port() == needs_port);
    CHECK(parsed->needs_addresses() == needs_addresses);
    CHECK(parsed->needs_roles() == needs_roles);
  }
}

}  // namespace
}  // namespace dlrun::agent
