// Tests the program of sweep.ask: the messages between dlrun and the program, and its process.

#include <fcntl.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include <doctest/doctest.h>

#include "common/interrupt.h"
#include "launcher/spec/sweep_points.h"
#include "launcher/submit/search_program.h"
#include "tests/contains.h"
#include "tests/temporary_directory.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

SweepSpec searched_sweep() {
  SweepSpec sweep;
  sweep.parameters.push_back({"lr", {}, SweptRange{1e-4, 0.1, true, false}, {}});
  sweep.parameters.push_back({"depth", {}, SweptRange{2, 8, false, true}, {}});
  sweep.parameters.push_back({"model", {{"model", "cnn", {}}, {"model", "\"a b\"", {}}}, {}, {}});
  return sweep;
}

std::string refusal_of(std::string_view line) {
  const auto answer = parse_proposal(line, searched_sweep());
  return answer ? "accepted" : answer.error().message;
}

std::unique_ptr<SearchProgram> start_shell(const std::string& script, int answer_timeout_s = 60) {
  auto program = SearchProgram::start({"bash", "-c", script}, Env::of_process(), "/",
                                      std::chrono::seconds(answer_timeout_s));
  REQUIRE(program.has_value());
  return std::move(*program);
}

}  // namespace

TEST_CASE("a search program's answer is a point, a wait or the end") {
  const auto point =
      parse_proposal(R"({"point": {"model": "a b", "lr": 0.003, "depth": 4.0}})", searched_sweep());
  REQUIRE(point.has_value());
  CHECK(point->kind == Proposal::Kind::kPoint);
  CHECK(describe(point->point) == "lr=0.003 depth=4 model=\"a b\"");
  CHECK(parse_proposal(R"({"wait": true})", searched_sweep())->kind == Proposal::Kind::kWait);
  CHECK(parse_proposal(R"({"done": true})", searched_sweep())->kind == Proposal::Kind::kDone);
}

TEST_CASE("an invalid answer of a search program is refused with the reason") {
  CHECK(refusal_of("Trial 0 finished") == "it is not a JSON object");
  CHECK(has(refusal_of("{}"), "expected {\"point\": {...}}"));
  CHECK(has(refusal_of(R"({"wait": false})"), "expected {\"point\""));
  CHECK(has(refusal_of(R"({"point": 4})"), "\"point\" is not an object"));
  CHECK(has(refusal_of(R"({"point": {"lr": 0.01, "depth": 4}})"), "the point has no 'model'"));
  CHECK(has(refusal_of(R"({"point": {"lr": 0.01, "depth": 4, "model": "cnn", "x": 1}})"),
            "the sweep has no parameter 'x'"));
  CHECK(has(refusal_of(R"({"point": {"lr": 7, "depth": 4, "model": "cnn"}})"),
            "'lr': 7 is not between 0.0001 and 0.1"));
  CHECK(has(refusal_of(R"({"point": {"lr": 0.01, "depth": 4.5, "model": "cnn"}})"),
            "'depth': 4.5 is not a whole number"));
  CHECK(has(refusal_of(R"({"point": {"lr": "x", "depth": 4, "model": "cnn"}})"),
            "'lr': x is not a number"));
  CHECK(has(refusal_of(R"({"point": {"lr": 0.01, "depth": 4, "model": "rnn"}})"),
            "'model': rnn is not one of the sweep's values"));
  CHECK(has(refusal_of(R"({"point": {"lr": [1], "depth": 4, "model": "cnn"}})"),
            "'lr' is not a number, a text, true or false"));
}

TEST_CASE(
    "NaN, Infinity and too large numbers in a search program's answer are refused with the "
    "reason") {
  CHECK(has(refusal_of(R"({"point": {"lr": NaN, "depth": 4, "model": "cnn"}})"),
            "JSON has neither NaN nor Infinity"));
  CHECK(has(refusal_of(R"({"point": {"lr": 0.01, "depth": -Infinity, "model": "cnn"}})"),
            "JSON has neither NaN nor Infinity"));
  CHECK(has(refusal_of(R"({"point": {"model": "9e999", "lr": 1e400, "depth": 4}})"),
            "1e400 is too large for a number"));
  CHECK(has(refusal_of(R"({"point": {"lr": "NaN", "depth": 4, "model": "cnn"}})"),
            "'lr': NaN is not a number"));
}

TEST_CASE(
    "the job gets a listed value as the spec spells it, and a search program may send numbers as "
    "texts") {
  SweepSpec sweep = searched_sweep();
  sweep.parameters.push_back({"width", {{"width", "128", {}}, {"width", "256", {}}}, {}, {}});
  for (const char* width : {"128", "128.0", "1.28e2", "\"128\""}) {
    CAPTURE(width);
    const auto answer = parse_proposal(
        fmt::format(R"({{"point": {{"lr": "1e-2", "depth": "4.0", "model": "cnn", "width": {}}}}})",
                    width),
        sweep);
    REQUIRE(answer.has_value());
    CHECK(describe(answer->point) == "lr=1e-2 depth=4 model=cnn width=128");
  }
}

