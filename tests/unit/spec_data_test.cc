// Tests download, stage and outputs in a spec.

#include <doctest/doctest.h>

#include "launcher/plan/plan.h"
#include "launcher/spec/load.h"
#include "tests/contains.h"

namespace dlrun {
namespace {

LoadRequest data_request(const std::string& more) {
  LoadRequest request;
  request.file = "exp.yaml";
  request.text = "resources: {time: 1m}\nlaunch: {command: [./train]}\n" + more;
  request.current_dir = "/exp";
  return request;
}

std::string data_refused(const std::string& more) {
  const auto result = load_spec(data_request(more));
  REQUIRE_FALSE(result.has_value());
  return format_diagnostics(result.error());
}

LoadedSpec data_loaded(const std::string& more) {
  auto result = load_spec(data_request(more));
  if (!result) FAIL(format_diagnostics(result.error()));
  return std::move(*result);
}

const std::string kFiles = "[{url: \"https://h.org/a.bin\", sha256: " + std::string(64, 'a') + "}]";

TEST_CASE(
    "a relative source of stage becomes absolute, and a path on the node keeps its variable") {
  const auto spec = data_loaded(
      "stage: [{from: ./a.tar.gz, to: $TMPDIR/a/, unpack: true}, {from: /d, to: $LOCAL/d}]\n"
      "outputs: [{from: $TMPDIR/ckpt, to: out/, every: 10m}]\n");
  REQUIRE(spec.spec.stage.size() == 2);
  CHECK(spec.spec.stage[0].from == "/exp/a.tar.gz");
  CHECK(spec.spec.stage[0].to == "$TMPDIR/a");
  CHECK(spec.spec.stage[0].unpack);
  CHECK_FALSE(spec.spec.stage[1].unpack);
  REQUIRE(spec.spec.outputs.size() == 1);
  CHECK(spec.spec.outputs[0].to == "out");
  CHECK(spec.spec.outputs[0].every_s == 600);

  // The resolved spec in the run's directory has the same values.
  LoadRequest again;
  again.file = "resolved.yaml";
  again.current_dir = "/elsewhere";
  again.text = resolved_yaml(spec);
  const auto resolved = load_spec(again);
  REQUIRE(resolved.has_value());
  REQUIRE(resolved->spec.stage.size() == 2);
  CHECK(resolved->spec.stage[0].from == "/exp/a.tar.gz");
  CHECK(resolved->spec.stage[0].to == "$TMPDIR/a");
  CHECK(resolved->spec.stage[0].unpack);
  REQUIRE(resolved->spec.outputs.size() == 1);
  CHECK(resolved->spec.outputs[0].every_s == 600);
}

TEST_CASE(
    "a destination of stage that is not on the node's own disk is refused, and the error shows the "
    "line") {
  const auto errors_for_destination = [](const std::string& to) {
    return data_refused("stage:\n  - {from: ./a, to: " + to + "}\n");
  };
  CHECK(has(errors_for_destination("/tmp/a"),
            "exp.yaml:4:5: error: stage: to is '/tmp/a', but it must be on "
            "the node's own disk"));
  CHECK(has(errors_for_destination("data"), "begin it with a variable of the node"));
  for (const char* to : {"$TMPDIR", "$TMPDIR/", "$TMPDIR/../a", "$TMPDIR//a"})
    CHECK(has(errors_for_destination(to), "it must be a path below the variable's folder"));
  CHECK(has(errors_for_destination("$1/a"), "begin it with a variable of the node"));
  CHECK(has(errors_for_destination("$TMPDIR/a-$SLURM_JOB_ID"),
            "only one variable, at the start, is replaced"));
}

TEST_CASE("a word of the command with a variable that no shell expands causes a warning") {
  const auto warnings = [](const std::string& command) {
    auto request = data_request("stage: [{from: a, to: $TMPDIR/x}]\n");
    request.set_arguments = {"launch.command=" + command};
    const auto loaded = load_spec(request);
    REQUIRE(loaded.has_value());
    return format_diagnostics(loaded->warnings);
  };
  CHECK(has(warnings("[python3, t.py, $TMPDIR/x]"),
            "the program gets word 3 as it is, with its '$'"));
  CHECK(has(warnings("[python3, t.py, '$${TMPDIR}/x']"),
            "the program gets word 3 as it is, with its '$'"));
  CHECK(warnings("[bash, -lc, 'exec t $TMPDIR/x']").empty());
  CHECK(warnings("[bash, -c, 'exec t $TMPDIR/x']").empty());
  CHECK(warnings("[python3, t.py, 5$, $1]").empty());
}

TEST_CASE("overlapping, incomplete and invalid items of stage and outputs are refused") {
  CHECK(has(data_refused("stage: [{from: a, to: $T/x}, {from: b, to: $T/x/y}]\n"),
            "'$T/x/y' and '$T/x' overlap"));
  CHECK(has(data_refused("stage: [{from: a}]\n"), "to is missing"));
  for (const char* archive : {"a.zip", "a.tar.lz4"})
    CHECK(
        has(data_refused(fmt::format("stage: [{{from: {}, to: $T/x, unpack: true}}]\n", archive)),
            fmt::format("tar cannot unpack '/exp/{}'; expected a name that ends with one of: .tar "
                        ".tar.gz .tgz .tar.bz2 .tbz2 .tar.xz .txz .tar.zst .tzst",
                        archive)));
  CHECK(has(data_refused("stage: [{from: a, to: $T/x, mode: 1}]\n"), "unknown key 'mode'"));
  CHECK(has(data_refused("outputs: [{from: $T/x, to: out}, {from: $T/y, to: out/y}]\n"),
            "'out/y' and 'out' overlap"));
  CHECK(has(data_refused("outputs: [{from: $T/x, to: ../out}]\n"), "to is '../out'"));
  CHECK(has(data_refused("outputs: [{from: $T/x, to: out-$SLURM_JOB_ID}]\n"),
            "no variable is replaced there"));
  CHECK(has(data_refused("outputs: [{from: $T/x-$SLURM_JOB_ID, to: out}]\n"),
            "only one variable, at the start, is replaced"));
  CHECK(has(data_refused("outputs: [{from: $T/x, to: out, every: 1s}]\n"),
            "every is 1 s; the shortest time is 10 s"));
  CHECK(has(data_refused("outputs: [{from: x, to: out}]\n"), "from is 'x'"));
  auto request = data_request("stage: [{from: a, to: $T/x}]\n");
  request.set_arguments = {"launch.agent=false"};
  const auto result = load_spec(request);
  REQUIRE_FALSE(result.has_value());
  CHECK(has(format_diagnostics(result.error()), "only the agent can copy data to nodes (stage)"));
}

TEST_CASE(
    "download needs path and files, works for any program, and sets DLRUN_DOWNLOADS to the "
    "folder") {
  const auto spec = data_loaded("download: {path: ./data, files: " + kFiles + "}\n");
  REQUIRE(spec.spec.download.files.size() == 1);
  CHECK(spec.spec.download.files[0].file == "a.bin");
  const auto plan = make_plan(spec, {"/runs", "/runs/agent", "/runs/trainer", Target::kSlurm});
  REQUIRE(plan.has_value());
  bool is_found = false;
  for (const auto& variable : plan->prologue.vars)
    is_found = is_found || (variable.name == "DLRUN_DOWNLOADS" && variable.value == "/exp/data");
  CHECK(is_found);
  CHECK(has(data_refused("download: {files: " + kFiles + "}\n"), "download.path is missing"));
  CHECK(has(data_refused("download: {path: ./data}\n"), "download.files is missing"));
  CHECK(has(data_refused("download: {path: ./data, files: [{url: \"https://a:b@h/x\", sha256: " +
                         std::string(64, 'a') + "}]}\n"),
            "(not shown)"));
}

TEST_CASE("the rank agents get the items of stage and outputs as JSON") {
  const auto spec = data_loaded(
      "stage: [{from: /d/it's.tar, to: $TMPDIR/a, unpack: true}]\n"
      "outputs: [{from: $TMPDIR/ckpt, to: out, every: 1h, limit: 2m}]\n");
  const auto plan = make_plan(spec, {"/runs", "/runs/agent", "/runs/trainer", Target::kLocal});
  REQUIRE(plan.has_value());
  REQUIRE(plan->rank_options.size() == 2);
  CHECK(plan->rank_options[0].option == "--stage");
  CHECK(plan->rank_options[0].value == R"({"from":"/d/it's.tar","to":"$TMPDIR/a","unpack":true})");
  CHECK(plan->rank_options[1].value ==
        R"({"from":"$TMPDIR/ckpt","to":"out","every_s":3600,"limit_s":120})");
}

TEST_CASE("a job in a container gets a warning if the container may lack the node's disk") {
  const std::string container =
      "container: {runtime: pyxis, image: ./i.sqsh, mounts: [/local:/local]}\n";
  const std::string stage = "stage: [{from: /d, to: $LOCAL/d}]\n";
  const auto warned = data_loaded(container + stage);
  CHECK(has(format_diagnostics(warned.warnings), "the agent copies inside the container"));
  const auto fine = data_loaded(container + stage + "environment: {vars: {LOCAL: /local/me}}\n");
  CHECK_FALSE(has(format_diagnostics(fine.warnings), "the agent copies inside the container"));
}

}  // namespace
}  // namespace dlrun
