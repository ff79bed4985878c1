// Tests the roles of ranks in TensorFlow's clusters (TF_CONFIG).

#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "runtime/agent/program_env.h"
#include "runtime/agent/roles.h"

namespace dlrun::agent {
namespace {

using Json = nlohmann::ordered_json;

std::vector<Endpoint> table_of(int size) {
  std::vector<Endpoint> table;
  for (int rank = 0; rank < size; ++rank) {
    table.push_back(
        {"10.0.0." + std::to_string(rank + 1), static_cast<std::uint16_t>(4000 + rank)});
  }
  return table;
}

TEST_CASE("without roles every rank is a worker, as MultiWorkerMirroredStrategy expects") {
  CHECK(tf_config({}, table_of(2), 1) ==
        R"({"cluster":{"worker":["10.0.0.1:4000","10.0.0.2:4001"]},)"
        R"("task":{"type":"worker","index":1}})");
}

TEST_CASE(
    "ranks become chief, workers, parameter servers, evaluator in this order, and `cluster` omits "
    "the evaluator") {
  const auto roles = Roles::parse("evaluator=1,chief=1,ps=2");
  REQUIRE(roles);
  const auto table = table_of(7);
  std::set<std::string> tasks;
  for (int rank = 0; rank < 7; ++rank) {
    const auto config = Json::parse(tf_config(*roles, table, rank));
    CHECK(config["cluster"] == Json{{"chief", {"10.0.0.1:4000"}},
                                    {"worker", {"10.0.0.2:4001", "10.0.0.3:4002", "10.0.0.4:4003"}},
                                    {"ps", {"10.0.0.5:4004", "10.0.0.6:4005"}}});
    const auto& task = config["task"];
    CHECK(tasks.insert(task.dump()).second);
    if (task["type"] != "evaluator") {
      CHECK(config["cluster"][task["type"].get<std::string>()][task["index"].get<std::size_t>()] ==
            table[static_cast<std::size_t>(rank)].text());
    }
  }
  CHECK(tasks.contains(R"({"type":"evaluator","index":0})"));
}

TEST_CASE("IPv6 literals are in brackets in TF_CONFIG") {
  CHECK(tf_config({}, {{"fd00::1", 9}}, 0).find(R"("[fd00::1]:9")") != std::string::npos);
}

TEST_CASE(
    "unknown roles, wrong counts, and roles that leave neither a chief nor a worker are refused") {
  for (const auto* wrong :
       {"worker=2", "ps", "ps=-1", "chief=2", "evaluator=2", "", "ps=1,", "ps=x"}) {
    CAPTURE(wrong);
    const auto roles = Roles::parse(wrong);
    REQUIRE_FALSE(roles);
    CHECK(roles.error().message.find("the other ranks are workers") != std::string::npos);
  }
  CHECK(Roles{.chief = 1}.check(1));
  CHECK(Roles{.ps = 1}.check(2));
  CHECK_FALSE(Roles{.ps = 2}.check(2));
  CHECK(Roles{.chief = 1, .ps = 1}.check(1).error().message ==
        "--roles chief=1,ps=1,evaluator=0 needs at least 2 ranks, not 1");
}

TEST_CASE("roles are checked against the world size only if a template uses them") {
  RankOptions options;
  options.roles = {.ps = 3};
  CHECK(check_roles(options, 2));
  options.templates.push_back(*EnvTemplate::parse("DMLC_ROLE={role}"));
  CHECK_FALSE(check_roles(options, 2));
  CHECK(check_roles(options, 4));
}

}  // namespace
}  // namespace dlrun::agent
