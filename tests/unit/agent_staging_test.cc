// Tests how an agent stages data to a node.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>

#include <doctest/doctest.h>

#include "common/files.h"
#include "common/subprocess.h"
#include "runtime/agent/copy_items.h"
#include "runtime/agent/copy_report.h"
#include "runtime/agent/file_broadcast.h"
#include "runtime/agent/file_tree.h"
#include "runtime/agent/output_copying.h"
#include "runtime/agent/staging.h"
#include "tests/contains.h"
#include "tests/temporary_directory.h"
#include "tests/unit/node_scene.h"

namespace dlrun::agent {
namespace {

namespace fs = std::filesystem;

TEST_CASE(
    "$VARIABLE/PATH is a place on a node only if the variable has an existing folder and PATH "
    "stays below it") {
  const NodeScene scene;
  const auto place = node_path("$NODE/a/b", scene.env);
  REQUIRE(place);
  CHECK(place->path == fs::canonical(scene.node) / "a/b");
  CHECK(node_path("$NODE/../x", scene.env).error().message ==
        "'$NODE/../x' is not a path below $NODE: write $NODE/PATH, where no part of PATH is empty, "
        "`.` or `..`");
  CHECK_FALSE(node_path("$NODE/", scene.env));
  CHECK_FALSE(node_path("/tmp/data", scene.env));
  CHECK(
      has(node_path("$NO_SUCH/x", scene.env).error().message, "$NO_SUCH is not set on this node"));
  auto env = scene.env;
  env.set("NODE", (scene.node / "missing").string());
  CHECK(has(node_path("$NODE/x", env).error().message, "does not exist on this node"));
  scene.write(scene.node / "file", "x");
  env.set("NODE", (scene.node / "file").string());
  CHECK(has(node_path("$NODE/x", env).error().message, "is not a folder on this node"));
  env.unset("TMPDIR");
  REQUIRE(node_path("$TMPDIR/x", env));
  CHECK(node_path("$TMPDIR/x", env)->path == fs::canonical("/tmp") / "x");
  set_missing_tmpdir({{"/a", "$TMPDIR/x"}}, {}, env);
  CHECK(env.get_or("TMPDIR", "") == "/tmp");
}

TEST_CASE("the JSON of an item can be read back, and wrong JSON is refused") {
  const StageItem item{"/d/a b.tar", "$TMPDIR/\"x\"", true, true};
  const auto again = StageItem::parse(item.json());
  REQUIRE(again);
  CHECK(again->from == item.from);
  CHECK(again->to == item.to);
  CHECK(again->unpack);
  CHECK(again->in_container);
  const auto output = OutputItem::parse(R"({"from":"$T/c","to":"out","every_s":60,"limit_s":5})");
  REQUIRE(output);
  CHECK(output->every == std::chrono::seconds(60));
  CHECK(output->json() == R"({"from":"$T/c","to":"out","every_s":60,"limit_s":5})");
  CHECK_FALSE(StageItem::parse("no JSON"));
  CHECK_FALSE(StageItem::parse(R"({"from":"relative","to":"$T/x"})"));
  CHECK_FALSE(OutputItem::parse(R"({"from":"$T/x"})"));
}

TEST_CASE("a copy report can be read back, and a missing report is an error") {
  const CopyReport report{.file_count = 3,
                          .bytes = 4096,
                          .held = {{"/l", "/n", "feed"}},
                          .problems = {"p"},
                          .error = ""};
  const auto again = CopyReport::of_line(report.line() + "\n");
  CHECK(again.file_count == 3);
  CHECK(again.bytes == 4096);
  REQUIRE(again.held.size() == 1);
  CHECK(again.held[0].hash == "feed");
  CHECK(again.problems == report.problems);
  CHECK(again.error.empty());
  CHECK(CopyReport::of_line("").error == "the copying ended without a report");
}

TEST_CASE("a folder is staged with its links and times, and a second attempt copies nothing") {
  const NodeScene scene;
  scene.write(scene.shared / "set/train/a.bin", "aaaa");
  scene.write(scene.shared / "set/b.bin", "bb");
  scene.write(scene.shared / "outside", "o");
  fs::create_symlink("b.bin", scene.shared / "set/inner");
  fs::create_symlink("../outside", scene.shared / "set/outer");
  const auto first = scene.stage("set");
  CHECK(first.error.empty());
  CHECK(first.file_count == 2);
  CHECK(first.bytes == 6);
  const auto data = scene.node / "data";
  CHECK(scene.text(data / "train/a.bin") == "aaaa");
  CHECK(fs::read_symlink(data / "inner") == "b.bin");
  CHECK(scene.text(data / "outer") == "o");
  CHECK(fs::last_write_time(data / "b.bin") == fs::last_write_time(scene.shared / "set/b.bin"));
  const auto second = scene.stage("set");
  CHECK(second.error.empty());
  CHECK(second.file_count == 0);
  SUBCASE("a source with another time is copied again") {
    scene.backdate(scene.shared / "set/b.bin", std::chrono::seconds(100));
    CHECK(scene.stage("set").file_count == 2);
  }
  SUBCASE("a copy that the program has changed is replaced") {
    scene.write(data / "b.bin", "changed");
    CHECK(scene.stage("set").file_count == 2);
    CHECK(scene.text(data / "b.bin") == "bb");
  }
  SUBCASE("the unfinished copy of a killed process is replaced") {
    scene.write(scene.node / ".data.dlrun-part/half", "x");
    scene.write(scene.node / ".data.dlrun-note", R"({"source":"s","copy":""})");
    CHECK(scene.stage("set").file_count == 2);
    CHECK_FALSE(fs::exists(scene.node / ".data.dlrun-part"));
    CHECK_FALSE(fs::exists(data / "half"));
  }
}

TEST_CASE("a single file is staged as the target itself, not into a folder of that name") {
  const NodeScene scene;
  scene.write(scene.shared / "weights", "w");
  const auto report = scene.stage("weights");
  CHECK(report.error.empty());
  CHECK(scene.text(scene.node / "data") == "w");
  CHECK(scene.stage("weights").file_count == 0);
}

TEST_CASE(
    "data that dlrun has not staged are not replaced, and unsafe folders above the target are "
    "refused") {
  const NodeScene scene;
  scene.write(scene.shared / "set/a", "a");
  SUBCASE("a folder that dlrun has not staged stays") {
    scene.write(scene.node / "data/mine", "m");
    CHECK(has(scene.stage("set").error, "exists and dlrun has not staged it"));
    CHECK(scene.text(scene.node / "data/mine") == "m");
  }
  SUBCASE("a folder above the target that others can write is refused") {
    fs::create_directory(scene.node / "open");
    REQUIRE(::chmod((scene.node / "open").c_str(), 0777) == 0);
    const auto report =
        stage_data({{{(scene.shared / "set").string(), "$NODE/open/data"}}, 1}, scene.env);
    CHECK(has(report.error, "is not a folder of your own"));
  }
  SUBCASE("a link in place of a folder above the target is refused") {
    fs::create_symlink(scene.shared, scene.node / "link");
    const auto report =
        stage_data({{{(scene.shared / "set").string(), "$NODE/link/data"}}, 1}, scene.env);
    CHECK(has(report.error, "is not a folder of your own"));
    CHECK_FALSE(fs::exists(scene.shared / "data"));
  }
}

TEST_CASE("an error of staging shows the source and the target") {
  const NodeScene scene;
  const auto report = scene.stage("missing");
  CHECK(has(report.error,
            "cannot stage " + (scene.shared / "missing").string() + " to $NODE/data: "));
  CHECK(has(report.error, "No such file or directory"));
  REQUIRE(::mkfifo((scene.shared / "fifo").c_str(), 0600) == 0);
  CHECK(has(scene.stage("fifo").error, "neither a file nor a folder nor a link"));
  CHECK_FALSE(fs::exists(scene.node / "data"));
}

TEST_CASE(
    "data that another run uses are shared by a run with the same source, and another source does "
    "not replace them") {
  const NodeScene scene;
  scene.write(scene.shared / "set/a", "a");
  scene.write(scene.shared / "other/a", "other");
  const auto first = scene.stage("set");
  REQUIRE(first.held.size() == 1);
  const auto held = hold_staged(first.held[0]);
  REQUIRE(held);
  const auto same = scene.stage("set");
  CHECK(same.error.empty());
  CHECK(same.file_count == 0);
  CHECK(has(scene.stage("other").error, "another run on this node uses"));
  CHECK(scene.text(scene.node / "data/a") == "a");
}

TEST_CASE(
    "a run that finds another run checking the staged data waits, and replaces them afterwards") {
  const NodeScene scene;
  scene.write(scene.shared / "set/a", "a");
  scene.write(scene.shared / "other/a", "other");
  REQUIRE(scene.stage("other").error.empty());
  // The future's destructor waits for a thread that needs the locks. The locks are declared after
  // the future, so they are released first.
  std::future<CopyReport> second;
  // The first run checks the data. It holds .dlrun-turn, which only one run holds at a time, and
  // shares .dlrun-lock with the programs that use the data.
  UniqueFd turn(
      ::open((scene.node / ".data.dlrun-turn").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  UniqueFd lock(::open((scene.node / ".data.dlrun-lock").c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(::flock(turn.get(), LOCK_EX | LOCK_NB) == 0);
  REQUIRE(::flock(lock.get(), LOCK_SH | LOCK_NB) == 0);
  second = std::async(std::launch::async, [&] { return scene.stage("set"); });
  CHECK(second.wait_for(std::chrono::milliseconds(300)) == std::future_status::timeout);
  CHECK(::flock(lock.get(), LOCK_EX | LOCK_NB) == 0);  // the waiting run holds no lock
  lock.reset();
  turn.reset();
  CHECK(second.get().error == "");
  CHECK(scene.text(scene.node / "data/a") == "a");
}

TEST_CASE("staged data that another run has replaced are not used") {
  const NodeScene scene;
  scene.write(scene.shared / "set/a", "a");
  scene.write(scene.shared / "other/a", "other");
  const auto first = scene.stage("set");
  REQUIRE(first.held.size() == 1);
  REQUIRE(scene.stage("other").error.empty());
  const auto held = hold_staged(first.held[0]);
  REQUIRE_FALSE(held);
  CHECK(held.error().code == Errc::kRefused);
  const auto lock = UniqueFd(::open(first.held[0].lock.c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(::flock(lock.get(), LOCK_EX) == 0);
  CHECK(hold_staged(first.held[0]).error().code == Errc::kUnavailable);
}

/// Makes an archive of a folder of `shared` with the machine's tar.
void pack(const NodeScene& scene, const std::string& folder, const std::string& archive) {
  Command command;
  command.argv = {"tar",
                  "--create",
                  "--file",
                  (scene.shared / archive).string(),
                  "--directory",
                  (scene.shared / folder).string(),
                  "."};
  command.env = scene.env;
  const auto finished = run_command(command);
  REQUIRE(finished);
  REQUIRE(finished->exit_code == 0);
}

TEST_CASE("an archive is unpacked once, and one with a link that leaves its folder is refused") {
  const NodeScene scene;
  scene.write(scene.shared / "set/train/a", "a");
  SUBCASE("an archive of files") {
    pack(scene, "set", "set.tar");
    CHECK(scene.stage("set.tar", true).error.empty());
    CHECK(scene.text(scene.node / "data/train/a") == "a");
    CHECK(scene.stage("set.tar", true).file_count == 0);
  }
  SUBCASE("a link that leaves the folder") {
    fs::create_symlink("../../etc", scene.shared / "set/evil");
    pack(scene, "set", "set.tar");
    CHECK(has(scene.stage("set.tar", true).error, "has a link that leaves its folder"));
    CHECK_FALSE(fs::exists(scene.node / "data"));
  }
  SUBCASE("a file that is no archive") {
    scene.write(scene.shared / "set.tar", "no archive");
    CHECK(has(scene.stage("set.tar", true).error, "tar cannot unpack"));
    CHECK_FALSE(fs::exists(scene.node / "data"));
    CHECK_FALSE(fs::exists(scene.node / ".data.dlrun-part"));
  }
}

TEST_CASE(
    "the unpacked copy of a changed archive is replaced, even if folders in the copy are not "
    "writable") {
  const NodeScene scene;
  scene.write(scene.shared / "set/train/a", "a");
  REQUIRE(::chmod((scene.shared / "set/train").c_str(), 0555) == 0);
  pack(scene, "set", "set.tar");
  REQUIRE(::chmod((scene.shared / "set/train").c_str(), 0755) == 0);
  REQUIRE(scene.stage("set.tar", true).error.empty());
  scene.backdate(scene.shared / "set.tar", std::chrono::seconds(60));
  const auto again = scene.stage("set.tar", true);
  CHECK(again.error.empty());
  CHECK(again.file_count == 1);
  CHECK(::chmod((scene.node / "data/train").c_str(), 0755) == 0);  // lets the test remove it
}

TEST_CASE("only the owner can write a staged copy") {
  const NodeScene scene;
  scene.write(scene.shared / "weights", "w");
  REQUIRE(::chmod((scene.shared / "weights").c_str(), 0777) == 0);
  REQUIRE(scene.stage("weights").error.empty());
  struct stat info {};
  REQUIRE(::stat((scene.node / "data").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777U) == 0755U);
}

TEST_CASE("link_stays_inside() is true only if the target of a link is inside the link's tree") {
  CHECK(link_stays_inside("a/b", "../c"));
  CHECK(link_stays_inside("a", "./b/../c"));
  CHECK_FALSE(link_stays_inside("a", "../c"));
  CHECK_FALSE(link_stays_inside("a/b", "../../c"));
  CHECK_FALSE(link_stays_inside("a/b", "c/../../../d"));
  CHECK_FALSE(link_stays_inside("a", "/etc"));
  CHECK_FALSE(link_stays_inside("a", ""));
}

TEST_CASE("a file that changes while it is copied is noticed, and leaves no copy") {
  const NodeScene scene;
  const auto source = scene.shared / "a";
  scene.write(source, "first");
  auto entry = list_tree(source)->entries.front();
  const auto never = [] { return false; };
  CHECK(copy_entry(source, scene.node / "a", entry, true, never));
  entry.stamp.bytes = 4;  // the size when the file was listed
  const auto changed = copy_entry(source, scene.node / "b", entry, true, never);
  REQUIRE_FALSE(changed);
  CHECK(changed.error().code == Errc::kRefused);
  CHECK_FALSE(fs::exists(scene.node / "b"));
  // The file grows between two pieces of the copy.
  scene.write(source, std::string(3U << 20U, 'x'));
  entry = list_tree(source)->entries.front();
  int piece_count = 0;
  const auto grow_source = [&] {
    if (++piece_count == 2) std::ofstream(source, std::ios::app) << "more";
    return false;
  };
  CHECK(copy_entry(source, scene.node / "b", entry, true, grow_source).error().code ==
        Errc::kRefused);
  CHECK_FALSE(fs::exists(scene.node / "b"));
}

TEST_CASE("the error for too little space has the needed and the free size") {
  const NodeScene scene;
  CHECK(check_space(scene.node, 1));
  const auto full = check_space(scene.node, std::int64_t{1} << 60);
  REQUIRE_FALSE(full);
  CHECK(has(full.error().message, "are needed in"));
  CHECK(has(full.error().message, "are free there"));
  CHECK(has(check_space(scene.node / "missing", 1).error().message, "the free space is unknown"));
}

TEST_CASE(
    "a broadcast file is used if it has the size and time of the source, and is removed in any "
    "case") {
  const NodeScene scene;
  scene.write(scene.shared / "weights", "wwww");
  scene.backdate(scene.shared / "weights", std::chrono::seconds(60));
  const auto broadcast_file = scene.node / ".dlrun-sbcast-feed";
  const auto stage = [&] {
    return stage_data({{{(scene.shared / "weights").string(), "$NODE/data", false, false,
                         broadcast_file.string()}},
                       1},
                      scene.env);
  };
  scene.write(broadcast_file, "sent");
  SUBCASE("the same size and time") {
    fs::last_write_time(broadcast_file, fs::last_write_time(scene.shared / "weights"));
    CHECK(stage().error.empty());
    CHECK(scene.text(scene.node / "data") == "sent");
    CHECK(fs::last_write_time(scene.node / "data") ==
          fs::last_write_time(scene.shared / "weights"));
  }
  SUBCASE("another time") {
    CHECK(stage().error.empty());
    CHECK(scene.text(scene.node / "data") == "wwww");
  }
  CHECK_FALSE(fs::exists(broadcast_file));
}

TEST_CASE(
    "staging removes the files that were left in its folder by this user's killed copies, and no "
    "others") {
  const NodeScene scene;
  scene.write(scene.shared / "set", "new");
  const auto unfinished = scene.node / ".older.dlrun-part", lock = scene.node / ".older.dlrun-lock";
  const auto broadcast_file = scene.node / ".dlrun-sbcast-0123456789abcdef";
  scene.write(unfinished / "half/x", "x");
  scene.write(lock, "");
  scene.write(broadcast_file, "x");
  const std::vector<fs::path> others{
      scene.node / ".dlrun-sbcast-0123456789abcde",   // no name of a broadcast file
      scene.node / ".dlrun-sbcast-0123456789abcdeg",  // no name of a broadcast file
      scene.node / "x.dlrun-part",                    // no name of a copy
      scene.node / ".unlocked.dlrun-part",            // no staging has made it: it has no lock
  };
  for (const auto& other : others) scene.write(other, "x");
  const auto link = scene.node / ".dlrun-sbcast-00000000000000ff";
  fs::create_symlink(others[0], link);
  const auto stage = [&](std::chrono::seconds age) {
    return stage_data({{{(scene.shared / "set").string(), "$NODE/data"}}, 1, age}, scene.env).error;
  };
  SUBCASE("the files are abandoned") {
    CHECK(stage(std::chrono::seconds(0)) == "");
    CHECK_FALSE(fs::exists(unfinished));
    CHECK_FALSE(fs::exists(broadcast_file));
  }
  SUBCASE("the broadcast file is younger than the limit") {
    CHECK(stage(kLeftoverAge) == "");
    CHECK(fs::exists(broadcast_file));
  }
  SUBCASE("other runs use the files") {
    const UniqueFd copier_lock(::open(lock.c_str(), O_RDWR | O_CLOEXEC));
    const UniqueFd reader_lock(::open(broadcast_file.c_str(), O_RDONLY | O_CLOEXEC));
    REQUIRE(::flock(copier_lock.get(), LOCK_EX | LOCK_NB) == 0);
    REQUIRE(::flock(reader_lock.get(), LOCK_SH | LOCK_NB) == 0);
    CHECK(stage(std::chrono::seconds(0)) == "");
    CHECK(fs::exists(unfinished / "half/x"));
    CHECK(fs::exists(broadcast_file));
  }
  SUBCASE("the files belong to another user") {
    if (::geteuid() != 0) return;  // only root can give files away
    constexpr uid_t kOtherUser = 65534;
    REQUIRE(::lchown(unfinished.c_str(), kOtherUser, kOtherUser) == 0);
    REQUIRE(::lchown(broadcast_file.c_str(), kOtherUser, kOtherUser) == 0);
    CHECK(stage(std::chrono::seconds(0)) == "");
    CHECK(fs::exists(unfinished));
    CHECK(fs::exists(broadcast_file));
  }
  for (const auto& other : others) CHECK(fs::exists(other));
  CHECK(fs::is_symlink(link));
  CHECK(scene.text(scene.node / "data") == "new");
}

TEST_CASE("the broadcast file of an item that is not staged yet is no leftover") {
  const NodeScene scene;
  scene.write(scene.shared / "a", "a");
  scene.write(scene.shared / "b", "wwww");
  const auto broadcast_file = scene.node / ".dlrun-sbcast-0123456789abcdef";
  scene.write(broadcast_file, "sent");
  fs::last_write_time(broadcast_file, fs::last_write_time(scene.shared / "b"));
  const auto report = stage_data(
      {{{(scene.shared / "a").string(), "$NODE/a"},
        {(scene.shared / "b").string(), "$NODE/b", false, false, broadcast_file.string()}},
       1,
       std::chrono::seconds(0)},
      scene.env);
  CHECK(report.error.empty());
  CHECK(scene.text(scene.node / "b") == "sent");
}

TEST_CASE("only large files for many nodes are broadcast, and a broadcast that fails is reported") {
  NodeScene scene;
  scene.write(scene.shared / "small", "s");
  const fs::path large = scene.shared / "large";
  scene.write(large, "");
  fs::resize_file(large, static_cast<std::uintmax_t>(kLeastBroadcastBytes));
  scene.write(scene.node / "bin/sbcast", "#!/bin/sh\n");
  REQUIRE(::chmod((scene.node / "bin/sbcast").c_str(), 0755) == 0);
  scene.env.set("PATH", (scene.node / "bin").string());
  const std::vector<StageItem> items{{(scene.shared / "small").string(), "$NODE/small"},
                                     {large.string(), "$NODE/large"}};
  const auto planned = planned_file_broadcasts(items, scene.env, kLeastBroadcastNodes);
  REQUIRE(planned.size() == 1);
  CHECK(planned[0].item == 1);
  CHECK(planned[0].to.parent_path() == fs::canonical(scene.node));
  CHECK(planned_file_broadcasts(items, scene.env, kLeastBroadcastNodes - 1).empty());
  scene.env.set("DLRUN_SBCAST_NODES", "2");
  CHECK(planned_file_broadcasts(items, scene.env, 2).size() == 1);
  scene.env.set("DLRUN_SBCAST_NODES", "0");
  CHECK(planned_file_broadcasts(items, scene.env, 1000).empty());
  auto in_container_items = items;
  in_container_items[1].in_container = true;
  scene.env.unset("DLRUN_SBCAST_NODES");
  CHECK(planned_file_broadcasts(in_container_items, scene.env, kLeastBroadcastNodes).empty());
  const auto broadcast = broadcast_files(planned, items.size(), scene.env);
  CHECK(broadcast.copies == std::vector<std::string>{"", planned[0].to.string()});
  scene.write(scene.node / "bin/sbcast", "#!/bin/sh\necho 'sbcast: error: no' >&2; exit 1\n");
  const auto failed = broadcast_files(planned, items.size(), scene.env);
  CHECK(failed.copies == broadcast.copies);  // the agents remove a partial copy
  REQUIRE(failed.problems.size() == 1);
  CHECK(has(failed.problems[0], "sbcast: error: no"));
}

}  // namespace
}  // namespace dlrun::agent
