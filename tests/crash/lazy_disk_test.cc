// Tests which data the simulated disk loses and keeps.

#include "tests/crash/lazy_disk.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include <doctest/doctest.h>

#include "common/files.h"
#include "tests/temporary_directory.h"

namespace dlrun::crash {
namespace {

/// Returns every state that a crash after report_done(step) may leave, as a text with "path=bytes "
/// for each file and "path/ " for each folder.
std::set<std::string> states_after(const LazyDisk& disk, const std::string& step) {
  std::set<std::string> all;
  for (const LazyDisk::Crash& crash : disk.crashes()) {
    if (!crash.reported.contains(step)) continue;
    std::string text;
    for (const auto& [path, bytes] : crash.state) text += path + (bytes ? "=" + *bytes : "/") + " ";
    all.insert(text);
  }
  return all;
}

void write_text(const std::filesystem::path& path, int flags, std::string_view text) {
  const UniqueFd file(::open(path.c_str(), O_WRONLY | flags, 0600));
  REQUIRE(file.is_open());
  REQUIRE(write_all(file.get(), text));
}

}  // namespace

TEST_CASE("crash: the simulated disk may lose, tear, zero or keep unsynced bytes") {
  const TemporaryDirectory folder;
  LazyDisk disk(folder.path());
  write_text(folder / "f", O_CREAT, "abcd");
  disk.report_done("written");
  CHECK(states_after(disk, "written") ==
        std::set<std::string>{"", "f= ", "f=ab ", std::string("f=\0\0\0\0 ", 7), "f=abcd "});
}

TEST_CASE("crash: fsync of a file keeps its bytes, and fsync of its folder keeps its name") {
  const TemporaryDirectory folder;
  LazyDisk disk(folder.path());
  const UniqueFd file(::open((folder / "f").c_str(), O_WRONLY | O_CREAT, 0600));
  REQUIRE(write_all(file.get(), "abcd"));
  REQUIRE(::fsync(file.get()) == 0);
  disk.report_done("bytes");
  REQUIRE(sync_directory(folder.path()));
  disk.report_done("name");
  CHECK(states_after(disk, "bytes") == std::set<std::string>{"", "f=abcd "});
  CHECK(states_after(disk, "name") == std::set<std::string>{"f=abcd "});
}

TEST_CASE("crash: an unsynced rename takes effect completely or not at all") {
  const TemporaryDirectory folder;
  write_text(folder / "new", O_CREAT, "new");
  write_text(folder / "old", O_CREAT, "old");
  LazyDisk disk(folder.path());
  REQUIRE(::rename((folder / "new").c_str(), (folder / "old").c_str()) == 0);
  disk.report_done("renamed");
  CHECK(states_after(disk, "renamed") == std::set<std::string>{"new=new old=old ", "old=new "});
}

TEST_CASE("crash: an unsynced link or removal may be lost") {
  const TemporaryDirectory folder;
  write_text(folder / "f", O_CREAT, "text");
  LazyDisk disk(folder.path());
  std::filesystem::create_directory(folder / "d");
  REQUIRE(sync_directory(folder.path()));
  REQUIRE(::link((folder / "f").c_str(), (folder / "d/g").c_str()) == 0);
  disk.report_done("linked");
  std::filesystem::remove_all(folder / "d");
  disk.report_done("removed");
  CHECK(states_after(disk, "linked").contains("d/ f=text "));
  CHECK(states_after(disk, "linked").contains("d/ d/g=text f=text "));
  CHECK(states_after(disk, "removed").contains("f=text "));
  CHECK(states_after(disk, "removed").contains("d/ d/g=text f=text "));
}

TEST_CASE("crash: a skipped rename returns success and has no effect") {
  const TemporaryDirectory folder;
  LazyDisk disk(folder.path(), 1);
  REQUIRE(write_file_atomic(folder / "f", "text"));
  disk.report_done("written");
  REQUIRE(disk.ordering_calls().size() == 3);  // the file's fsync, the rename, the folder's fsync
  CHECK(disk.ordering_calls()[1] == "rename f, 1");
  CHECK_FALSE(std::filesystem::exists(folder / "f"));
}

}  // namespace dlrun::crash
