#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>

#include <doctest/doctest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#include "common/files.h"
#include "launcher/runs/existing_folders.h"
#include "launcher/runs/index.h"
#include "launcher/runs/resolve.h"
#include "launcher/runs/run_directory.h"
#include "tests/temporary_directory.h"

using namespace dlrun;

namespace {

/// Makes each later listing of a folder by this process fail with EIO. Returns false on an error.
bool break_listings() {
  std::array<sock_filter, 4> filter{{
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_getdents64},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EIO},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  }};
  const sock_fprog program{filter.size(), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/// Creates the directory of a run with a journal, and adds the run to the index.
IndexEntry add_run(const RunIndex& index, const std::filesystem::path& runs, const std::string& id,
                   const std::string& created, const char* job) {
  const IndexEntry entry{id, name_of_id(id), runs / id, created};
  std::filesystem::create_directories(entry.path);
  REQUIRE(write_file_atomic(entry.path / "submission.json",
                            fmt::format(R"({{"state":"submitted","job":"{}"}})", job))
              .has_value());
  REQUIRE(index.add(entry).has_value());
  return entry;
}

struct IndexFixture {
  TemporaryDirectory folder;
  RunIndex index{folder.path() / "state"};
  std::filesystem::path runs = folder.path() / "runs";
  IndexFixture() {
    add_run(index, runs, "mnist-20261121-120000-00aa", "2026-11-21T12:00:00.000Z", "41");
    add_run(index, runs, "mnist-20261121-130000-00bb", "2026-11-21T13:00:00.000Z", "42");
    add_run(index, runs, "cifar-20261121-110000-00cc", "2026-11-21T11:00:00.000Z", "42");
  }
  Result<IndexEntry> resolve(std::string_view text) {
    return resolve_run(text, index, folder.path());
  }
};

}  // namespace

TEST_CASE_FIXTURE(IndexFixture,
                  "the error for an unknown run suggests a name that is spelt alike") {
  const auto found = resolve("mnits");
  REQUIRE_FALSE(found.has_value());
  CHECK(found.error().message.find("Did you mean 'mnist'?") != std::string::npos);
}

