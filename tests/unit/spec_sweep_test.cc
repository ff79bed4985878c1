// Tests `sweep` in a spec. A sweep varies keys of the spec, and parameters of the user's program
// ("program parameters"). The value of a program parameter replaces {NAME} in the command.

#include <set>

#include "launcher/spec/sweep_points.h"
#include "load_checks.h"
#include "tests/contains.h"

namespace dlrun {
namespace {

LoadRequest sweep_request(std::string_view text, std::vector<std::string> set_arguments = {}) {
  LoadRequest request;
  request.file = "exp.yaml";
  request.text = std::string(text);
  request.current_dir = "/exp";
  request.set_arguments = std::move(set_arguments);
  request.env.set("BIG", "256");
  return request;
}

std::vector<std::string> point_texts(std::string_view text,
                                     std::vector<std::string> set_arguments = {}) {
  std::vector<std::string> descriptions;
  for (const SweepPoint& point :
       sweep_points(loaded(sweep_request(text, std::move(set_arguments))).spec.sweep))
    descriptions.push_back(describe(point));
  return descriptions;
}

std::string errors_of(std::string_view text, std::vector<std::string> set_arguments = {}) {
  return refused(sweep_request(text, std::move(set_arguments)));
}

TEST_CASE("a grid has every combination of values, and the last key changes fastest") {
  CHECK(point_texts(
            "sweep:\n  parameters:\n    train.lr: [0.1, 0.01]\n    train.batch: [32, 64, 128]\n") ==
        std::vector<std::string>{"train.lr=0.1 train.batch=32", "train.lr=0.1 train.batch=64",
                                 "train.lr=0.1 train.batch=128", "train.lr=0.01 train.batch=32",
                                 "train.lr=0.01 train.batch=64", "train.lr=0.01 train.batch=128"});
}

TEST_CASE("listed points are used in their order, and may set different keys") {
  CHECK(
      point_texts(
          "sweep:\n  points:\n    - {train.lr: 0.1}\n    - {train.batch: 8, train.model: cnn}\n") ==
      std::vector<std::string>{"train.lr=0.1", "train.batch=8 train.model=cnn"});
}

TEST_CASE(
    "swept values may be lists, paths, variables and map entries, and are resolved like other "
    "values of a spec") {
  CHECK(point_texts("sweep: {parameters: {train.hidden: [[64], [128, 64]]}}") ==
        std::vector<std::string>{R"(train.hidden=["64"])", R"(train.hidden=["128", "64"])"});
  CHECK(
      point_texts("sweep: {parameters: {train.data.path: [a, ../b], train.batch: [\"${BIG}\"]}}") ==
      std::vector<std::string>{"train.data.path=/exp/a train.batch=256",
                               "train.data.path=/b train.batch=256"});
  CHECK(
      point_texts("sweep: {parameters: {environment.vars.X: [\"a b\", \"$${HOME}\"]}}") ==
      std::vector<std::string>{R"(environment.vars.X="a b")", R"(environment.vars.X="$${HOME}")"});
}

TEST_CASE(
    "a range without sweep.random causes one error, and no error about the number of points") {
  const std::string errors = errors_of("sweep: {parameters: {train.lr: {min: 0.001, max: 0.1}}}");
  CHECK(has(errors, "'train.lr' has a range; set sweep.random to the number of points"));
  CHECK_FALSE(has(errors, "points, and a sweep has at most"));
}

TEST_CASE("a random sweep is reproducible with its seed, and all its points differ") {
  const std::string grid =
      "sweep: {parameters: {train.lr: [1, 2, 3, 4, 5], train.batch: [1, 2, 3, 4, 5]}, random: 12, "
      "seed: ";
  const auto seed_7 = point_texts(grid + "7}"), seed_7_again = point_texts(grid + "7}"),
             seed_8 = point_texts(grid + "8}");
  CHECK(seed_7 == seed_7_again);
  CHECK(seed_7 != seed_8);
  CHECK(std::set(seed_7.begin(), seed_7.end()).size() == 12);
  // These values are fixed: every machine and every version must produce them.
  CHECK(
      point_texts("sweep: {parameters: {train.lr: {min: 1e-4, max: 1e-1, log: true}, train.batch: "
                  "{min: 8, max: 64}}, "
                  "random: 3, seed: 1}") ==
      std::vector<std::string>{"train.lr=0.000252133 train.batch=11",
                               "train.lr=0.00225759 train.batch=20",
                               "train.lr=0.001129 train.batch=62"});
}

TEST_CASE("a random sweep with as many points as combinations contains all combinations") {
  const auto all =
      point_texts("sweep: {parameters: {train.lr: [1, 2], train.batch: [1, 2, 3]}, random: 6}");
  CHECK(std::set(all.begin(), all.end()).size() == 6);
}

TEST_CASE("random numbers are within their range, and whole numbers if the key needs them") {
  for (const SweepPoint& point : sweep_points(
           loaded(sweep_request("sweep: {parameters: {train.lr: {min: 0.001, max: 0.1, log: "
                                "true}, train.batch: {min: "
                                "3, max: 900}}, random: 500}"))
               .spec.sweep)) {
    const double lr = std::stod(point[0].text);
    CHECK(lr >= 0.001);
    CHECK(lr <= 0.1);
    CHECK(point[1].text.find('.') == std::string::npos);
    CHECK(std::stol(point[1].text) >= 3);
    CHECK(std::stol(point[1].text) <= 900);
  }
}

TEST_CASE("all errors in swept values are reported together, each with its line and column") {
  const std::string text = errors_of(
      "sweep:\n  parameters:\n    train.lr: [0.1, fast]\n    train.lrr: [1]\n    train.batch: []\n "
      "   train.epochs: "
      "[0]\n"
      "    train.model: cnn\n    train.seed: [1, 2, 1]\n    environment.vars: [{A: 1}]\n    "
      "train.threads: [null]\n");
  CHECK(has(text, "exp.yaml:3:21: error: train.lr: expected a number, not 'fast'"));
  CHECK(has(text,
            "exp.yaml:4:5: error: sweep.parameters: there is no key 'train.lrr'; did you mean "
            "'train.lr'?"));
  CHECK(has(text, "exp.yaml:5:18: error: sweep.parameters: the list of 'train.batch' is empty"));
  CHECK(has(text, "exp.yaml:6:20: error: train.epochs: 0 is not between 1 and"));
  CHECK(has(text,
            "exp.yaml:7:18: error: sweep.parameters: 'train.model' is a single value, not a list"));
  CHECK(has(text,
            "exp.yaml:8:24: error: sweep.parameters: 1 is tried twice for 'train.seed'; the first "
            "is at line 8"));
  CHECK(has(text,
            "exp.yaml:9:5: error: sweep.parameters: 'environment.vars' is a map: sweep over one "
            "entry of it"));
  CHECK(has(text, "exp.yaml:10:21: error: sweep.parameters: 'train.threads' has no value here"));
}

TEST_CASE("keys that belong to the sweep as a whole cannot be swept") {
  const std::string text = errors_of(
      "sweep:\n  parameters:\n    name: [a, b]\n    site: [x]\n    sweep.random: [1]\n    "
      "after.ok: [[\"1\"]]\n"
      "    resources.clusters: [x]\n    track.tensorboard: [true]\n    train.lr: [1]\n    "
      "train.lr: [2]\n");
  CHECK(has(text, "exp.yaml:3:5: error: sweep.parameters: 'name' cannot be swept"));
  CHECK(has(text, "exp.yaml:4:5: error: sweep.parameters: 'site' cannot be swept"));
  CHECK(has(text, "exp.yaml:5:5: error: sweep.parameters: a sweep cannot sweep over itself"));
  CHECK(has(text, "exp.yaml:6:5: error: sweep.parameters: 'after.ok' cannot be swept"));
  CHECK(has(text, "exp.yaml:7:5: error: sweep.parameters: 'resources.clusters' cannot be swept"));
  CHECK(has(text, "exp.yaml:8:5: error: sweep.parameters: 'track.tensorboard' cannot be swept"));
  CHECK(has(
      text,
      "exp.yaml:10:5: error: 'sweep.parameters.train.lr' is given twice; the first is at line 9"));
}

TEST_CASE("ranges and numbers of points are checked") {
  const std::string ranges = errors_of(
      "sweep:\n  random: 5\n  parameters:\n    train.lr: {min: 1, max: 0.1}\n    train.model: "
      "{min: 1, max: 2}\n"
      "    train.beta1: {min: 0, max: 0.5, log: true}\n    train.batch: {min: 0, max: 8}\n    "
      "train.seed: {min: 0, to: "
      "8}\n");
  CHECK(has(ranges,
            "exp.yaml:4:15: error: sweep.parameters: min of 'train.lr' is not below its max"));
  CHECK(has(
      ranges,
      "exp.yaml:5:18: error: sweep.parameters: 'train.model' is not a number, so it has no range"));
  CHECK(has(ranges, "exp.yaml:6:5: error: sweep.parameters: there is no key 'train.beta1'"));
  CHECK(has(ranges, "exp.yaml:7:24: error: train.batch: 0 is not between 1 and"));
  CHECK(has(ranges,
            "exp.yaml:8:26: error: sweep.parameters: a range has min, max and log, not 'to'"));
  CHECK(has(errors_of("sweep: {parameters: {train.lr: {min: 0.1, max: 1}}}"),
            "exp.yaml:1:22: error: sweep.parameters: 'train.lr' has a range; set sweep.random"));
  CHECK(
      has(errors_of("sweep: {parameters: {train.lr: [1, 2]}, random: 3}"),
          "exp.yaml:1:49: error: sweep.random is 3, but sweep.parameters has only 2 combinations"));
  CHECK(has(errors_of("sweep: {random: 3}"),
            "exp.yaml:1:17: error: sweep.random: sweep.parameters is missing"));
  CHECK(has(errors_of("sweep: {pack: 2}"), "or list the points in sweep.points"));
  CHECK(has(errors_of("sweep: {points: [{train.lr: 1}], parameters: {train.lr: [1]}}"),
            "exclude each other"));
  CHECK(has(
      errors_of("sweep: {points: [{train.lr: 1}, {train.lr: 1}]}"),
      "exp.yaml:1:33: error: sweep.points: this point is listed twice; the first is at line 1"));
  CHECK(has(errors_of("sweep: {points: []}"), "expected a list of points"));
  CHECK(has(errors_of("sweep: 4"), "sweep is a map of keys, not a single value"));
  std::string many = "sweep: {parameters: {train.seed: [0";
  for (int i = 1; i < 200; ++i) many += fmt::format(", {}", i);
  CHECK(has(errors_of(many + "], train.batch: [1" + many.substr(many.find(", 2")) + "]}}"),
            "points, and a sweep has at most 10000"));
}

const std::string kLaunchWithLr = "launch: {command: [a, \"{lr}\"]}\n";

TEST_CASE(
    "a sweep's program parameters have lists and ranges, and a range of whole numbers gives whole "
    "numbers") {
  CHECK(point_texts(kLaunchWithLr +
                    "sweep: {parameters: {lr: [0.1, 2e-3, \"x y\", true, -1, \"${BIG}\"]}}") ==
        std::vector<std::string>{"lr=0.1", "lr=2e-3", "lr=\"x y\"", "lr=true", "lr=-1", "lr=256"});
  for (const auto& point :
       point_texts(kLaunchWithLr + "sweep: {random: 40, parameters: {lr: {min: 2, max: 99}}}"))
    CHECK_FALSE(has(point, "."));
}

TEST_CASE("a range from 0.0 to 1.0 is still a range of fractions in the resolved spec") {
  const LoadedSpec spec = loaded(
      sweep_request(kLaunchWithLr + "sweep: {random: 2, parameters: {lr: {min: 0.0, max: 1.0}}}"));
  CHECK(has(resolved_yaml(spec), "{min: 0.0, max: 1.0, log: false}"));
  CHECK(sweep_points(loaded(sweep_request(resolved_yaml(spec))).spec.sweep).size() == 2);
}

TEST_CASE("misspelt, missing and unused parameters of a sweep are refused with their lines") {
  const std::string text = errors_of(
      "launch:\n  command: [a, \"{lr}\", \"{dpth}\", \"{other}\", \"{lr\", \"}\"]\n"
      "environment:\n  vars:\n    A: \"{wd}\"\n"
      "sweep:\n  parameters:\n    lr: [1, 2]\n    depth: [1, 2]\n    nodes: [1, 2]\n");
  CHECK(
      has(text,
          "exp.yaml:2:12: error: launch.command: '{dpth}' is not a parameter of the sweep; did you "
          "mean {depth}?"));
  CHECK(
      has(text,
          "exp.yaml:2:12: error: launch.command: '{other}' is not a parameter of the sweep; known: "
          "{lr} {depth} {nodes}"));
  CHECK(has(text, "launch.command: an unpaired brace in '{lr'"));
  CHECK(has(text, "launch.command: an unpaired brace in '}'"));
  CHECK(
      has(text, "exp.yaml:5:8: error: environment.vars.A: '{wd}' is not a parameter of the sweep"));
  CHECK(has(text,
            "exp.yaml:9:5: error: the sweep's parameter 'depth' is used nowhere; write "
            "{depth} in launch.command or environment.vars"));
  CHECK(has(text,
            "exp.yaml:10:5: error: the sweep's parameter 'nodes' is used nowhere; write "
            "{nodes} in launch.command or environment.vars, or did you mean the key "
            "'resources.nodes'?"));
}

TEST_CASE("sweep.ask excludes random and seed, and needs parameters") {
  const std::string parameters = "parameters: {lr: {min: 1, max: 2}}";
  CHECK(point_texts(kLaunchWithLr + "sweep: {" + parameters +
                    ", ask: [python, s.py], max_points: 9}") == std::vector<std::string>{"lr=1"});
  const std::string text = errors_of(kLaunchWithLr + "sweep: {" + parameters +
                                     ", ask: [python, s.py], random: 3, seed: 1}");
  CHECK(has(text, "sweep.ask and sweep.random exclude each other"));
  CHECK(has(text, "sweep.ask and sweep.seed exclude each other"));
  CHECK(has(
      errors_of(kLaunchWithLr + "sweep: {parameters: {lr: [1]}, ask_timeout: 5s, max_points: 2}"),
      "sweep.max_points: sweep.ask is missing; set it to the program that chooses the points"));
  CHECK(has(errors_of("launch: {command: [a]}\nsweep: {ask: [python, s.py]}"),
            "sweep.ask: sweep.parameters is missing"));
}

TEST_CASE(
    "the error for a sweep over an unused lr suggests train.lr for the trainer, and {lr} for other "
    "programs") {
  CHECK(
      has(errors_of("sweep: {parameters: {lr: [1, 2]}}"),
          "exp.yaml:1:22: error: the sweep's parameter 'lr' is used nowhere; did you mean the key "
          "'train.lr'?"));
  const std::string errors_of_lr =
      errors_of("launch: {command: [a]}\nsweep: {parameters: {lr: [1, 2]}}");
  CHECK(has(errors_of_lr,
            "exp.yaml:2:22: error: the sweep's parameter 'lr' is used nowhere; write {lr}"));
  CHECK_FALSE(has(errors_of_lr, "train.lr"));
  const std::string errors_of_train_lr =
      errors_of("launch: {command: [a]}\nsweep: {parameters: {train.lr: [1, 2]}}");
  CHECK(has(errors_of_train_lr,
            "exp.yaml:2:22: error: the sweep's key 'train.lr' is for the preset 'trainer', but the "
            "preset is 'plain'"));
  CHECK(has(errors_of_train_lr, "sweep over 'lr' and write {lr} in launch.command"));
}

TEST_CASE("wrong values and ranges of a sweep's program parameters are refused with their lines") {
  const std::string text =
      errors_of(kLaunchWithLr +
                "sweep:\n  parameters:\n    lr: [[1], null, {a: 1}]\n    b: {min: x, max: 2}\n    "
                "train: [1]\n"
                "    my-name: [1]\n    c: {min: 0, max: 1, log: true}\n    d: 4\n    e: [1, 1]\n");
  CHECK(has(text, "exp.yaml:4:10: error: sweep.parameters: 'lr': expected one value, not a list"));
  CHECK(has(text, "exp.yaml:4:15: error: sweep.parameters: 'lr' has no value here"));
  CHECK(has(text, "exp.yaml:4:21: error: sweep.parameters: 'lr': expected one value, not a map"));
  CHECK(has(text, "exp.yaml:5:14: error: sweep.parameters: min of 'b' is not a number"));
  CHECK(has(text, "exp.yaml:6:5: error: sweep.parameters: 'train' is a section of the spec"));
  CHECK(has(text, "exp.yaml:7:5: error: sweep.parameters: there is no key 'my-name'"));
  CHECK(has(text, "exp.yaml:8:8: error: sweep.parameters: log of 'c' needs a min above 0"));
  CHECK(has(text, "exp.yaml:9:8: error: sweep.parameters: 'd' is a single value"));
  CHECK(has(text, "exp.yaml:10:12: error: sweep.parameters: 1 is tried twice for 'e'"));
}

TEST_CASE("the resolved spec of a sweep keeps {lr} in launch.command, not its first value") {
  const LoadedSpec original = loaded(sweep_request(
      "launch: {command: [a, \"{lr}\", \"{{\"]}\nsweep: {parameters: {lr: [1, -2]}}"));
  CHECK(original.spec.launch.command == std::vector<std::string>{"a", "1", "{"});
  const std::string text = resolved_yaml(original);
  CHECK(has(text, R"(command: ["a", "{lr}", "{{"])"));
  const auto again = resolved_yaml(loaded(sweep_request(text)));
  CHECK(has(again, R"(command: ["a", "{lr}", "{{"])"));
}

TEST_CASE("--set can add a sweep, and replace one") {
  CHECK(point_texts("sweep: {parameters: {train.lr: [1]}}",
                    {"sweep.parameters={train.batch: [1, 2]}"}) ==
        std::vector<std::string>{"train.batch=1", "train.batch=2"});
  CHECK(has(errors_of("", {"sweep.parameters={train.batch: [x]}"}),
            "train.batch: expected a whole number, not 'x'"));
}

TEST_CASE("a sweep's value takes precedence over --set, and a resolved sweep has the same points") {
  const std::string text =
      "sweep: {parameters: {train.lr: [0.5, 0.25], train.data.path: [d]}, max_parallel: 3}";
  const LoadedSpec first = loaded(sweep_request(text, {"train.lr=9"}));
  CHECK(first.spec.train.lr == 0.5);
  LoadRequest again = sweep_request(resolved_yaml(first));
  again.current_dir = "/elsewhere";
  const LoadedSpec second = loaded(again);
  REQUIRE(sweep_points(first.spec.sweep).size() == 2);
  CHECK(describe(sweep_points(second.spec.sweep)[1]) ==
        describe(sweep_points(first.spec.sweep)[1]));
  CHECK(second.spec.sweep.max_parallel == 3);
  CHECK(second.spec.train.data_path == "/exp/d");
}

TEST_CASE(
    "--set cannot set a part of sweep.parameters or of a single value, and the error says what to "
    "set instead") {
  CHECK(has(errors_of("", {"sweep.parameters.lr=[0.1]"}),
            "sweep.parameters is set as a whole: --set 'sweep.parameters={KEY: [VALUE, ...], "
            "...}'"));
  CHECK(has(errors_of("", {"resources.time.x=1"}),
            "resources.time has no keys below it that --set can set"));
}

}  // namespace
}  // namespace dlrun

TEST_CASE("the error for an unknown key of sweep says where parameters belong") {
  CHECK(has(refused(spec_request("resources: {time: 1m}\nlaunch: {command: [x, \"{lr}\"]}\n"
                                 "sweep: {lr: [0.1, 0.2]}\n")),
            "unknown key 'lr' in sweep; if it is a parameter to vary, write it below "
            "sweep.parameters"));
}
