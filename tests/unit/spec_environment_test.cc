// Tests environment.uv, pixi, spack, uenv and eessi in a spec.

#include <algorithm>

#include <doctest/doctest.h>

#include "launcher/plan/plan.h"
#include "launcher/spec/load.h"
#include "load_checks.h"
#include "tests/contains.h"

namespace dlrun {
namespace {

LoadRequest with_environment(const std::string& environment, const std::string& more = "") {
  LoadRequest request;
  request.file = "exp.yaml";
  request.text =
      "resources: {time: 1m}\nlaunch: {command: [x]}\nenvironment: " + environment + "\n" + more;
  request.current_dir = "/exp";
  return request;
}

TEST_CASE(
    "a short form sets the main key of its environment, and a path starts at the spec's folder") {
  const auto uv = loaded(with_environment("{uv: .}"));
  CHECK(uv.spec.environment.uv_project == "/exp");
  const auto pixi = loaded(with_environment("{pixi: sub}"));
  CHECK(pixi.spec.environment.pixi_project == "/exp/sub");
  CHECK_FALSE(pixi.spec.environment.pixi_environment.has_value());
  const auto both = loaded(with_environment("{pixi: {project: sub, environment: cuda}}"));
  CHECK(both.spec.environment.pixi_environment == "cuda");
  const auto uenv = loaded(with_environment("{uenv: [\"a/1:v1\", \"b/2:v2\"]}"));
  CHECK(uenv.spec.environment.uenv_images == std::vector<std::string>{"a/1:v1", "b/2:v2"});
  CHECK(loaded(with_environment("{spack: mine}")).spec.environment.spack == "mine");
  CHECK(loaded(with_environment("{spack: ./mine}")).spec.environment.spack == "/exp/mine");
  CHECK(loaded(with_environment("{eessi: 2023.06}")).spec.environment.eessi == "2023.06");
}

TEST_CASE(
    "environments that replace each other's files are refused, and the error shows the line") {
  for (const char* pair :
       {"conda: a, uv: .", "venv: ./v, uv: .", "conda: a, pixi: .", "venv: ./v, pixi: .",
        "uv: ., pixi: .", "conda: a, spack: s", "pixi: ., spack: s", "conda: a, eessi: 2023.06",
        "pixi: ., eessi: 2023.06", "spack: s, eessi: 2023.06", "uenv: [a], eessi: 2023.06"}) {
    CAPTURE(pair);
    const auto message = refused(with_environment("{" + std::string(pair) + "}"));
    CHECK(has(message, "exp.yaml:3:"));
    CHECK(has(message, "exclude each other"));
  }
  for (const char* pair : {"uv: ., spack: s", "uv: ., eessi: 2023.06", "uv: ., uenv: [a]",
                           "uenv: [a], spack: s", "uv: ., modules: [m]"}) {
    CAPTURE(pair);
    CHECK(load_spec(with_environment("{" + std::string(pair) + "}")).has_value());
  }
}

TEST_CASE("an environment of the host is refused for ranks in a container") {
  for (const char* one : {"uv: .", "pixi: .", "spack: s", "uenv: [a]", "eessi: 2023.06"}) {
    CAPTURE(one);
    const auto message = refused(with_environment(
        "{" + std::string(one) + "}", "container: {runtime: apptainer, image: ./i.sif}\n"));
    CHECK(has(message, "exp.yaml:3:"));
    CHECK(has(message, "the ranks run in a container, which does not have this environment"));
  }
}

TEST_CASE("a sweep over environments is refused, because all points share one environment") {
  const auto message =
      refused(with_environment("{}", "sweep: {parameters: {environment.spack: [one, two]}}\n"));
  CHECK(has(message, "environment.spack: a sweep cannot change the key"));
}

TEST_CASE("a path is refused as the version of EESSI") {
  CHECK(has(refused(with_environment("{eessi: ../../home/other}")), "environment.eessi"));
}

TEST_CASE("a secondary key of pixi or uenv is refused without the main key of this environment") {
  CHECK(has(refused(with_environment("{pixi: {environment: cuda}}")),
            "environment.pixi.environment needs environment.pixi.project"));
  CHECK(has(refused(with_environment("{uenv: {views: [default]}}")),
            "environment.uenv.views needs environment.uenv.images"));
}

TEST_CASE("a local run with a uenv is refused, because only Slurm's plugin mounts a uenv") {
  const auto spec = loaded(with_environment("{uenv: [\"a/1:v1\"]}"));
  const PlanInputs slurm{"/runs", "/agent", "/trainer", Target::kSlurm};
  const auto plan = make_plan(spec, slurm);
  REQUIRE(plan.has_value());
  CHECK(std::any_of(plan->directives.begin(), plan->directives.end(),
                    [](const PlannedOption& one) { return one.word() == "--uenv=a/1:v1"; }));
  const auto local = make_plan(spec, {"/runs", "/agent", "/trainer", Target::kLocal});
  REQUIRE_FALSE(local.has_value());
  CHECK(has(format_diagnostics(local.error()), "only Slurm's plugin mounts a uenv"));
}

TEST_CASE(
    "with code.snapshot, a uv project causes a warning, because its package is not imported from "
    "the copy") {
  const auto result = loaded(with_environment("{uv: .}", "code: {snapshot: true}\n"));
  CHECK(has(format_diagnostics(result.warnings), "not from the copy of the code"));
}

}  // namespace
}  // namespace dlrun
