// Tests health.preflight in a spec, and a site's figures for its network.

#include <doctest/doctest.h>

#include "launcher/spec/derived.h"
#include "launcher/spec/sites.h"
#include "load_checks.h"
#include "tests/contains.h"

namespace dlrun {
namespace {

LoadRequest with_checks(const std::string& checks,
                        const std::string& resources = "gpus_per_node: 1") {
  LoadRequest request;
  request.file = "exp.yaml";
  request.text = "resources: {time: 1m, " + resources +
                 "}\nlaunch: {command: [x]}\nhealth: {preflight: " + checks + "}\n";
  request.current_dir = "/exp";
  return request;
}

TEST_CASE("a check is a name or a shell line, and the resolved spec has the same checks") {
  const auto first = loaded(with_checks("[disk, {run: \"./check.sh --fast\"}]"));
  const auto& checks = first.spec.health.preflight;
  REQUIRE(checks.size() == 2);
  CHECK((checks[0].name == "disk" && checks[0].line.empty()));
  CHECK((checks[1].name == "run" && checks[1].line == "./check.sh --fast"));
  LoadRequest again;
  again.file = "resolved.yaml";
  again.current_dir = "/elsewhere";
  again.text = resolved_yaml(first);
  const auto second = loaded(again);
  REQUIRE(second.spec.health.preflight.size() == 2);
  CHECK(second.spec.health.preflight[1].line == checks[1].line);
  CHECK(loaded(with_checks("disk")).spec.health.preflight.size() == 1);
  CHECK(loaded(with_checks("{run: ./check.sh}")).spec.health.preflight.size() == 1);
}

TEST_CASE(
    "the error for a wrong check has its line, and lists the known checks or shows the right "
    "form") {
  for (const auto& [checks, words] :
       {std::pair("[disks]", "'disks' is not one of: gpu nccl rccl gloo disk clock binding fabric"),
        std::pair("[{run: \"\"}]", "run: the command is empty; write {run: ./check.sh}"),
        std::pair("[{command: x}]", "a check of your own is {run: SHELL LINE}"),
        std::pair("[run]", "'run' is not one of"),
        std::pair("[{run: \"a\\nb\"}]", "expected one line of UTF-8 text")}) {
    CAPTURE(checks);
    const auto message = refused(with_checks(checks));
    CHECK(has(message, "exp.yaml:3:"));
    CHECK(has(message, words));
  }
  CHECK(has(refused(with_checks("[binding]", "gpus_per_node: 0")),
            "health.preflight: binding needs GPUs"));
  // A job on whole nodes may get GPUs even if it requests none.
  static_cast<void>(loaded(with_checks("[binding]", "exclusive: true, gres: nvme")));
  CHECK(has(refused(with_checks("[binding]", "exclusive: true, gres: gpu:0")),
            "health.preflight: binding needs GPUs"));
}

TEST_CASE("the check `fabric` causes a warning at a site that gives no figures for its network") {
  CHECK(has(format_diagnostics(loaded(with_checks("[fabric]")).warnings),
            "site 'generic' gives no figures for its network"));
}

TEST_CASE("the figures of a partition replace those of the site, and a wrong figure is refused") {
  const auto site = parse_site_file(
      "s.yaml",
      "fabric: {infiniband_ports: 1}\npartitions: {gpu: {fabric: {gpu_link: nvlink, all_reduce: "
      "90}}, cpu: {}}\n");
  CHECK(site.problems.empty());
  JobSpec spec;
  spec.resources.partition = "gpu";
  CHECK(fabric_of_job(spec, site.profile).all_reduce == 90);
  CHECK_FALSE(fabric_of_job(spec, site.profile).infiniband_ports.has_value());
  spec.resources.partition = "cpu";
  CHECK(fabric_of_job(spec, site.profile).infiniband_ports == 1);
  const auto wrong = parse_site_file("s.yaml", "fabric: {gpu_link: copper, ports: 3}\n");
  CHECK(has(format_diagnostics(wrong.problems), "s.yaml:1:"));
  CHECK(wrong.problems.size() == 2);
}

}  // namespace
}  // namespace dlrun
