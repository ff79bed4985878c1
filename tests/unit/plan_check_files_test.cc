#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>

#include "launcher/plan/plan.h"
#include "tests/contains.h"
#include "tests/temporary_directory.h"

namespace dlrun {
namespace {

/// Returns the findings of check_files() for a spec in `folder`. Fails the test if the spec is
/// refused.
std::string file_findings(const TemporaryDirectory& folder, std::string_view spec) {
  LoadRequest request;
  request.file = "exp.yaml";
  request.text = std::string(spec);
  request.current_dir = folder.path();
  const auto loaded = load_spec(request);
  if (!loaded) FAIL(format_diagnostics(loaded.error()));
  return format_diagnostics(check_files(*loaded));
}

TEST_CASE(
    "a missing script that python or bash would run is reported, and other missing arguments are "
    "not") {
  TemporaryDirectory folder;
  const auto findings = [&](std::string_view command, std::string_view more = "") {
    return file_findings(folder, "resources: {time: 1m}\nlaunch: {command: [" +
                                     std::string(command) + "]}\n" + std::string(more));
  };
  const std::string missing =
      "launch.command: the script '" + (folder / "train.py").string() + "' does not exist here";
  CHECK(has(findings("python, -u, train.py, --epochs, 12"), missing));
  CHECK(has(findings("bash, ./train.py"), missing));
  CHECK(has(findings("python, ../train.py", "slurm: {chdir: src}"), missing));
  CHECK(
      has(findings("python, ../train.py", "slurm: {chdir: src}"),
          "slurm.chdir: the start folder '" + (folder / "src").string() + "' does not exist here"));
  CHECK(findings("python, -m, package, train.py").empty());
  CHECK(findings("python, -c, 'exec(open(\"x.py\"))'").empty());
  CHECK(findings("train, --config, a.yaml").empty());
  CHECK_FALSE(has(findings("python, train.py",
                           "container: {runtime: pyxis, image: nvcr.io#nvidia/pytorch:24.05-py3}"),
                  missing));
  std::ofstream(folder / "train.py") << "pass\n";
  CHECK(findings("python, -u, train.py, --epochs, 12").empty());
}

TEST_CASE(
    "the warning about a missing script has the position of its word, and suggests a file with a "
    "similar name") {
  TemporaryDirectory folder;
  std::ofstream(folder / "train.py") << "pass\n";
  std::ofstream(folder / "pytorch.sqsh") << "hsqs";
  const auto findings = [&](std::string_view more) {
    return file_findings(folder, "resources: {time: 1m}\nlaunch: {command: [python, tarin.py]}\n" +
                                     std::string(more));
  };
  CHECK(has(findings(""), "exp.yaml:2:28: warning: launch.command: the script '" +
                              (folder / "tarin.py").string() +
                              "' does not exist here; did you mean 'train.py'?"));
  CHECK(has(findings("container: {runtime: pyxis, image: i, mounts: [.:/app], workdir: /app}\n"),
            "in the container) does not exist here; did you mean 'train.py'?"));
  CHECK(has(findings("container: {runtime: pyxis, image: ./pytroch.sqsh}\n"),
            "pytroch.sqsh' does not exist here; did you mean 'pytorch.sqsh'?"));
}

TEST_CASE(
    "an image that is not in the format of its container runtime is reported before the job is "
    "queued") {
  TemporaryDirectory folder;
  const auto findings = [&](const std::string& file, const std::string& runtime) {
    return file_findings(
        folder, "resources: {time: 1m}\nlaunch: {command: [x]}\ncontainer: {runtime: " + runtime +
                    ", image: ./" + file + "}\n");
  };
  const auto write = [&](const std::string& file, const std::string& bytes) {
    std::ofstream(folder / file) << bytes;
  };
  write("a.sqsh", "hsqs and so on");
  write("a.sif", "#!/usr/bin/env run-singularity\n" + std::string(1, '\0') + "SIF_MAGIC");
  write("bad.sqsh", "nonsense");
  write("bad.sif", "nonsense");
  std::filesystem::create_directory(folder / "rootfs");
  REQUIRE(::mkfifo((folder / "pipe.sqsh").c_str(), 0600) == 0);
  for (const char* runtime : {"pyxis", "enroot"}) {
    CHECK(findings("a.sqsh", runtime).empty());
    CHECK(has(findings("bad.sqsh", runtime), "bad.sqsh': it is not a squashfs file"));
    CHECK(has(findings("rootfs", runtime), "rootfs': it is a folder, not a squashfs file"));
    CHECK(has(findings("pipe.sqsh", runtime), "it is not a regular file"));
  }
  CHECK(findings("a.sif", "apptainer").empty());
  CHECK(findings("rootfs", "apptainer").empty());
  CHECK(has(findings("bad.sif", "apptainer"), "bad.sif': it is not a SIF file"));
  for (const char* image : {"rootfs", "a.sqsh"}) CHECK(findings(image, "charliecloud").empty());
  CHECK(
      has(findings("a.sif", "charliecloud"), "a.sif': it is neither a folder nor a squashfs file"));
}

TEST_CASE(
    "with a container, a relative script is reported if it exists here but is in no mount, or if "
    "it is missing in a mount") {
  TemporaryDirectory folder;
  const auto findings = [&](const std::string& more, std::string_view script = "train.py") {
    return file_findings(
        folder, "resources: {time: 1m}\nlaunch: {command: [python, " + std::string(script) +
                    "]}\ncontainer: {runtime: pyxis, image: ubuntu" + more + "}\n");
  };
  CHECK(findings("").empty());
  const std::string missing = "the script '" + (folder / "train.py").string() +
                              "' (/app/train.py in the container) does not exist here";
  CHECK(has(findings(", mounts: [.:/app], workdir: /app"), missing));
  CHECK(findings(", mounts: [.:/app], workdir: /opt/app").empty());
  std::ofstream(folder / "train.py") << "pass\n";
  CHECK(has(findings(""), "launch.command: the script 'train.py' is in no mount"));
  CHECK(has(findings(", workdir: /opt/app"), "in no mount"));
  CHECK(findings(", mounts: [.:/app], workdir: /app").empty());
  CHECK(findings(", mounts: ['.:/workspace']").empty());
  CHECK(findings(", mount_home: true").empty());
  CHECK(findings(", mounts: [.:/app]", "/opt/app/train.py").empty());
  std::filesystem::create_directory(folder / "data");
  CHECK(has(findings(", mounts: [./data:/data]"), "in no mount"));
  CHECK(has(findings(", mounts: [.:/app, ./data:/app/sub], workdir: /app/sub"),
            "'" + (folder / "data/train.py").string() +
                "' (/app/sub/train.py in the container) does not exist here"));
}

TEST_CASE("missing mounts, images, environments and programs are reported, each at its key") {
  TemporaryDirectory folder;
  const std::string text =
      file_findings(folder,
                    "resources: {time: 1m, output: gone/%j.out}\n"
                    "environment: {venv: env}\n"
                    "container: {runtime: pyxis, image: ./a.sqsh, mounts: [./here:/a, ./nope:/b]}\n"
                    "launch: {command: [/no/such/program]}\n");
  for (const char* key :
       {"environment.venv", "container.image", "container.mounts[0]", "container.mounts[1]"})
    CHECK(has(text, std::string(key) + ": "));
  std::filesystem::create_directory(folder / "here");
  CHECK_FALSE(has(file_findings(folder,
                                "resources: {time: 1m}\nlaunch: {command: [x]}\n"
                                "container: {runtime: pyxis, image: i, mounts: [./here:/a]}\n"),
                  "mounts"));
  CHECK(has(file_findings(folder, "resources: {time: 1m}\nlaunch: {command: [/no/such/program]}"),
            "the program '/no/such/program'"));
  const std::string job = "resources: {time: 1m}\nlaunch: {command: [x]}\n";
  CHECK(has(file_findings(folder, job + "notify: {command: [./tell.sh]}"),
            "notify.command: the program '" + (folder / "tell.sh").string() + "' does not exist"));
  CHECK(file_findings(folder, job + "notify: {command: [mail, me]}").empty());
}

TEST_CASE("a missing source in `stage` is an error at its line, unless dlrun fetches the file") {
  TemporaryDirectory folder;
  const std::string job = "resources: {time: 1m}\nlaunch: {command: [x]}\n";
  const std::string stage = "stage:\n  - {from: ./data/a.tar, to: $TMPDIR/a, unpack: true}\n";
  CHECK(has(file_findings(folder, job + stage), "exp.yaml:4:5: error: stage[0]: the source '" +
                                                    (folder / "data/a.tar").string() +
                                                    "' does not exist here"));
  const std::string download =
      "download: {path: ./data, files: [{url: \"https://h.org/a.tar\", sha256: " +
      std::string(64, 'a') + "}]}\n";
  CHECK(file_findings(folder, job + stage + download).empty());
  std::filesystem::create_directories(folder / "data/a.tar");
  CHECK(has(file_findings(folder, job + stage), "is a folder, not an archive"));
}

}  // namespace
}  // namespace dlrun
