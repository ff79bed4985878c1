#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>

#include "common/bad_nodes.h"
#include "tests/contains.h"
#include "tests/unit/cli_fixture.h"

using namespace dlrun;
namespace fs = std::filesystem;

namespace {

struct NodesFixture : CliFixture {
  /// Creates a list that remembers n1 and n2 for an hour.
  void remember(const fs::path& list) {
    const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
    fs::create_directories(list.parent_path());
    const std::vector<BadNode> nodes{{"n1", "", "hot", "", "", now, now + std::chrono::hours(1)},
                                     {"n2", "", "hot", "", "", now, now + std::chrono::hours(1)}};
    REQUIRE(remember_bad_nodes(list, nodes));
  }
  /// Creates a site with its own runs folder, and selects it.
  void choose_site() {
    const auto sites = folder / ".config/dlrun/sites";
    fs::create_directories(sites);
    std::ofstream(sites / "alpine.yaml") << "help: a site\nruns_dir: ${HOME}/of-the-site\n";
    cli.env.set("DLRUN_SITE", "alpine");
  }
};

}  // namespace

TEST_CASE_FIXTURE(NodesFixture,
                  "nodes --forget removes no node if one of the given nodes is unknown") {
  const auto list = folder / "runs/known-bad.jsonl";
  remember(list);
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

TEST_CASE_FIXTURE(NodesFixture, "nodes reads the list in the site's runs folder") {
  choose_site();
  CHECK(has(code_and_stderr({"nodes"}), "/of-the-site/known-bad.jsonl"));
  CHECK(has(code_and_stderr({"nodes", "--runs", "mine"}), "/mine/known-bad.jsonl"));
}

TEST_CASE_FIXTURE(NodesFixture, "a hand-written script is recorded in the site's runs folder") {
  choose_site();
  REQUIRE(write_file_atomic(folder / "job.sh", "#!/bin/sh\n#SBATCH -J own\ntrue\n"));
  CHECK(has(code_and_stderr({"submit", "job.sh", "--dry-run"}), "/of-the-site/"));
}

TEST_CASE_FIXTURE(NodesFixture, "container list accepts images whose names have no scheme") {
  const auto images = folder / ".cache/dlrun/images";
  fs::create_directories(images);
  const std::string digest(64, 'a');
  std::ofstream(images / (digest + ".sqsh")) << "image";
  std::ofstream(images / "x.json") << R"({"image": "x", "digest": ")" << digest << "\"}";
  const auto out = folder / "out";
  std::ofstream(out).close();
  CHECK(code_and_stderr({"container", "list"}, out.c_str()) == "0\n");
}

TEST_CASE_FIXTURE(CliFixture, "bench scaling ends with 130 after each signal that ends it") {
  REQUIRE(write_file_atomic(folder / "x.yaml",
                            "resources: {time: 1m}\nlaunch: {command: [\"true\"]}\n"));
  fs::create_directory(cli.bin_dir);
  cli.env.set("PATH", "/usr/bin:/bin");
  for (const auto* signal : {"INT", "TERM", "HUP"}) {
    CAPTURE(signal);
    REQUIRE(write_file_atomic(cli.bin_dir / "dlrun",
                              fmt::format("#!/bin/sh\nkill -{} {}\n", signal, ::getpid()), 0700));
    CHECK(code_and_stderr({"bench", "scaling", "x.yaml", "--nodes", "1"}).starts_with("130\n"));
  }
}
