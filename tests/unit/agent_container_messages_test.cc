// Tests how lead reads the messages of container tools about containers that do not start.

#include <array>
#include <vector>

#include <doctest/doctest.h>

#include "attempt_scene.h"
#include "runtime/agent/container_messages.h"

namespace dlrun::agent {
namespace {

std::optional<ContainerFailure> failure_from(std::vector<std::string_view> lines) {
  ContainerMessages messages;
  for (const auto line : lines) messages.handle_line(line);
  return messages.failure();
}

/// Messages of pyxis 0.24 and enroot 4.1.2 under Slurm 22.05.
constexpr std::array<std::string_view, 7> kBadImageLines{
    "slurmstepd-n1: error: pyxis: child 6132 failed with error code: 1",
    "slurmstepd-n1: error: pyxis: failed to create container filesystem for image: /a/bad.sqsh",
    "slurmstepd-n1: error: pyxis: printing enroot log file:",
    "slurmstepd-n1: error: pyxis:     [ERROR] Invalid image format: /a/bad.sqsh",
    "slurmstepd-n1: error: pyxis: container was not started successfully by another task",
    "slurmstepd-n1: error: spank: required plugin spank_pyxis.so: task_init() failed with rc=-1",
    "slurmstepd-n1: error: Failed to invoke spank plugin stack"};

TEST_CASE("the error about a bad image quotes the messages of pyxis and of enroot") {
  const auto failure = failure_from({kBadImageLines.begin(), kBadImageLines.end()});
  REQUIRE(failure);
  CHECK(failure->cause == Cause::kImage);
  CHECK(failure->sentence ==
        "failed to create container filesystem for image: /a/bad.sqsh: Invalid image format: "
        "/a/bad.sqsh");
}

TEST_CASE(
    "a container that does not start, a full disk and a missing enroot are not the image's fault") {
  const auto mount = failure_from(
      {"slurmstepd-n1: error: pyxis: container start failed with error code: 1",
       "slurmstepd-n1: error: pyxis: printing enroot log file:",
       "slurmstepd-n1: error: pyxis:     enroot-mount: failed to mount: /x at /y: No such file or "
       "directory"});
  REQUIRE(mount);
  CHECK(mount->cause == Cause::kContainer);
  CHECK(mount->sentence ==
        "container start failed with error code: 1: enroot-mount: failed to mount: /x at /y: No "
        "such file or directory");
  const auto full = failure_from(
      {"slurmstepd-n1: error: pyxis: failed to create container filesystem for image: /a.sqsh",
       "slurmstepd-n1: error: pyxis:     FATAL ERROR: write failed: No space left on device"});
  CHECK(full->cause == Cause::kContainer);
  const auto missing = failure_from(
      {"slurmstepd-n1: error: pyxis: child 61 failed with error code: 1",
       "slurmstepd-n1: error: pyxis: failed to create container filesystem for image: /a.sqsh"});
  CHECK(missing->cause == Cause::kContainer);
}

TEST_CASE(
    "messages of pyxis under Slurm 25.05, of enroot, of apptainer, of Charliecloud and of dlrun "
    "are recognised") {
  CHECK(failure_from(
            {"[2026-11-21T16:15:12.001] error: pyxis: couldn't chdir to /none: No such file or "
             "directory"})
            ->cause == Cause::kContainer);
  CHECK(failure_from({"[ERROR] Command not found: nvidia-container-cli"})->sentence ==
        "Command not found: nvidia-container-cli");
  const auto image =
      failure_from({"FATAL:   could not open image /a.sif: image format not recognized"});
  CHECK(image->cause == Cause::kImage);
  CHECK(image->sentence == "could not open image /a.sif: image format not recognized");
  CHECK(failure_from({"dlrun: container: apptainer is not installed on n1"})->sentence ==
        "apptainer is not installed on n1");
  const auto missing =
      failure_from({"ch-run[17]: error: can't stat: /a: No such file or directory "
                    "(ch_core.c:255 2)"});
  CHECK(missing->cause == Cause::kImage);
  CHECK(missing->sentence == "can't stat: /a: No such file or directory (ch_core.c:255 2)");
  const auto mount_point =
      failure_from({"ch-run[17]: warning: a hint", "ch-run[17]: error: can't mkdir: /a/b"});
  CHECK(mount_point->cause == Cause::kContainer);
  CHECK(mount_point->sentence == "can't mkdir: /a/b");
  CHECK_FALSE(failure_from({"srun: error: n1: task 0: Exited with exit code 1",
                            "ch-run[x]: error: a", "pyxis: a line of nobody's", "FATALLY"}));
}

TEST_CASE(
    "the error of a command that failed to create a container shows whether the image was the "
    "cause") {
  CHECK(classify_container_error("failed on n1: Invalid image format: /a.sqsh").cause ==
        Cause::kImage);
  CHECK(classify_container_error("failed on n1: No such file or directory: /a.sqsh").cause ==
        Cause::kImage);
  CHECK(classify_container_error("failed on n1: bash: line 12: enroot: command not found").cause ==
        Cause::kContainer);
}

TEST_CASE(
    "a rank whose container did not start fails with the container's error and is not started "
    "again") {
  Scene scene;
  for (const auto line : kBadImageLines) scene.attempt.on_unmarked_line(line);
  scene.attempt.on_task_end(0, "n1", 1, 0, scene.now);
  scene.attempt.on_step_end(1, "srun: error: n1: task 0: Exited with exit code 1", scene.now);
  scene.pass(seconds(3));
  REQUIRE(scene.attempt.is_over());
  const auto& end = scene.attempt.end();
  CHECK(end.cause == Cause::kImage);
  CHECK(end.message ==
        "the container on n1 could not be started: failed to create container filesystem for "
        "image: /a/bad.sqsh: Invalid image format: /a/bad.sqsh");
  CHECK(scene.actions.last("attempt_end")["cause"] == "image");
  const RetryOptions options{.max = 3, .on = {Cause::kFailure}};
  CHECK(decide_retry(options, {}, end.cause).why == "the container would fail again");
  CHECK_FALSE(decide_retry(options, {}, Cause::kContainer).grants_restart);
}

TEST_CASE("a message about a container is not the cause if a rank that has joined fails later") {
  Scene scene;
  scene.all_join(4);
  scene.attempt.on_unmarked_line("[ERROR] a program's own word");
  scene.attempt.on_exit(1, {3, 0, {}}, scene.now);
  scene.pass(Attempt::kCulpritWait);
  CHECK(scene.actions.printed.back().starts_with("rank 1 on n1 exited with code 3"));
  end_four_ranks(scene);
  CHECK(scene.attempt.end().cause == Cause::kFailure);
}

TEST_CASE("a container that cannot be saved causes a warning with the reason") {
  Scene scene;
  scene.all_join(4);
  scene.attempt.on_unmarked_line(
      "slurmstepd-n1: error: pyxis:     [ERROR] No such file or directory: /none/a.sqsh");
  scene.attempt.on_unmarked_line(
      "slurmstepd-n1: error: pyxis: failed to export container pyxis_1.0 to /none/a.sqsh");
  CHECK(scene.actions.last("warning")["message"] ==
        "failed to export container pyxis_1.0 to /none/a.sqsh: No such file or directory: "
        "/none/a.sqsh");
}

}  // namespace
}  // namespace dlrun::agent
