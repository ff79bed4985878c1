#include <algorithm>

#include <doctest/doctest.h>

#include "container/backends.h"
#include "container/mounts.h"
#include "tests/contains.h"

namespace dlrun {
namespace {

ContainerStep step_of(std::string image) {
  ContainerStep step;
  step.spec.image = std::move(image);
  return step;
}

/// Returns the words of the command that enters the container, each on a line.
std::string lines_of_words(const ContainerEnterScript& enter_script) {
  std::string text;
  for (const ContainerLine& line : enter_script.words) text += line.text + "\n";
  return text;
}

/// Returns the problems of the spec that are errors, each on a line.
std::string errors_of(const ContainerBackend& backend, const ContainerSpec& spec) {
  std::string text;
  for (const ContainerProblem& problem : backend.problems(spec)) {
    if (!problem.is_warning) text += problem.key + ": " + problem.message + "\n";
  }
  return text;
}

TEST_CASE("pyxis: an image in a registry is passed in enroot's form, whichever form the spec has") {
  const auto image_option = [](std::string image) {
    std::vector<UserSrunOption> users_options;
    return pyxis_backend()
        .step_options(step_of(std::move(image)), users_options)
        .front()
        .value.value_or("");
  };
  for (const char* image :
       {"docker://nvcr.io/nvidia/pytorch:24.05-py3", "docker://nvcr.io#nvidia/pytorch:24.05-py3",
        "nvcr.io/nvidia/pytorch:24.05-py3", "nvcr.io#nvidia/pytorch:24.05-py3"}) {
    CAPTURE(image);
    CHECK(image_option(image) == "nvcr.io#nvidia/pytorch:24.05-py3");
    ContainerSpec spec;
    spec.image = image;
    CHECK(pyxis_backend().problems(spec).empty());
  }
  CHECK(image_option("docker://ubuntu:24.04") == "ubuntu:24.04");
  CHECK(image_option("docker://localhost:5000/mine") == "localhost:5000#mine");
  CHECK(image_option("user/image") == "user/image");
  // This image is in the docker daemon, not in a registry.
  CHECK(image_option("dockerd://mine:1") == "dockerd://mine:1");
  CHECK(image_option("/images/a b.sqsh") == "/images/a b.sqsh");
}

TEST_CASE(
    "enroot: mounts are fstab lines, and a mount of the user replaces dlrun's mount with the same "
    "target") {
  ContainerStep step = step_of("/a.sqsh");
  step.spec.mounts.push_back({"/my data", "/in side", {"ro", "rprivate"}});
  step.dlrun_mounts.push_back({"/runs", "/runs", {}, true});
  // The user's mount has the same target.
  step.dlrun_mounts.push_back({"/other", "/in side", {}, true});
  const std::string text = lines_of_words(enroot_backend().enter_script(step));
  CHECK(has(text, "--mount '/my\\040data:/in\\040side:x-create=auto,rbind,ro,rprivate'\n"));
  CHECK(has(text, "--mount /runs:/runs\n"));
  CHECK_FALSE(has(text, "/other"));
}

TEST_CASE("enroot: the job's variables are passed on by name, never by value") {
  ContainerStep step = step_of("/a.sqsh");
  step.exported_names = {"NCCL_DEBUG", "TOKEN_OF_MINE"};
  const ContainerEnterScript enter_script = enroot_backend().enter_script(step);
  CHECK(has(enter_script.batch, "| TOKEN_OF_MINE) dlrun_options+=(--env \"$dlrun_name\")"));
  CHECK(has(enter_script.session, "| TOKEN_OF_MINE)"));
  CHECK_FALSE(has(enter_script.batch, "| NCCL_DEBUG"));  // a pattern already covers it
}

TEST_CASE(
    "enroot: carries_value() is false for a value that enroot's file of variables would change") {
  CHECK(enroot_backend().carries_value("a 'b' \"c\" $d = {e}"));
  CHECK_FALSE(enroot_backend().carries_value("one\ntwo"));
  CHECK_FALSE(enroot_backend().carries_value("\"quoted\""));
  CHECK(pyxis_backend().carries_value("one\ntwo"));
}

TEST_CASE(
    "enroot: home, root and writability are always set, so that a site's configuration has no "
    "effect on them") {
  ContainerStep step = step_of("/a.sqsh");
  CHECK(has(enroot_backend().enter_script(step).batch,
            "ENROOT_MOUNT_HOME=n ENROOT_REMAP_ROOT=n ENROOT_ROOTFS_WRITABLE=n"));
  step.spec.mount_home = step.spec.remap_root = step.spec.writable = true;
  CHECK(has(enroot_backend().enter_script(step).batch,
            "ENROOT_MOUNT_HOME=y ENROOT_REMAP_ROOT=y ENROOT_ROOTFS_WRITABLE=y"));
}

TEST_CASE(
    "enroot: a session's end does not kill process -1, which Slurm lists for a step without "
    "processes") {
  const std::string session = enroot_backend().enter_script(step_of("/a.sqsh")).session;
  CHECK(has(session, "listpids \"$SLURM_JOB_ID\" | grep -E \"^ *[0-9]\" |"));
}

TEST_CASE("enroot: the image's entry point runs only if container.entrypoint is true") {
  ContainerStep step = step_of("/a.sqsh");
  step.exported_names = {"MINE"};
  const std::string alone = enroot_backend().enter_script(step).batch;
  CHECK(has(alone, "command-alone.conf"));
  CHECK(has(alone, "|| { mkdir -p \"${rc%/*}\" && echo \"$own\" >\"$rc\"; }"));
  CHECK_FALSE(has(alone, "DLRUN_KEPT_"));
  step.spec.entrypoint = true;
  const ContainerEnterScript enter_script = enroot_backend().enter_script(step);
  CHECK(has(enter_script.batch, "entry-point.conf"));
  CHECK(has(enter_script.batch, "for dlrun_name in MINE; do"));
  CHECK(has(lines_of_words(enter_script), "sh -c 'for n in MINE; do"));
}

TEST_CASE(
    "enroot: only the path of a squashfs file is accepted as an image, and container.save is "
    "refused") {
  ContainerSpec spec;
  for (const char* image : {"nvcr.io#nvidia/pytorch:24.05-py3", "images/a.sqsh", "/a.sif"}) {
    CAPTURE(image);
    spec.image = image;
    CHECK(has(errors_of(enroot_backend(), spec),
              "container.image: enroot without pyxis makes containers from .sqsh files"));
  }
  const auto refusal_of = [&](const char* image) {
    spec.image = image;
    return errors_of(enroot_backend(), spec);
  };
  CHECK(has(refusal_of("nvcr.io#nvidia/cuda"), "`dlrun container import nvcr.io#nvidia/cuda`"));
  CHECK(has(refusal_of("x.sqsh"), "write ./x.sqsh"));
  CHECK(has(refusal_of("/x.sif"), "is an image of apptainer"));
  CHECK(has(refusal_of("a b"), "is not the name of an image"));
  for (const char* image : {"x.sqsh", "/x.sif", "a b"})
    CHECK_FALSE(has(refusal_of(image), "import"));
  spec.image = "/a.sqsh";
  CHECK(errors_of(enroot_backend(), spec).empty());
  spec.save = "/out.sqsh";
  CHECK(has(errors_of(enroot_backend(), spec), "use pyxis"));
}

TEST_CASE("pyxis: an image that is neither a path nor a name in a registry is refused") {
  ContainerSpec spec;
  for (const char* image : {"/", "docker://", "nvcr.io#", "a b", "oras://a/b", "shub://x",
                            "docker-archive:/x.tar", "https://x/y.sif"}) {
    CAPTURE(image);
    spec.image = image;
    CHECK(has(errors_of(pyxis_backend(), spec), "is not the name of an image"));
    CHECK(pyxis_backend().problems(spec).size() == 1);
  }
  for (const char* image : {"ubuntu", "./a.sqsh", "/a", "dockerd://local/image",
                            "$oauthtoken@nvcr.io#nvidia/cuda:12"}) {
    CAPTURE(image);
    spec.image = image;
    CHECK(errors_of(pyxis_backend(), spec).empty());
  }
}

TEST_CASE(
    "apptainer: each key becomes its option, and keys and mount flags that it cannot express are "
    "refused") {
  ContainerStep step = step_of("/a.sif");
  step.may_have_gpus = true;
  step.exported_names = {"A", "B"};
  step.spec.mounts.push_back({"/d", "/in", {"ro"}});
  std::string text = lines_of_words(apptainer_backend().enter_script(step));
  for (const char* word : {"--bind /d:/in:ro\n", "--no-home\n", "--nv\n", "--pwd /\n"})
    CHECK(has(text, word));
  CHECK(has(apptainer_backend().enter_script(step).batch,
            "for dlrun_name in A B DLRUN_RUN DLRUN_JOB; do"));
  step.may_have_gpus = false;
  step.spec.mount_home = step.spec.writable = step.spec.remap_root = true;
  step.spec.workdir = "/w x";
  text = lines_of_words(apptainer_backend().enter_script(step));
  CHECK_FALSE(has(text, "--nv"));
  CHECK_FALSE(has(text, "--no-home"));
  for (const char* word : {"--fakeroot\n", "--writable-tmpfs\n", "--pwd '/w x'\n"})
    CHECK(has(text, word));

  step.spec.mounts[0].flags = {"rprivate"};
  CHECK(has(errors_of(apptainer_backend(), step.spec), "not 'rprivate'"));
  step.spec.save = "/x";
  step.spec.name = "n";
  CHECK(has(errors_of(apptainer_backend(), step.spec), "keeps no containers"));
  CHECK(has(errors_of(apptainer_backend(), step.spec), "cannot save"));
}

TEST_CASE(
    "apptainer: an image in a registry causes a warning, and must be written as "
    "docker://REGISTRY/IMAGE") {
  ContainerSpec spec;
  spec.image = "docker://ubuntu";
  REQUIRE(apptainer_backend().problems(spec).size() == 1);
  CHECK(apptainer_backend().problems(spec)[0].is_warning);
  spec.image = "nvcr.io#nvidia/pytorch";
  CHECK(has(errors_of(apptainer_backend(), spec), "docker://NAME"));
  spec.image = "docker://";
  CHECK(has(errors_of(apptainer_backend(), spec), "names no image"));
  spec.image = "docker://nvcr.io#nvidia/pytorch:24.05";
  CHECK(
      has(errors_of(apptainer_backend(), spec), "expects docker://nvcr.io/nvidia/pytorch:24.05\n"));
  spec.image = "docker://nvcr.io#";
  CHECK(has(errors_of(apptainer_backend(), spec), "expects docker://REGISTRY/IMAGE:TAG\n"));
}

TEST_CASE(
    "charliecloud: each key becomes its option, and keys that it cannot express are refused") {
  ContainerStep step = step_of("/images/a");
  step.exported_names = {"A"};
  step.spec.mounts.push_back({"/d d", "/in", {"rw"}});
  CHECK(errors_of(charliecloud_backend(), step.spec).empty());
  std::string text = lines_of_words(charliecloud_backend().enter_script(step));
  for (const char* word : {"'--bind=/d d:/in'\n", "--cd=/\n"}) CHECK(has(text, word));
  for (const char* word : {"--home", "--uid"}) CHECK_FALSE(has(text, word));
  const std::string script = charliecloud_backend().enter_script(step).batch;
  CHECK(has(script, "for dlrun_name in A DLRUN_RUN DLRUN_JOB; do"));
  CHECK(has(script, "dlrun_writable=n "));
  step.spec.mount_home = step.spec.remap_root = step.spec.writable = true;
  step.spec.workdir = "/w x";
  text = lines_of_words(charliecloud_backend().enter_script(step));
  for (const char* word : {"--home\n", "--uid=0 --gid=0\n", "'--cd=/w x'\n"})
    CHECK(has(text, word));
  CHECK(has(charliecloud_backend().enter_script(step).batch, "dlrun_writable=y "));

  step.spec.mounts[0].flags = {"ro"};
  step.spec.save = "/x";
  step.spec.name = "n";
  step.spec.entrypoint = true;
  const std::string refused = errors_of(charliecloud_backend(), step.spec);
  for (const char* part : {"only the flag rw, not 'ro'", "keeps no containers", "cannot save",
                           "does not run an image's entry point"})
    CHECK(has(refused, part));
  step.spec = {};
  step.spec.image = "docker://ubuntu";
  CHECK(has(errors_of(charliecloud_backend(), step.spec), "`ch-image pull ubuntu`"));
  step.spec.image = "nvcr.io#nvidia/cuda:12";
  CHECK(
      has(errors_of(charliecloud_backend(), step.spec), "`ch-image pull nvcr.io/nvidia/cuda:12`"));
}

TEST_CASE("every container backend is found by its name") {
  for (const ContainerBackendRow& row : kContainerBackends) {
    CAPTURE(row.name);
    CHECK(find_container_backend(row.name) == &row.backend());
    CHECK(row.backend().name() == row.name);
  }
  CHECK(find_container_backend("docker") == nullptr);
  CHECK(container_tools_text() == "pyxis, enroot, apptainer or charliecloud");
}

}  // namespace
}  // namespace dlrun