TEST_CASE("a search program inherits only its standard streams") {
  // Opened without O_CLOEXEC, like a lock that child processes shall keep.
  const UniqueFd inheritable(::open("/dev/null", O_RDWR));
  REQUIRE(inheritable.is_open());
  const auto program = start_shell(fmt::format(
      "read -r line; [[ -e /proc/$$/fd/{} ]] && echo open || echo closed", inheritable.get()));
  CHECK(*program->ask(Json{{"ask", 0}}) == "closed");
}

TEST_CASE("a signal ends the wait for the search program's answer") {
  const auto program = start_shell("read -r line; kill -INT $PPID; sleep 60");
  const auto answer = program->ask(Json{{"ask", 0}});
  REQUIRE_FALSE(answer.has_value());
  CHECK(answer.error().code == Errc::kInterrupted);
  CHECK(program->line_count() == 0);
}

TEST_CASE("a signal that an inner Interrupt sees is still seen by the outer Interrupt") {
  const Interrupt outer;
  REQUIRE(::raise(SIGTERM) == 0);
  {
    const Interrupt inner;
    CHECK(inner.signal() == SIGTERM);
  }
  CHECK(outer.requested());
}

TEST_CASE("messages to a search program have parameters and values with their types") {
  CHECK(start_message(searched_sweep()).dump() ==
        R"({"start":{"parameters":{"lr":{"min":0.0001,"max":0.1,"log":true},)"
        R"("depth":{"min":2,"max":8,"log":false},"model":["cnn","a b"]}}})");
  CHECK(values_json({{"lr", "1e-3", {}}, {"depth", "4", {}}, {"model", "cnn", {}}}).dump() ==
        R"({"lr":0.001,"depth":4,"model":"cnn"})");
}

TEST_CASE("a search program answers one line for each question") {
  const auto program = start_shell("while read -r line; do echo \"{\\\"heard\\\": $line}\"; done");
  CHECK(*program->ask(Json{{"ask", 0}}) == R"({"heard": {"ask":0}})");
  CHECK(*program->ask(Json{{"ask", 1}}) == R"({"heard": {"ask":1}})");
}

TEST_CASE(
    "a search program runs in the spec's folder, and its path may be relative to this folder") {
  const TemporaryDirectory folder;
  const auto script = folder.path() / "search";
  std::ofstream(script) << "#!/bin/sh\nread -r line\necho \"$PWD\"\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  const auto program = SearchProgram::start({"./search"}, Env::of_process(), folder.path().string(),
                                            std::chrono::seconds(60));
  REQUIRE(program.has_value());
  CHECK(*(*program)->ask(Json{{"ask", 0}}) == folder.path().string());
}

TEST_CASE(
    "a search program that does not exist, is silent, has ended or writes too long a line is an "
    "error") {
  const auto silent = start_shell("sleep 60", 1);
  const auto no_answer = silent->ask(Json{{"ask", 0}});
  REQUIRE_FALSE(no_answer.has_value());
  CHECK(no_answer.error().code == Errc::kTimeout);
  CHECK(has(no_answer.error().message, "bash has not answered for 1 s (sweep.ask_timeout)"));

  const auto ended_without_newline = start_shell("printf '{\"wait\": true}'");
  CHECK(
      has(ended_without_newline->ask(Json{{"ask", 0}}).error().message,
          "bash ended with code 0 before the search was over; its messages, if any, are above. Its "
          "last output has no newline at its end, and is therefore no answer: '{\"wait\": true}'"));

  const auto ended_unasked = start_shell("printf done");
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // so that it ends before ask()
  CHECK(has(ended_unasked->ask(Json{{"ask", 0}}).error().message, "no answer: 'done'"));
  const auto ended_with_newline = start_shell("echo done");
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  CHECK_FALSE(has(ended_with_newline->ask(Json{{"ask", 0}}).error().message, "no answer"));

  const auto gone = start_shell("exit 7");
  const auto answer_of_gone = gone->ask(Json{{"ask", 0}});
  REQUIRE_FALSE(answer_of_gone.has_value());
  CHECK(has(answer_of_gone.error().message, "bash ended with code 7 before the search was over"));

  const auto killed = start_shell("kill -KILL $$");
  CHECK(has(killed->ask(Json{{"ask", 0}}).error().message, "bash was ended by SIGKILL"));

  const auto flood = start_shell("while :; do printf '%100000s' x; done");
  CHECK(has(flood->ask(Json{{"ask", 0}}).error().message, "a line of more than"));
  CHECK_FALSE(SearchProgram::start({"no-such-program-here"}, Env::of_process(), "/",
                                   std::chrono::seconds(1))
                  .has_value());
}

}  // namespace dlrun
