#include <sys/stat.h>

#include <chrono>
#include <fstream>

#include <doctest/doctest.h>

#include "common/files.h"
#include "common/sha256.h"
#include "launcher/runs/log_file.h"
#include "launcher/runs/tools.h"
#include "tests/temporary_directory.h"

using namespace dlrun;

namespace {

struct Fixture {
  TemporaryDirectory folder;
  std::filesystem::path root = folder.path() / "root", runs = folder.path() / "runs";
  ToolSet tools{"hash", {}};
  Fixture() {
    std::filesystem::create_directories(root / "bin");
    std::filesystem::create_directories(root / "lib/dlrun");
    add("bin/dlrun-agent", std::string(3'000'000, 'a'));
    add("bin/dlrun-trainer", "trainer");
    add("lib/dlrun/dlrun-comm-x.so", "module");
  }
  void add(const std::string& place, const std::string& content) {
    REQUIRE(write_file_atomic(root / place, content, 0755).has_value());
    tools.files.push_back({place, *sha256_of_file(root / place)});
  }
};

}  // namespace

TEST_CASE("SHA-256 is the standard's") {
  const TemporaryDirectory folder;
  REQUIRE(write_file_atomic(folder.path() / "abc", "abc").has_value());
  CHECK(*sha256_of_file(folder.path() / "abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE_FIXTURE(Fixture, "staging copies programs and modules, executable, and does nothing the second time") {
  REQUIRE(stage_tools(root, runs, tools).has_value());
  const auto agent = tools_directory(runs, tools) / "dlrun-agent";
  CHECK(*sha256_of_file(agent) == tools.files[0].sha256);
  struct stat before {};
  REQUIRE(::stat(agent.c_str(), &before) == 0);
  CHECK((before.st_mode & 0777) == 0755);
  CHECK(std::filesystem::exists(tools_directory(runs, tools) / "dlrun-comm-x.so"));
  std::filesystem::remove_all(root);
  CHECK(stage_tools(root, runs, tools).has_value());
}

TEST_CASE_FIXTURE(Fixture, "what copies that were killed have left is removed, but not what one may be writing") {
  const auto place = tools_directory(runs, tools);
  std::filesystem::create_directories(place);
  for (const char* name : {"dlrun-agent.tmp-00", "dlrun-agent.tmp-11"}) std::ofstream(place / name) << "half";
  std::filesystem::last_write_time(place / "dlrun-agent.tmp-00",
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(2));
  REQUIRE(stage_tools(root, runs, tools).has_value());
  CHECK_FALSE(std::filesystem::exists(place / "dlrun-agent.tmp-00"));
  CHECK(std::filesystem::exists(place / "dlrun-agent.tmp-11"));
}

TEST_CASE_FIXTURE(Fixture, "a program that dlrun was not built with is refused and nothing of it is left") {
  char& digit = tools.files[0].sha256[0];
  digit = digit == '0' ? '1' : '0';
  const auto staged = stage_tools(root, runs, tools);
  REQUIRE_FALSE(staged.has_value());
  CHECK(staged.error().code == Errc::kInvalid);
  CHECK(std::filesystem::is_empty(tools_directory(runs, tools)));
}

TEST_CASE_FIXTURE(Fixture, "a missing program is named, a module that is not installed is passed over") {
  std::filesystem::remove(root / "lib/dlrun/dlrun-comm-x.so");
  CHECK(stage_tools(root, runs, tools).has_value());
  std::filesystem::remove_all(runs);
  std::filesystem::remove(root / "bin/dlrun-trainer");
  const auto staged = stage_tools(root, runs, tools);
  REQUIRE_FALSE(staged.has_value());
  CHECK(staged.error().code == Errc::kNotFound);
  CHECK(staged.error().message.find("dlrun-trainer") != std::string::npos);
}

TEST_CASE("a log is read as it grows, and from its start when it was cut") {
  const TemporaryDirectory folder;
  LogReader reader(folder.path() / "log");
  CHECK(reader.read_more()->empty());
  const auto put = [&](const char* text, std::ios::openmode mode) {
    std::ofstream(folder.path() / "log", mode) << text;
  };
  put("one\n", std::ios::app);
  CHECK(*reader.read_more() == "one\n");
  CHECK(reader.read_more()->empty());
  put("two", std::ios::app);
  CHECK(*reader.read_more() == "two");
  put("new\n", std::ios::trunc);
  CHECK(*reader.read_more() == "new\n");
}

TEST_CASE("a log's tail begins at a line") {
  const TemporaryDirectory folder;
  REQUIRE(write_file_atomic(folder.path() / "log", "1\n2\n3\n").has_value());
  const auto tail = [&](std::size_t lines) {
    LogReader reader(folder.path() / "log");
    reader.start_at_tail(lines);
    return *reader.read_more();
  };
  CHECK(tail(1) == "3\n");
  CHECK(tail(2) == "2\n3\n");
  CHECK(tail(9) == "1\n2\n3\n");
  CHECK(tail(0).empty());
}

TEST_CASE("sbatch's output patterns are expanded where they can be") {
  CHECK(expand_output_pattern("out_%j_%u_100%%", "42", "eva") == "out_42_eva_100%");
  CHECK_FALSE(expand_output_pattern("out_%N", "42", "eva").has_value());
  CHECK_FALSE(expand_output_pattern("out_%", "42", "eva").has_value());
}