TEST_CASE("a new run directory is private and unique, and its id contains the run's name") {
  const TemporaryDirectory folder;
  const auto now = std::chrono::system_clock::now();
  const auto first = create_run_directory(folder.path() / "a" / "runs", "mnist-mlp", now);
  const auto second = create_run_directory(folder.path() / "a" / "runs", "mnist-mlp", now);
  REQUIRE(first.has_value());
  REQUIRE(second.has_value());
  CHECK(first->id != second->id);
  CHECK(name_of_id(first->id) == "mnist-mlp");
  struct stat info {};
  REQUIRE(::stat(first->path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0700);
}

TEST_CASE("the error for a runs folder that cannot be created names the folder") {
  const TemporaryDirectory folder;
  REQUIRE(write_file_atomic(folder.path() / "file", "").has_value());
  const auto run =
      create_run_directory(folder.path() / "file" / "runs", "x", std::chrono::system_clock::now());
  REQUIRE_FALSE(run.has_value());
  CHECK(run.error().code == Errc::kIo);
  CHECK(run.error().message.find("file") != std::string::npos);
}

TEST_CASE_FIXTURE(
    IndexFixture,
    "a run is found by `last`, its id, its name, its job id, its path or the start of its id") {
  CHECK(resolve("last")->id == "mnist-20261121-130000-00bb");
  CHECK(resolve("mnist-20261121-120000-00aa")->id == "mnist-20261121-120000-00aa");
  CHECK(resolve("mnist")->id == "mnist-20261121-130000-00bb");
  CHECK(resolve("41")->id == "mnist-20261121-120000-00aa");
  CHECK(resolve("42")->id == "mnist-20261121-130000-00bb");
  CHECK(resolve("cif")->id == "cifar-20261121-110000-00cc");
  CHECK(resolve("mnist-20261121-12")->id == "mnist-20261121-120000-00aa");
  CHECK(resolve("runs/cifar-20261121-110000-00cc")->id == "cifar-20261121-110000-00cc");
  CHECK(resolve((runs / "cifar-20261121-110000-00cc/").string())->id ==
        "cifar-20261121-110000-00cc");
}

TEST_CASE_FIXTURE(IndexFixture,
                  "a run that is given by its path is found without a listing of the index") {
  const auto path = runs / "mnist-20261121-120000-00aa";
  CHECK(resolve(path.string())->created == "2026-11-21T12:00:00.000Z");
  std::filesystem::remove_all(index.directory());
  REQUIRE(write_file_atomic(index.directory(), "no folder, so it cannot be listed").has_value());
  REQUIRE_FALSE(index.list().has_value());
  const auto run = resolve(path.string());
  REQUIRE(run.has_value());
  CHECK(run->id == "mnist-20261121-120000-00aa");
  CHECK(run->path == path);
  CHECK_FALSE(resolve("mnist").has_value());
}

TEST_CASE("ExistingFolders has a folder only if its parent exists and lists it") {
  const TemporaryDirectory folder;
  std::filesystem::create_directories(folder / "runs" / "a");
  ExistingFolders folders;
  CHECK(folders.has(folder / "runs" / "a"));
  CHECK_FALSE(folders.has(folder / "runs" / "b"));
  CHECK_FALSE(folders.has(folder / "missing" / "a"));
  CHECK(folders.has("/tmp"));
  CHECK(folders.has(folder.path()));
}

TEST_CASE("folders whose parent cannot be listed completely are looked up one by one") {
  const TemporaryDirectory folder;
  std::filesystem::create_directories(folder / "a");
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    if (!break_listings()) ::_exit(2);
    ::_exit(ExistingFolders().has(folder / "a") ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE_FIXTURE(IndexFixture, "the error for a prefix that fits several runs lists these runs") {
  const auto several = resolve("mnist-2026");
  REQUIRE_FALSE(several.has_value());
  CHECK(several.error().code == Errc::kUsage);
  CHECK(several.error().message.find("00aa") != std::string::npos);
  CHECK(several.error().message.find("00bb") != std::string::npos);
}

TEST_CASE_FIXTURE(IndexFixture, "a text that fits no run is an error") {
  for (const char* text : {"nothing", "4", "", "runs", "../..", "\x1b[31m"}) {
    CAPTURE(text);
    const auto run = resolve(text);
    REQUIRE_FALSE(run.has_value());
    CHECK(run.error().code == Errc::kNotFound);
  }
}

TEST_CASE_FIXTURE(IndexFixture, "`last` skips runs whose directory was deleted") {
  std::filesystem::remove_all(runs / "mnist-20261121-130000-00bb");
  CHECK(resolve("last")->id == "mnist-20261121-120000-00aa");
  std::filesystem::remove_all(runs);
  CHECK(resolve("last").error().message.find("the directories of all your runs are gone") == 0);
}

TEST_CASE_FIXTURE(
    IndexFixture,
    "an index entry cannot be added twice, and a damaged entry is reported and hides no others") {
  const auto again = index.add({"mnist-20261121-120000-00aa", "mnist", runs, "x"});
  REQUIRE_FALSE(again.has_value());
  CHECK(again.error().code == Errc::kRefused);
  REQUIRE(write_file_atomic(index.directory() / "torn", "{\"id\":\"to").has_value());
  const auto listing = index.list();
  CHECK(listing->entries.size() == 3);
  REQUIRE(listing->damaged.size() == 1);
  CHECK(listing->damaged[0].find("torn") != std::string::npos);
}

TEST_CASE_FIXTURE(IndexFixture, "a lost index is rebuilt from the run directories") {
  std::filesystem::remove_all(index.directory());
  std::filesystem::create_directories(runs / ".agents" / "x");
  std::filesystem::create_directories(runs / "not-a-run");
  CHECK(index.add_missing_runs(runs).value().added_count == 3);
  CHECK(index.add_missing_runs(runs).value().added_count == 0);
  CHECK(resolve("cifar")->path == runs / "cifar-20261121-110000-00cc");
}

TEST_CASE_FIXTURE(IndexFixture,
                  "a directory whose name is not a valid run id is not added to the index") {
  std::filesystem::remove_all(index.directory());
  const std::string longest = std::string(64, 'x') + "-20261121-120000-00aa";
  const auto create = [&](const std::string& id) {
    std::filesystem::create_directories(runs / id);
    REQUIRE(write_file_atomic(runs / id / "submission.json", "{}").has_value());
  };
  for (const char* id : {"$(touch x)", "`id`", "a b", "a;b", "-n", ".x", "a\nb", "\x1b[31m",
                         "$(x)-20261121-120000-00dd"})
    create(id);
  create(longest);
  CHECK(index.add_missing_runs(runs).value().added_count == 4);
  CHECK(index.list()->entries.size() == 4);
  CHECK(resolve(longest).has_value());
}
