// Tests the copies of the agent and the trainer that dlrun keeps in a runs folder, and the reading
// of a run's log.

#include <sys/stat.h>
#include <unistd.h>

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

struct ToolsFixture {
  TemporaryDirectory folder;
  std::filesystem::path root = folder.path() / "root", runs = folder.path() / "runs";
  ToolSet tools{"hash", {}};
  ToolsFixture() {
    std::filesystem::create_directories(root / "bin");
    std::filesystem::create_directories(root / "lib/dlrun");
    add("bin/dlrun-agent", std::string(3'000'000, 'a'));
    add("bin/dlrun-trainer", "trainer");
    add("lib/dlrun/dlrun-comm-x.so", "module");
  }
  void add(const std::string& relative_path, const std::string& content) {
    REQUIRE(write_file_atomic(root / relative_path, content, 0755).has_value());
    tools.files.push_back({relative_path, *sha256_of_file(root / relative_path)});
  }
};

}  // namespace

TEST_CASE("the SHA-256 of a file matches the standard's example") {
  const TemporaryDirectory folder;
  REQUIRE(write_file_atomic(folder.path() / "abc", "abc").has_value());
  CHECK(*sha256_of_file(folder.path() / "abc") ==
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE_FIXTURE(ToolsFixture,
                  "copy_missing_tools() copies programs and modules as executables, and does "
                  "nothing the second time") {
  REQUIRE(copy_missing_tools(root, runs, tools).has_value());
  const auto agent = tools_folder(runs, tools) / "dlrun-agent";
  CHECK(*sha256_of_file(agent) == tools.files[0].sha256);
  struct stat info {};
  REQUIRE(::stat(agent.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0755);
  CHECK(std::filesystem::exists(tools_folder(runs, tools) / "dlrun-comm-x.so"));
  std::filesystem::remove_all(root);
  CHECK(copy_missing_tools(root, runs, tools).has_value());
}

TEST_CASE_FIXTURE(
    ToolsFixture,
    "old partial copies that killed processes left are removed, and recent ones are kept") {
  const auto own_folder = tools_folder(runs, tools);
  std::filesystem::create_directories(own_folder);
  for (const char* name : {"dlrun-agent.tmp-00", "dlrun-agent.tmp-11"})
    std::ofstream(own_folder / name) << "half";
  std::filesystem::last_write_time(
      own_folder / "dlrun-agent.tmp-00",
      std::filesystem::file_time_type::clock::now() - std::chrono::hours(2));
  REQUIRE(copy_missing_tools(root, runs, tools).has_value());
  CHECK_FALSE(std::filesystem::exists(own_folder / "dlrun-agent.tmp-00"));
  CHECK(std::filesystem::exists(own_folder / "dlrun-agent.tmp-11"));
}

TEST_CASE_FIXTURE(ToolsFixture,
                  "each user of a runs folder has a separate tools folder, and another user's "
                  "files are never used") {
  const auto own_folder = tools_folder(runs, tools);
  CHECK(own_folder.parent_path() == runs / fmt::format(".agents-{}", ::geteuid()));
  std::filesystem::create_directories(runs / ".agents-1");  // the folder of another user's agents
  std::filesystem::create_directories(runs / ".agents");
  REQUIRE(copy_missing_tools(root, runs, tools).has_value());
  CHECK(check_tools_folder(runs, tools).has_value());
  if (::geteuid() != 0) {
    MESSAGE("the rest is skipped: only root can give files to another user");
    return;
  }
  for (const auto& foreign_folder : {own_folder.parent_path(), own_folder}) {
    REQUIRE(::chown(foreign_folder.c_str(), 65534, 65534) == 0);
    CHECK(check_tools_folder(runs, tools).error().code == Errc::kInvalid);
    CHECK(copy_missing_tools(root, runs, tools).error().code == Errc::kInvalid);
    REQUIRE(::chown(foreign_folder.c_str(), 0, 0) == 0);
  }
  // A file of another user in a folder of this user is replaced.
  const auto agent = own_folder / "dlrun-agent";
  REQUIRE(write_file_atomic(agent, "theirs", 0755).has_value());
  REQUIRE(::chown(agent.c_str(), 65534, 65534) == 0);
  REQUIRE(copy_missing_tools(root, runs, tools).has_value());
  CHECK(*sha256_of_file(agent) == tools.files[0].sha256);
}

TEST_CASE_FIXTURE(ToolsFixture,
                  "a tools folder is refused if others may write it, or if its parent folder is a "
                  "symbolic link") {
  REQUIRE(copy_missing_tools(root, runs, tools).has_value());
  const auto own_folder = tools_folder(runs, tools);
  REQUIRE(::chmod(own_folder.c_str(), 0770) == 0);
  CHECK(check_tools_folder(runs, tools).error().message.find("others may write") !=
        std::string::npos);
  CHECK(copy_missing_tools(root, runs, tools).error().code == Errc::kInvalid);
  std::filesystem::remove_all(own_folder.parent_path());
  std::filesystem::create_directories(folder.path() / "elsewhere");
  std::filesystem::create_directory_symlink(folder.path() / "elsewhere", own_folder.parent_path());
  CHECK(check_tools_folder(runs, tools).error().code == Errc::kInvalid);
  CHECK(
      check_tools_folder(runs, tools).error().message.find("is not a directory; choose another") !=
      std::string::npos);
}

TEST_CASE_FIXTURE(ToolsFixture, "a runs folder in which others may rename files causes a warning") {
  std::filesystem::create_directories(runs);
  REQUIRE(::chmod(runs.c_str(), 0755) == 0);
  CHECK_FALSE(warning_about_runs_folder(runs).has_value());
  CHECK_FALSE(warning_about_runs_folder(runs / "not" / "there").has_value());
  REQUIRE(::chmod(runs.c_str(), 0775) == 0);
  const auto warning = warning_about_runs_folder(runs / "deeper");
  REQUIRE(warning.has_value());
  CHECK(warning->find("chmod +t " + runs.string()) != std::string::npos);
  REQUIRE(::chmod(runs.c_str(), 01777) == 0);
  CHECK_FALSE(warning_about_runs_folder(runs).has_value());
}

TEST_CASE_FIXTURE(ToolsFixture,
                  "a runs folder causes a warning if another user owns it or a folder above it, "
                  "with or without the sticky bit") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root can give a folder to another user");
    return;
  }
  const auto deeper = runs / "deeper";
  std::filesystem::create_directories(deeper);
  for (const mode_t mode : {0755U, 01777U}) {
    CAPTURE(mode);
    REQUIRE(::chmod(runs.c_str(), mode) == 0);
    for (const auto& runs_folder : {runs, deeper}) {
      REQUIRE(::chown(runs.c_str(), 65534, 65534) == 0);
      const auto warning = warning_about_runs_folder(runs_folder);
      REQUIRE(warning.has_value());
      CHECK(warning->starts_with(runs.string() + ": belongs to user "));
      REQUIRE(::chown(runs.c_str(), 0, 0) == 0);
      CHECK_FALSE(warning_about_runs_folder(runs_folder).has_value());
    }
  }
}

TEST_CASE_FIXTURE(
    ToolsFixture,
    "a program whose checksum is not the one in dlrun's build is refused, and no copy is left") {
  char& digit = tools.files[0].sha256[0];
  digit = digit == '0' ? '1' : '0';
  const auto copied = copy_missing_tools(root, runs, tools);
  REQUIRE_FALSE(copied.has_value());
  CHECK(copied.error().code == Errc::kInvalid);
  CHECK(std::filesystem::is_empty(tools_folder(runs, tools)));
}

TEST_CASE_FIXTURE(
    ToolsFixture,
    "a missing program is an error that shows its name, and a missing module is ignored") {
  std::filesystem::remove(root / "lib/dlrun/dlrun-comm-x.so");
  CHECK(copy_missing_tools(root, runs, tools).has_value());
  std::filesystem::remove_all(runs);
  std::filesystem::remove(root / "bin/dlrun-trainer");
  const auto copied = copy_missing_tools(root, runs, tools);
  REQUIRE_FALSE(copied.has_value());
  CHECK(copied.error().code == Errc::kNotFound);
  CHECK(copied.error().message.find("dlrun-trainer") != std::string::npos);
  CHECK(copied.error().message.find("install the package") != std::string::npos);
}

TEST_CASE_FIXTURE(ToolsFixture,
                  "the trainer is copied only for jobs that use it, so that other jobs start where "
                  "it is not installed") {
  const auto trainer = root / "bin/dlrun-trainer";
  std::filesystem::rename(trainer, root / "away");
  REQUIRE(copy_missing_tools(root, runs, tools, TrainerUse::kNone).has_value());
  CHECK(std::filesystem::exists(tools_folder(runs, tools) / "dlrun-agent"));
  CHECK_FALSE(std::filesystem::exists(tools_folder(runs, tools) / "dlrun-trainer"));
  CHECK(copy_missing_tools(root, runs, tools, TrainerUse::kNeeded).error().code == Errc::kNotFound);
  std::filesystem::rename(root / "away", trainer);
  REQUIRE(copy_missing_tools(root, runs, tools, TrainerUse::kNeeded).has_value());
  CHECK(std::filesystem::exists(tools_folder(runs, tools) / "dlrun-trainer"));
}

TEST_CASE_FIXTURE(ToolsFixture,
                  "a missing agent is an error even for a job that does not use the trainer") {
  std::filesystem::remove(root / "bin/dlrun-agent");
  CHECK(copy_missing_tools(root, runs, tools, TrainerUse::kNone).error().code == Errc::kNotFound);
}

TEST_CASE(
    "a growing log is read on from the last position, and a truncated log is read from its start") {
  const TemporaryDirectory folder;
  LogReader reader(folder.path() / "log", RunFacts{});
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

TEST_CASE("a log's tail begins at the start of a line") {
  const TemporaryDirectory folder;
  REQUIRE(write_file_atomic(folder.path() / "log", "1\n2\n3\n").has_value());
  const auto tail = [&](std::size_t lines) {
    LogReader reader(folder.path() / "log", RunFacts{});
    reader.start_at_tail(lines);
    return *reader.read_more();
  };
  CHECK(tail(1) == "3\n");
  CHECK(tail(2) == "2\n3\n");
  CHECK(tail(9) == "1\n2\n3\n");
  CHECK(tail(0).empty());
}

TEST_CASE("a hole in a log is shown as one line, and the data around the hole stays unchanged") {
  const TemporaryDirectory folder;
  const auto log = folder / "log";
  constexpr std::uint64_t kGibi = 1U << 30U;
  const std::string binary("a\0b", 3);
  std::ofstream(log) << binary;
  std::filesystem::resize_file(log, 256 * kGibi);
  std::ofstream(log, std::ios::app) << "end\n";
  const auto read_log = [&](std::optional<std::size_t> tail_lines) {
    LogReader reader(log, RunFacts{});
    if (tail_lines) reader.start_at_tail(*tail_lines);
    std::string all;
    while (all.size() < kGibi) {
      const auto bytes = reader.read_more();
      REQUIRE(bytes.has_value());
      if (bytes->empty()) break;
      all += *bytes;
    }
    return all;
  };
  // A hole begins and ends at a block's border, so the NUL bytes in the blocks around it stay.
  const std::string all = read_log(std::nullopt);
  CHECK(all.starts_with(binary));
  CHECK(all.ends_with("end\n"));
  CHECK(all.find("\n[dlrun: 256.0 GiB of empty space left out]\n") != std::string::npos);
  CHECK(all.size() < 8U << 20U);
  CHECK(read_log(3).size() < 8U << 20U);
  CHECK(read_log(3).ends_with("end\n"));
  std::filesystem::resize_file(log, 512 * kGibi);  // the hole is at the end
  CHECK(read_log(3) == "[dlrun: 4.0 MiB of empty space left out]\n");
}

TEST_CASE("sbatch's output patterns are expanded if dlrun knows the values") {
  CHECK(expand_output_pattern("out_%j_%u_100%%", "42", "eva") == "out_42_eva_100%");
  CHECK_FALSE(expand_output_pattern("out_%N", "42", "eva").has_value());
  CHECK_FALSE(expand_output_pattern("out_%", "42", "eva").has_value());
}
