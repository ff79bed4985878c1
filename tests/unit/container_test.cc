#include <algorithm>

#include <doctest/doctest.h>

#include "container/backends.h"
#include "container/mounts.h"
#include "tests/contains.h"

namespace dlrun {
namespace {

StepContainer container_of(std::string image) {
  StepContainer container;
  container.spec.image = std::move(image);
  return container;
}

/// Returns the words of the command that enters the container. Words that share a comment are on
/// one line.
std::string lines_of_words(const ContainerEnterScript& enter_script) {
  std::string text;
  for (const ContainerWords& words : enter_script.words) text += words.text + "\n";
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
        .step_options(container_of(std::move(image)), users_options)
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
  StepContainer container = container_of("/a.sqsh");
  container.spec.mounts.push_back({"/my data", "/in side", {"ro", "rprivate"}});
  container.dlrun_mounts.push_back({"/runs", "/runs", {}, true});
  // The user's mount has the same target.
  container.dlrun_mounts.push_back({"/other", "/in side", {}, true});
  const std::string text = lines_of_words(enroot_backend().enter_script(container));
  CHECK(has(text, "--mount '/my\\040data:/in\\040side:x-create=auto,rbind,ro,rprivate'\n"));
  CHECK(has(text, "--mount /runs:/runs\n"));
  CHECK_FALSE(has(text, "/other"));
}

TEST_CASE("enroot: the job's variables are passed on by name, never by value") {
  StepContainer container = container_of("/a.sqsh");
  container.exported_names = {"NCCL_DEBUG", "TOKEN_OF_MINE"};
  const ContainerEnterScript enter_script = enroot_backend().enter_script(container);
  CHECK(has(enter_script.batch, "| TOKEN_OF_MINE) dlrun_options+=(--env \"$dlrun_name\")"));
  CHECK(has(enter_script.session, "| TOKEN_OF_MINE)"));
  CHECK_FALSE(has(enter_script.batch, "| NCCL_DEBUG"));  // the pattern NCCL_* covers it
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
  StepContainer container = container_of("/a.sqsh");
  CHECK(has(enroot_backend().enter_script(container).batch,
            "ENROOT_MOUNT_HOME=n ENROOT_REMAP_ROOT=n ENROOT_ROOTFS_WRITABLE=n"));
  container.spec.mount_home = container.spec.remap_root = container.spec.writable = true;
  CHECK(has(enroot_backend().enter_script(container).batch,
            "ENROOT_MOUNT_HOME=y ENROOT_REMAP_ROOT=y ENROOT_ROOTFS_WRITABLE=y"));
}

TEST_CASE(
    "enroot: a session's end does not kill process -1, which Slurm lists for a step without "
    "processes") {
  const std::string session = enroot_backend().enter_script(container_of("/a.sqsh")).session;
  CHECK(has(session, "listpids \"$SLURM_JOB_ID\" | grep -E \"^ *[0-9]\" |"));
}

TEST_CASE("enroot: the image's entry point runs only if container.entrypoint is true") {
  StepContainer container = container_of("/a.sqsh");
  container.exported_names = {"MINE"};
  const std::string batch_without_entry_point = enroot_backend().enter_script(container).batch;
  CHECK(has(batch_without_entry_point, "command-alone.conf"));
  CHECK(has(batch_without_entry_point, "|| { mkdir -p \"${rc%/*}\" && echo \"$own\" >\"$rc\"; }"));
  CHECK_FALSE(has(batch_without_entry_point, "DLRUN_KEPT_"));
  container.spec.entrypoint = true;
  const ContainerEnterScript enter_script = enroot_backend().enter_script(container);
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
  StepContainer container = container_of("/a.sif");
  container.may_have_gpus = true;
  container.exported_names = {"A", "B"};
  container.spec.mounts.push_back({"/d", "/in", {"ro"}});
  std::string text = lines_of_words(apptainer_backend().enter_script(container));
  for (const char* word : {"--bind /d:/in:ro\n", "--no-home\n", "--nv\n", "--pwd /\n"})
    CHECK(has(text, word));
  CHECK(has(apptainer_backend().enter_script(container).batch,
            "for dlrun_name in A B DLRUN_RUN DLRUN_JOB; do"));
  container.may_have_gpus = false;
  container.spec.mount_home = container.spec.writable = container.spec.remap_root = true;
  container.spec.workdir = "/w x";
  text = lines_of_words(apptainer_backend().enter_script(container));
  CHECK_FALSE(has(text, "--nv"));
  CHECK_FALSE(has(text, "--no-home"));
  for (const char* word : {"--fakeroot\n", "--writable-tmpfs\n", "--pwd '/w x'\n"})
    CHECK(has(text, word));

  container.spec.mounts[0].flags = {"rprivate"};
  CHECK(has(errors_of(apptainer_backend(), container.spec), "not 'rprivate'"));
  container.spec.save = "/x";
  container.spec.name = "n";
  CHECK(has(errors_of(apptainer_backend(), container.spec), "keeps no containers"));
  CHECK(has(errors_of(apptainer_backend(), container.spec), "cannot save"));
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
  StepContainer container = container_of("/images/a");
  container.exported_names = {"A"};
  container.spec.mounts.push_back({"/d d", "/in", {"rw"}});
  CHECK(errors_of(charliecloud_backend(), container.spec).empty());
  std::string text = lines_of_words(charliecloud_backend().enter_script(container));
  for (const char* word : {"'--bind=/d d:/in'\n", "--cd=/\n"}) CHECK(has(text, word));
  for (const char* word : {"--home", "--uid"}) CHECK_FALSE(has(text, word));
  const std::string script = charliecloud_backend().enter_script(container).batch;
  CHECK(has(script, "for dlrun_name in A DLRUN_RUN DLRUN_JOB; do"));
  CHECK(has(script, "dlrun_writable=n "));
  container.spec.mount_home = container.spec.remap_root = container.spec.writable = true;
  container.spec.workdir = "/w x";
  text = lines_of_words(charliecloud_backend().enter_script(container));
  for (const char* word : {"--home\n", "--uid=0 --gid=0\n", "'--cd=/w x'\n"})
    CHECK(has(text, word));
  CHECK(has(charliecloud_backend().enter_script(container).batch, "dlrun_writable=y "));

  container.spec.mounts[0].flags = {"ro"};
  container.spec.save = "/x";
  container.spec.name = "n";
  container.spec.entrypoint = true;
  const std::string refused = errors_of(charliecloud_backend(), container.spec);
  for (const char* part : {"only the flag rw, not 'ro'", "keeps no containers", "cannot save",
                           "does not run an image's entry point"})
    CHECK(has(refused, part));
  container.spec = {};
  container.spec.image = "docker://ubuntu";
  CHECK(has(errors_of(charliecloud_backend(), container.spec), "`ch-image pull ubuntu`"));
  container.spec.image = "nvcr.io#nvidia/cuda:12";
  CHECK(has(errors_of(charliecloud_backend(), container.spec),
            "`ch-image pull nvcr.io/nvidia/cuda:12`"));
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
