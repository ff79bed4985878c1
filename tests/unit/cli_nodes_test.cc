#include <filesystem>

#include <doctest/doctest.h>

#include "common/bad_nodes.h"
#include "tests/contains.h"
#include "tests/unit/cli_fixture.h"

using namespace dlrun;
namespace fs = std::filesystem;

namespace {

struct NodesFixture : CliFixture {
  /// Creates a list that remembers n1 and n2 for an hour.
  void create_list_with_n1_and_n2(const fs::path& list) {
    const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
    fs::create_directories(list.parent_path());
    const std::vector<BadNode> nodes{{"n1", "", "hot", "", "", now, now + std::chrono::hours(1)},
                                     {"n2", "", "hot", "", "", now, now + std::chrono::hours(1)}};
    REQUIRE(remember_bad_nodes(list, nodes));
  }
};

}  // namespace

TEST_CASE_FIXTURE(NodesFixture,
                  "nodes --forget removes no node if one of the given nodes is unknown") {
  const auto list = folder / "runs/known-bad.jsonl";
  create_list_with_n1_and_n2(list);
  const auto before = read("runs/known-bad.jsonl");
  for (const auto* second : {"typo", "n[2-3]"}) {
    const auto result = code_and_stderr({"nodes", "--forget", "n1", "--forget", second});
    CHECK(result.starts_with("6\n"));
    CHECK_FALSE(has(result, "no longer"));
    CHECK(read("runs/known-bad.jsonl") == before);
  }
  CHECK(code_and_stderr({"nodes", "--forget", "n1", "--forget", "n2"}).starts_with("0\n"));
  CHECK(has(code_and_stderr({"nodes"}), "no node is remembered as bad"));
}

TEST_CASE_FIXTURE(NodesFixture, "nodes --forget refuses --json and forgets no node") {
  const auto list = folder / "runs/known-bad.jsonl";
  create_list_with_n1_and_n2(list);
  const auto before = read("runs/known-bad.jsonl");
  CHECK(code_and_stderr({"nodes", "--forget", "n1", "--json"}) ==
        "2\ndlrun: error: --json lists nodes; it cannot be combined with --forget\n");
  CHECK(read("runs/known-bad.jsonl") == before);
}

TEST_CASE_FIXTURE(NodesFixture, "nodes refuses a --runs that is not a folder") {
  std::ofstream(folder / "file") << "text";
  const auto result = code_and_stderr({"nodes", "--runs", "file"});
  CHECK(result.starts_with("6\n"));
  CHECK(has(result, "file: is not a folder"));
}

TEST_CASE_FIXTURE(
    NodesFixture,
    "nodes reads the list in the site's runs folder, or in the folder that --runs gives") {
  create_and_select_site();
  CHECK(has(code_and_stderr({"nodes"}), "/of-the-site/known-bad.jsonl"));
  CHECK(has(code_and_stderr({"nodes", "--runs", "mine"}), "/mine/known-bad.jsonl"));
}
