#include <doctest/doctest.h>

#include "launcher/spec/typed_value.h"

namespace dlrun {
namespace {

std::string typed(const char* key, const char* yaml) {
  return typed_value(key, yaml).dump();
}

}  // namespace

TEST_CASE(
    "a swept value has its key's type (numbers, booleans, lists), and text stays text whatever it "
    "looks like") {
  CHECK(typed("train.lr", "0.01") == "0.01");
  CHECK(typed("train.batch", "128") == "128");
  CHECK(typed("container.writable", "true") == "true");
  CHECK(typed("train.model", "mlp") == "\"mlp\"");
  CHECK(typed("train.hidden", R"(["128", "64"])") == "[128,64]");
  CHECK(typed("train.layers", R"(["dense 10", relu])") == R"(["dense 10","relu"])");
  CHECK(typed("resources.nodes", "2") == "2");
  CHECK(typed("resources.nodes", "2-4") == "\"2-4\"");
  CHECK(typed("environment.vars.SEED", "007") == "\"007\"");
  CHECK(typed("environment.vars.WORDS", R"("a \"b\"")") == R"("a \"b\"")");
  CHECK(typed("resources.mem", "64") == "\"64\"");
}

TEST_CASE("the value of a sweep's program parameter has the type that its text has in YAML") {
  CHECK(typed("lr", "1e-3") == "0.001");
  CHECK(typed("depth", "4") == "4");
  CHECK(typed("is_wide", "true") == "true");
  CHECK(typed("model", "cnn") == "\"cnn\"");
  CHECK(typed("model", R"("4")") == "\"4\"");
}

}  // namespace dlrun
