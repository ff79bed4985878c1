// Tests the list of bad nodes that runs share: one file, which other users may be able to write.

#include "common/bad_nodes.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include <doctest/doctest.h>

#include "common/files.h"
#include "common/json_lines.h"
#include "tests/temporary_directory.h"

namespace dlrun {
namespace {

using std::chrono::hours;
using std::chrono::sys_seconds;

constexpr sys_seconds kNow{std::chrono::seconds(1'800'000'000)};

BadNode bad_node(std::string node, std::string reason = "its disk is full",
                 std::string cluster = "grete") {
  return {std::move(node), std::move(cluster), std::move(reason), "mnist-1", "42", kNow,
          kNow + hours(1)};
}

std::vector<std::string> names_of(const Result<std::vector<BadNode>>& nodes) {
  REQUIRE(nodes);
  std::vector<std::string> all;
  for (const BadNode& one : *nodes) all.push_back(one.node);
  return all;
}

}  // namespace

TEST_CASE("bad nodes are remembered until their time is over, each with its latest reason") {
  const TemporaryDirectory folder;
  const auto file = folder.path() / "known-bad.jsonl";
  CHECK(names_of(read_bad_nodes(file, kNow)).empty());
  const std::vector<BadNode> first{bad_node("n2"), bad_node("n1")};
  REQUIRE(remember_bad_nodes(file, first));
  const std::vector<BadNode> again{bad_node("n2", "it hung")};
  REQUIRE(remember_bad_nodes(file, again));

  const auto known = read_bad_nodes(file, kNow);
  CHECK(names_of(known) == std::vector<std::string>{"n1", "n2"});
  CHECK((*known)[1].reason == "it hung");
  CHECK((*known)[1].run == "mnist-1");
  CHECK((*known)[1].job == "42");
  CHECK((*known)[1].until == kNow + hours(1));
  CHECK(names_of(read_bad_nodes(file, kNow + hours(1))).empty());
}

TEST_CASE("a node that is forgotten counts as good on every cluster, until it is bad again") {
  const TemporaryDirectory folder;
  const auto file = folder.path() / "known-bad.jsonl";
  const std::vector<BadNode> nodes{bad_node("n1"), bad_node("n1", "lost", "juwels"),
                                   bad_node("n2")};
  REQUIRE(remember_bad_nodes(file, nodes));
  REQUIRE(forget_bad_node(file, "n1", kNow));
  CHECK(names_of(read_bad_nodes(file, kNow)) == std::vector<std::string>{"n2"});
  const std::vector<BadNode> again{bad_node("n1")};
  REQUIRE(remember_bad_nodes(file, again));
  CHECK(names_of(read_bad_nodes(file, kNow)) == std::vector<std::string>{"n1", "n2"});
}

TEST_CASE("several runs that remember bad nodes at the same time lose none") {
  const TemporaryDirectory folder;
  const auto file = folder.path() / "known-bad.jsonl";
  std::vector<std::thread> runs;
  for (int run = 0; run < 8; ++run) {
    runs.emplace_back([&, run] {
      for (int i = 0; i < 20; ++i) {
        const std::vector<BadNode> one{bad_node(fmt::format("n{}", run * 20 + i))};
        CHECK(remember_bad_nodes(file, one));
      }
    });
  }
  for (auto& run : runs) run.join();
  CHECK(names_of(read_bad_nodes(file, kNow)).size() == 160);
}

TEST_CASE("a line after an incomplete line is not lost") {
  const TemporaryDirectory folder;
  const auto file = folder.path() / "known-bad.jsonl";
  REQUIRE(create_file_exclusive(file, R"({"node":"n9","un)"));
  const std::vector<BadNode> one{bad_node("n1")};
  REQUIRE(remember_bad_nodes(file, one));
  CHECK(names_of(read_bad_nodes(file, kNow)) == std::vector<std::string>{"n1"});
}

TEST_CASE("lines whose field `node` is not the name of one node are ignored") {
  const TemporaryDirectory folder;
  const auto file = folder.path() / "known-bad.jsonl";
  std::vector<BadNode> nodes;
  for (const char* name : {"", "--help", "n[1-9]", "n1,n2", "../n1", "n 1", "\x1b[31mn1"})
    nodes.push_back(bad_node(name));
  nodes.push_back(bad_node("n3"));
  REQUIRE(remember_bad_nodes(file, nodes));
  CHECK(names_of(read_bad_nodes(file, kNow)) == std::vector<std::string>{"n3"});
}

TEST_CASE("a bad node at the end of a large damaged list is found") {
  const TemporaryDirectory folder;
  const auto file = folder.path() / "known-bad.jsonl";
  REQUIRE(create_file_exclusive(file, std::string(3U << 20U, 'x')));
  const std::vector<BadNode> one{bad_node("n1")};
  REQUIRE(remember_bad_nodes(file, one));
  CHECK(names_of(read_bad_nodes(file, kNow)) == std::vector<std::string>{"n1"});
}

TEST_CASE("only the beginning of a long text in the list is read, because others may write it") {
  const TemporaryDirectory folder;
  const auto file = folder.path() / "known-bad.jsonl";
  std::string reason = "x";
  for (int i = 0; i < 100'000; ++i) reason += "\u00e9";  // two bytes
  const auto line = to_checked_line({{"node", "n1"},
                                     {"cluster", "grete"},
                                     {"reason", reason},
                                     {"run", reason},
                                     {"job", "42"},
                                     {"since", kNow.time_since_epoch().count()},
                                     {"until", (kNow + hours(1)).time_since_epoch().count()}});
  REQUIRE(create_file_exclusive(file, line));
  const auto known = read_bad_nodes(file, kNow);
  REQUIRE(names_of(known) == std::vector<std::string>{"n1"});
  CHECK((*known)[0].reason == reason.substr(0, 399));  // whole characters of the first 400 bytes
  CHECK((*known)[0].run == reason.substr(0, 399));
}

TEST_CASE("a list that is not a regular file is refused without waiting") {
  const TemporaryDirectory folder;
  const auto pipe = folder.path() / "known-bad.jsonl";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(read_bad_nodes(pipe, kNow).error().code == Errc::kInvalid);
  const std::vector<BadNode> one{bad_node("n1")};
  CHECK_FALSE(remember_bad_nodes(pipe, one));
  CHECK_FALSE(read_bad_nodes(folder.path(), kNow));
}

TEST_CASE(
    "a list that is a symbolic or hard link to another file is not written, and a symbolic link is "
    "not read") {
  const TemporaryDirectory folder;
  const auto precious = folder.path() / "precious", list = folder.path() / "known-bad.jsonl";
  REQUIRE(create_file_exclusive(precious, "alias ll='ls -l'\n"));
  SUBCASE("a symbolic link") {
    std::filesystem::create_symlink(precious, list);
    CHECK_FALSE(read_bad_nodes(list, kNow));
  }
  SUBCASE("a symbolic link to no file") {
    std::filesystem::create_symlink(folder.path() / "none", list);
  }
  SUBCASE("a hard link") {
    std::filesystem::create_hard_link(precious, list);
  }
  const std::vector<BadNode> one{bad_node("n1")};
  CHECK_FALSE(remember_bad_nodes(list, one));
  CHECK_FALSE(forget_bad_node(list, "n3", kNow));
  CHECK(read_file(precious, 1000).value_or("") == "alias ll='ls -l'\n");
  CHECK_FALSE(std::filesystem::exists(folder.path() / "none"));
}

}  // namespace dlrun
