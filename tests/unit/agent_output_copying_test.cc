// Tests how an agent collects outputs from a node.
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "common/files.h"
#include "common/sha256.h"
#include "runtime/agent/address.h"
#include "runtime/agent/copy_items.h"
#include "runtime/agent/copy_report.h"
#include "runtime/agent/output_copying.h"
#include "runtime/agent/staging.h"
#include "tests/contains.h"
#include "tests/temporary_directory.h"
#include "tests/unit/node_scene.h"

namespace dlrun::agent {
namespace {

namespace fs = std::filesystem;

TEST_CASE(
    "a file that was changed just now is copied later, and only newer files replace older ones") {
  const NodeScene scene;
  const auto ckpt = scene.node / "ckpt";
  const auto out = scene.run / "out";
  scene.write(ckpt / "step-1/model", "one");
  scene.backdate(ckpt / "step-1/model", std::chrono::seconds(60));
  scene.write(ckpt / "young", "y");
  const auto first = scene.collect(false);
  CHECK(first.file_count == 1);
  CHECK(first.bytes == 3);
  CHECK(scene.text(out / "step-1/model") == "one");
  CHECK_FALSE(fs::exists(out / "young"));
  CHECK(scene.collect(false).file_count == 0);
  SUBCASE("the last copy includes the file that was changed just now") {
    CHECK(scene.collect(true).file_count == 1);
    CHECK(scene.text(out / "young") == "y");
  }
  SUBCASE("a newer file replaces its copy, an older one does not") {
    scene.write(ckpt / "step-1/model", "two");
    scene.backdate(ckpt / "step-1/model", std::chrono::seconds(30));
    CHECK(scene.collect(false).file_count == 1);
    CHECK(scene.text(out / "step-1/model") == "two");
    scene.write(ckpt / "step-1/model", "old");
    scene.backdate(ckpt / "step-1/model", std::chrono::seconds(90));
    CHECK(scene.collect(true).file_count == 1);  // the young file
    CHECK(scene.text(out / "step-1/model") == "two");
  }
  SUBCASE("a file that may be incomplete is stored beside its older copy") {
    scene.write(ckpt / "step-1/model", "tor");
    const auto incomplete_since = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::system_clock::now().time_since_epoch() - std::chrono::seconds(10));
    const auto last = scene.collect(true, incomplete_since);
    CHECK(scene.text(out / "step-1/model") == "one");
    CHECK(scene.text(out / "step-1/model.unfinished") == "tor");
    CHECK(scene.text(out / "young") == "y");  // there is no older copy
    REQUIRE(last.problems.size() == 1);
    CHECK(has(last.problems[0], "may be incomplete"));
  }
  SUBCASE("a copy stays if its source is deleted") {
    fs::remove_all(ckpt / "step-1");
    std::ignore = scene.collect(true);
    CHECK(scene.text(out / "step-1/model") == "one");
  }
}

TEST_CASE("special files, and links that leave the folder, are not collected") {
  const NodeScene scene;
  const auto ckpt = scene.node / "ckpt";
  scene.write(ckpt / "a", "a");
  fs::create_symlink("a", ckpt / "latest");
  fs::create_symlink("/etc/passwd", ckpt / "passwd");
  REQUIRE(::mkfifo((ckpt / "fifo").c_str(), 0600) == 0);
  const auto report = scene.collect(true);
  CHECK(report.problems.empty());
  CHECK(fs::read_symlink(scene.run / "out/latest") == "a");
  CHECK_FALSE(fs::exists(fs::symlink_status(scene.run / "out/passwd")));
  CHECK_FALSE(fs::exists(scene.run / "out/fifo"));
}

TEST_CASE("a link that cannot be made is reported, and the files are collected nevertheless") {
  const NodeScene scene;
  const auto ckpt = scene.node / "ckpt";
  scene.write(ckpt / "a", "a");
  fs::create_symlink("a", ckpt / "latest");
  // The link cannot be made, because this folder has the link's temporary name.
  const auto temporary =
      fmt::format(".{}.{}.dlrun-part", sha256_of_text("latest").substr(0, 16), own_host());
  scene.write(scene.run / "out" / temporary / "x", "x");
  const auto report = scene.collect(true);
  CHECK(scene.text(scene.run / "out/a") == "a");
  CHECK(report.file_count == 1);
  REQUIRE(report.problems.size() == 1);
  CHECK(has(report.problems[0], "the link latest is not copied: "));
}

TEST_CASE(
    "each of several nodes has a folder of its own, and the last copy reports a missing source "
    "folder") {
  const NodeScene scene;
  CHECK(scene.collect(false).problems.empty());
  REQUIRE(scene.collect(true).problems.size() == 1);
  CHECK(has(scene.collect(true).problems[0], "does not exist on the node"));
  scene.write(scene.node / "ckpt/a", "a");
  const auto report = collect_outputs({.items = {{"$NODE/ckpt", "out", std::nullopt}},
                                       .run = scene.run,
                                       .node = 3,
                                       .is_last = true,
                                       .incomplete_since = {}},
                                      scene.env);
  CHECK(report.file_count == 1);
  CHECK(scene.text(scene.run / "out/node-3/a") == "a");
}

TEST_CASE("the other files are collected even if a file or a folder cannot be read") {
  if (::geteuid() == 0) return;  // root can read everything
  const NodeScene scene;
  const auto ckpt = scene.node / "ckpt";
  scene.write(ckpt / "a", "a");
  scene.write(ckpt / "locked", "l");
  scene.write(ckpt / "closed/b", "b");
  scene.write(ckpt / "z", "z");
  REQUIRE(::chmod((ckpt / "locked").c_str(), 0) == 0);
  REQUIRE(::chmod((ckpt / "closed").c_str(), 0) == 0);
  const auto report = scene.collect(true);
  REQUIRE(::chmod((ckpt / "closed").c_str(), 0700) == 0);
  CHECK(report.file_count == 2);
  CHECK(scene.text(scene.run / "out/z") == "z");
  REQUIRE(report.problems.size() == 2);
  CHECK(has(report.problems[0], "locked"));
  CHECK(has(report.problems[1], "closed"));
}

TEST_CASE("a copy stops at its time limit, and its report says so") {
  const NodeScene scene;
  scene.write(scene.node / "ckpt/a", "a");
  const auto report = scene.collect(true, {}, std::chrono::seconds(0));
  CHECK(report.file_count == 0);
  REQUIRE(report.problems.size() == 1);
  CHECK(has(report.problems[0], "stopped after its limit of 0 s"));
}

TEST_CASE("a link in the place of the source folder on the node is not followed") {
  const NodeScene scene;
  fs::create_symlink("/etc", scene.node / "ckpt");
  const auto report = scene.collect(true);
  REQUIRE(report.problems.size() == 1);
  CHECK(has(report.problems[0], "is a symbolic link"));
  CHECK(report.file_count == 0);
}

TEST_CASE(
    "the last copy of outputs removes the old temporary files of killed copies, and nothing else") {
  const NodeScene scene;
  scene.write(scene.node / "ckpt/a", "a");
  const auto leftover = scene.run / "out/.0123456789abcdef.old-host.dlrun-part";
  const auto users_file = scene.run / "out/.mine.dlrun-part";
  scene.write(leftover, "x");
  scene.write(users_file, "x");
  const auto collect = [&](bool is_last, std::chrono::seconds age) {
    const OutputItem item{"$NODE/ckpt", "out", std::nullopt, std::chrono::seconds(60)};
    const CollectOptions options{
        .items = {item}, .run = scene.run, .is_last = is_last, .leftover_age = age};
    return collect_outputs(options, scene.env);
  };
  CHECK(collect(false, std::chrono::seconds(0)).problems.empty());
  CHECK(fs::exists(leftover));
  CHECK(collect(true, kLeftoverAge).problems.empty());
  CHECK(fs::exists(leftover));  // another attempt may be writing it
  CHECK(collect(true, std::chrono::seconds(0)).problems.empty());
  CHECK_FALSE(fs::exists(leftover));
  CHECK(fs::exists(users_file));
  CHECK(scene.text(scene.run / "out/a") == "a");
}

}  // namespace
}  // namespace dlrun::agent
