#include <doctest/doctest.h>

#include "launcher/spec/sweep_points.h"
#include "launcher/submit/search_program.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

SweepSpec sweep() {
  SweepSpec sweep;
  sweep.parameters.push_back({"lr", {}, SweptRange{1e-4, 0.1, true, false}, {}});
  sweep.parameters.push_back({"depth", {}, SweptRange{2, 8, false, true}, {}});
  sweep.parameters.push_back({"model", {{"model", "cnn", {}}, {"model", "\"a b\"", {}}}, {}, {}});
  return sweep;
}

std::string why_refused(std::string_view line) {
  const auto answer = read_proposal(line, sweep());
  return answer ? "accepted" : answer.error().message;
}

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::unique_ptr<SearchProgram> started(const std::string& script, int seconds = 60) {
  auto program = SearchProgram::start({"bash", "-c", script}, Env::of_process(), "/",
                                      std::chrono::seconds(seconds));
  REQUIRE(program.has_value());
  return std::move(*program);
}

}  // namespace

TEST_CASE("an answer is a point, a wait or the end") {
  const auto point =
      read_proposal(R"({"point": {"model": "a b", "lr": 0.003, "depth": 4.0}})", sweep());
  REQUIRE(point.has_value());
  CHECK(point->kind == Proposal::Kind::kPoint);
  CHECK(describe(point->point) == "lr=0.003 depth=4 model=\"a b\"");
  CHECK(read_proposal(R"({"wait": true})", sweep())->kind == Proposal::Kind::kWait);
  CHECK(read_proposal(R"({"done": true})", sweep())->kind == Proposal::Kind::kDone);
}

TEST_CASE("an answer that is nonsense says why") {
  CHECK(why_refused("Trial 0 finished") == "it is not a JSON object");
  CHECK(has(why_refused("{}"), "expected {\"point\": {...}}"));
  CHECK(has(why_refused(R"({"wait": false})"), "expected {\"point\""));
  CHECK(has(why_refused(R"({"point": 4})"), "\"point\" is not an object"));
  CHECK(has(why_refused(R"({"point": {"lr": 0.01, "depth": 4}})"), "the point has no 'model'"));
  CHECK(has(why_refused(R"({"point": {"lr": 0.01, "depth": 4, "model": "cnn", "x": 1}})"),
            "the sweep has no parameter 'x'"));
  CHECK(has(why_refused(R"({"point": {"lr": 7, "depth": 4, "model": "cnn"}})"),
            "'lr': 7 is not between 0.0001 and 0.1"));
  CHECK(has(why_refused(R"({"point": {"lr": 0.01, "depth": 4.5, "model": "cnn"}})"),
            "'depth': 4.5 is not a whole number"));
  CHECK(has(why_refused(R"({"point": {"lr": "x", "depth": 4, "model": "cnn"}})"),
            "'lr': x is not a number"));
  CHECK(has(why_refused(R"({"point": {"lr": 0.01, "depth": 4, "model": "rnn"}})"),
            "'model': rnn is not one of the sweep's values"));
  CHECK(has(why_refused(R"({"point": {"lr": [1], "depth": 4, "model": "cnn"}})"),
            "'lr' is neither a number nor a text"));
}

TEST_CASE("the program learns the parameters and the values of points with their types") {
  CHECK(start_message(sweep()).dump() ==
        R"({"start":{"parameters":{"lr":{"min":0.0001,"max":0.1,"log":true},)"
        R"("depth":{"min":2,"max":8,"log":false},"model":["cnn","a b"]}}})");
  CHECK(values_json({{"lr", "1e-3", {}}, {"depth", "4", {}}, {"model", "cnn", {}}}).dump() ==
        R"({"lr":0.001,"depth":4,"model":"cnn"})");
}

TEST_CASE("a search program is asked over its lines") {
  const auto program = started("while read -r line; do echo \"{\\\"heard\\\": $line}\"; done");
  CHECK(*program->ask(Json{{"ask", 0}}) == R"({"heard": {"ask":0}})");
  CHECK(*program->ask(Json{{"ask", 1}}) == R"({"heard": {"ask":1}})");
}

TEST_CASE("a search program that does not answer, or has ended, is an error that says so") {
  const auto silent = started("sleep 60", 1);
  const auto none = silent->ask(Json{{"ask", 0}});
  REQUIRE_FALSE(none.has_value());
  CHECK(none.error().code == Errc::kTimeout);
  CHECK(has(none.error().message, "bash has not answered for 1 s (sweep.ask_timeout)"));

  const auto gone = started("exit 7");
  const auto ended = gone->ask(Json{{"ask", 0}});
  REQUIRE_FALSE(ended.has_value());
  CHECK(has(ended.error().message, "bash ended with code 7 before the search was over"));

  const auto killed = started("kill -KILL $$");
  CHECK(has(killed->ask(Json{{"ask", 0}}).error().message, "bash was ended by SIGKILL"));

  const auto flood = started("while :; do printf '%100000s' x; done");
  CHECK(has(flood->ask(Json{{"ask", 0}}).error().message, "a line of more than"));
  CHECK_FALSE(SearchProgram::start({"no-such-program-here"}, Env::of_process(), "/",
                                   std::chrono::seconds(1))
                  .has_value());
}

}  // namespace dlrun
