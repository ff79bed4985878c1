// Tests the container options in the scripts of jobs, of interactive sessions and of shells beside
// a job's ranks.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "launcher/plan/plan.h"
#include "launcher/plan/render.h"
#include "tests/contains.h"

namespace dlrun {
namespace {

/// Returns the plan of a spec with this text after its resources. Fails the test if the spec or the
/// plan is refused.
LaunchPlan container_plan(const std::string& text) {
  LoadRequest request;
  request.file = "exp.yaml";
  request.text = "resources: {time: 1m}\n" + text;
  request.current_dir = "/exp";
  auto loaded = load_spec(request);
  if (!loaded) FAIL(format_diagnostics(loaded.error()));
  auto plan =
      make_plan(*loaded, {"/runs", "/runs/.agents/h/dlrun-agent", "/runs/.agents/h/dlrun-trainer"});
  if (!plan) FAIL(format_diagnostics(plan.error()));
  return std::move(*plan);
}

std::string script(const LaunchPlan& plan) {
  const auto text = render_script(plan);
  REQUIRE(text.has_value());
  return *text;
}

constexpr const char* kPyxisContainer = "container: {runtime: pyxis, image: /a.sqsh}\n";

TEST_CASE("PMIX_MCA_gds is set only for a step that srun starts with PMIx") {
  for (const char* more : {"", kPyxisContainer, "container: {runtime: enroot, image: /a.sqsh}\n"}) {
    CAPTURE(more);
    const auto with = [&](const std::string& launch) {
      return container_plan(launch + "\n" + more);
    };
    const auto mpi = with("launch: {preset: mpi, command: [x]}");
    CHECK(has(script(mpi), "[[ -v PMIX_MCA_gds ]] || export PMIX_MCA_gds=hash"));
    // A session's step, and a step beside the ranks, have no PMIx.
    CHECK_FALSE(has(render_interactive(mpi, {"x"}, "s", false).script, "PMIX_MCA_gds=hash"));
    CHECK_FALSE(
        has(render_attach(mpi, {"1", "n1", "", 6}, {"x"}, "s", false).script, "PMIX_MCA_gds=hash"));
    for (const char* mode : {"none", "pmi2"}) {
      if (std::string_view(mode) == "pmi2" && has(more, "enroot")) continue;
      CHECK_FALSE(
          has(script(with(fmt::format("launch: {{preset: mpi, mpi: {}, command: [x]}}", mode))),
              "PMIX_MCA_gds=hash"));
    }
    CHECK(has(script(with("launch: {preset: mpi, mpi: pmix_v4, command: [x]}")),
              "PMIX_MCA_gds=hash"));
    CHECK_FALSE(has(script(with("launch: {preset: torch, command: [x]}")), "PMIX_MCA_gds=hash"));
  }
  CHECK_FALSE(
      has(script(container_plan(std::string("train: {data: {dataset: digits}, backend: gloo}\n") +
                                kPyxisContainer)),
          "PMIX_MCA_gds=hash"));
}

TEST_CASE("a shell beside the ranks does not save its container over the job's saved image") {
  const auto plan = container_plan(
      "launch: {command: [x]}\ncontainer: {runtime: pyxis, image: /a.sqsh, save: /b/c.sqsh}\n");
  CHECK(has(script(plan), "--container-save=/b/c.sqsh"));
  CHECK_FALSE(
      has(render_attach(plan, {"1", "n1", "", 6}, {"x"}, "s", false).script, "--container-save"));
}

TEST_CASE(
    "the folder of a saved container is created, and a job that may get several nodes cannot save "
    "one") {
  const std::string save =
      "launch: {command: [x]}\ncontainer: {runtime: pyxis, image: /a.sqsh, save: /b/c d/e.sqsh}\n";
  CHECK(has(script(container_plan(save)), "mkdir -p -- '/b/c d'"));
  LoadRequest request;
  request.file = "exp.yaml";
  request.current_dir = "/exp";
  for (const char* resources :
       {"{time: 1m, nodes: 2}", "{time: 1m, ntasks: 4}", "{time: 1m, nodes: 1-2}"}) {
    CAPTURE(resources);
    request.text = "resources: " + std::string(resources) + "\n" + save;
    const auto loaded = load_spec(request);
    REQUIRE(loaded.has_value());
    const auto plan = make_plan(*loaded, {"/runs", "/a/dlrun-agent", "/a/dlrun-trainer"});
    REQUIRE_FALSE(plan.has_value());
    CHECK(has(format_diagnostics(plan.error()),
              "would write '/b/c d/e.sqsh'; give resources.nodes: 1"));
  }
}

TEST_CASE(
    "NVIDIA_DRIVER_CAPABILITIES is the user's, the image's or a default, and a job without GPUs "
    "sees no GPU") {
  for (const char* runtime : {"pyxis", "enroot"}) {
    CAPTURE(runtime);
    const auto script_for = [&](const std::string& resources, const char* image) {
      return script(container_plan(
          fmt::format("launch: {{command: [x]}}\ncontainer: {{runtime: {}, image: {}}}\n{}",
                      runtime, image, resources)));
    };
    const std::string without_gpus = script_for("", "/a.sqsh");
    CHECK(has(without_gpus, "export NVIDIA_VISIBLE_DEVICES=void"));
    CHECK_FALSE(has(without_gpus, "NVIDIA_DRIVER_CAPABILITIES"));
  }
  LoadRequest request;
  request.file = "exp.yaml";
  request.current_dir = "/exp";
  const auto with_gpus = [&](const std::string& more) {
    request.text = "resources: {time: 1m, gpus_per_node: 1}\nlaunch: {command: [x]}\n" + more;
    const auto loaded = load_spec(request);
    REQUIRE(loaded.has_value());
    return script(*make_plan(*loaded, {"/runs", "/a/dlrun-agent", "/a/dlrun-trainer"}));
  };
  const auto with_image_file = with_gpus(kPyxisContainer);
  CHECK(has(with_image_file, "export NVIDIA_VISIBLE_DEVICES=all"));
  CHECK(has(with_image_file, "/a.sqsh etc/environment"));
  CHECK(has(with_image_file, "  export NVIDIA_DRIVER_CAPABILITIES=compute,utility"));
  CHECK(has(with_gpus("container: {runtime: pyxis, image: ubuntu}\n"),
            "export NVIDIA_DRIVER_CAPABILITIES=all"));
  const auto with_users_value = with_gpus(
      std::string(kPyxisContainer) + "environment: {vars: {NVIDIA_DRIVER_CAPABILITIES: video}}\n");
  CHECK(has(with_users_value, "export NVIDIA_DRIVER_CAPABILITIES=video"));
  CHECK_FALSE(has(with_users_value, "compute,utility"));
}

TEST_CASE(
    "a container sees the GPUs that Slurm's options request, and on whole nodes with GPUs the "
    "image decides") {
  const auto script_for = [](const std::string& more, const char* runtime = "pyxis",
                             std::optional<std::int64_t> gpus_of_site = {}) {
    LoadRequest request;
    request.file = "exp.yaml";
    request.text = fmt::format("container: {{runtime: {}, image: /a.sqsh}}\n{}\n", runtime, more);
    request.current_dir = "/exp";
    auto loaded = load_spec(request);
    if (!loaded) FAIL(format_diagnostics(loaded.error()));
    loaded->site.partitions["p"].gpus_per_node = gpus_of_site;
    return script(*make_plan(*loaded, {"/runs", "/a/dlrun-agent", "/a/dlrun-trainer"}));
  };
  const std::string spec_start = "launch: {command: [x]}\nresources: {time: 1m, partition: p";
  CHECK(
      has(script_for(spec_start + "}\nslurm: {gpus-per-socket: 2}"), "NVIDIA_VISIBLE_DEVICES=all"));
  CHECK(has(script_for("resources: {time: 1m}\nlaunch: {command: [x], srun: {gres: gpu:1}}"),
            "NVIDIA_VISIBLE_DEVICES=all"));
  CHECK(has(script_for(spec_start + "}\nslurm: {wckey: gpu}"), "NVIDIA_VISIBLE_DEVICES=void"));
  const auto with_srun = [&](std::string_view option, std::string_view more, const char* runtime) {
    return script_for(fmt::format("launch: {{command: [x], srun: {{{}}}}}\n"
                                  "resources: {{time: 1m, partition: p{}}}\n",
                                  option, more),
                      runtime, 4);
  };
  for (const char* option : {"gres: 'gpu:a100'", "gres: 'gpu:2(S:0)'", "gpus: 'a100:0,h100:2'",
                             "tres-per-task: 'cpu=0,gres/gpu=1'"}) {
    CAPTURE(option);
    CHECK(has(with_srun(option, "", "pyxis"), "NVIDIA_VISIBLE_DEVICES=all"));
  }
  // An explicit 0 counts on whole nodes, too.
  for (const char* option : {"gres: 'gpu:0'", "gres: none", "gpus: 'a100:0'", "gpus-per-node: 0",
                             "tres-per-node: 'gres/gpu:0'", "tres-per-task: 'cpu=2,gres/gpu=0'"}) {
    for (const char* more : {"", ", exclusive: true"}) {
      CAPTURE(option);
      CAPTURE(more);
      CHECK(has(with_srun(option, more, "pyxis"), "NVIDIA_VISIBLE_DEVICES=void"));
      CHECK_FALSE(has(with_srun(option, more, "apptainer"), "--nv"));
    }
  }
  for (const char* more : {", exclusive: true}", ", exclusive: true, gres: nvme}"}) {
    CAPTURE(more);
    const std::string spec = spec_start + more;
    CHECK_FALSE(has(script_for(spec), "NVIDIA_VISIBLE_DEVICES"));
    CHECK_FALSE(has(script_for(spec, "pyxis", 4), "NVIDIA_VISIBLE_DEVICES"));
    CHECK(has(script_for(spec, "pyxis", 0), "NVIDIA_VISIBLE_DEVICES=void"));
    CHECK(has(script_for(spec, "apptainer"), "--nv"));
    CHECK_FALSE(has(script_for(spec, "apptainer", 0), "--nv"));
  }
  CHECK(has(script_for(spec_start + ", exclusive: true, gpus_per_node: 0}", "pyxis", 4),
            "NVIDIA_VISIBLE_DEVICES=void"));
}

TEST_CASE("an interactive session under enroot creates and holds its container like a job") {
  const auto plan =
      container_plan("launch: {command: [x]}\ncontainer: {runtime: enroot, image: /a.sqsh}\n");
  const auto session = render_interactive(plan, {"x"}, "s", false).script;
  CHECK(has(session, "coproc dlrun_holders"));
  CHECK(has(session, "--nodelist=\"$SLURMD_NODENAME\""));
  CHECK(
      has(script(plan), "${dlrun_container_error:+--container-error \"$dlrun_container_error\"}"));
}

}  // namespace
}  // namespace dlrun
