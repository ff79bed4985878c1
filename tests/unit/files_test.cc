#include "common/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include <doctest/doctest.h>

#include "common/text.h"

namespace dlrun {
namespace fs = std::filesystem;
namespace {

/// A new folder that the destructor removes.
struct ScratchFolder {
  fs::path path = fs::temp_directory_path() / ("dlrun-files-" + random_hex(6));
  ScratchFolder() { fs::create_directory(path); }
  ~ScratchFolder() { fs::remove_all(path); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
};

mode_t mode_of(const fs::path& path) {
  struct stat status {};
  REQUIRE(stat(path.c_str(), &status) == 0);
  return status.st_mode & 07777U;
}

std::size_t entry_count(const fs::path& path) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(path), fs::directory_iterator()));
}

}  // namespace

TEST_CASE("an atomic write replaces the file, keeps it private and leaves no temporary file") {
  const ScratchFolder scratch;
  REQUIRE(write_file_atomic(scratch.path / "a", "one"));
  REQUIRE(write_file_atomic(scratch.path / "a", "two"));
  CHECK(*read_file(scratch.path / "a", 100) == "two");
  CHECK(mode_of(scratch.path / "a") == 0600);
  CHECK(entry_count(scratch.path) == 1);
}

TEST_CASE("a failed atomic write leaves no temporary file, and its error names the file") {
  const ScratchFolder scratch;
  fs::create_directory(scratch.path / "a");
  fs::create_directory(scratch.path / "a" / "full");
  const auto written = write_file_atomic(scratch.path / "a", "x");
  REQUIRE_FALSE(written.has_value());
  CHECK(written.error().code == Errc::kIo);
  CHECK(entry_count(scratch.path) == 1);
  const auto nowhere = write_file_atomic(scratch.path / "none" / "page.html", "x");
  CHECK(nowhere.error().message ==
        (scratch.path / "none" / "page.html").string() + ": No such file or directory (ENOENT)");
}

TEST_CASE("write_all() fails if the device is full") {
  const UniqueFd full(open("/dev/full", O_WRONLY | O_CLOEXEC));
  const auto written = write_all(full.get(), "x");
  REQUIRE_FALSE(written.has_value());
  CHECK(written.error().message.find("ENOSPC") != std::string::npos);
}

TEST_CASE("exclusive creation refuses an existing file and does not follow a link") {
  const ScratchFolder scratch;
  REQUIRE(create_file_exclusive(scratch.path / "claim", "1"));
  CHECK(create_file_exclusive(scratch.path / "claim", "2").error().code == Errc::kRefused);
  CHECK(*read_file(scratch.path / "claim", 10) == "1");
  fs::create_symlink(scratch.path / "elsewhere", scratch.path / "link");
  CHECK_FALSE(create_file_exclusive(scratch.path / "link", "3").has_value());
  CHECK_FALSE(fs::exists(scratch.path / "elsewhere"));
}

TEST_CASE("reading a file is limited in size, and only regular files are read") {
  const ScratchFolder scratch;
  REQUIRE(write_file_atomic(scratch.path / "a", std::string(100, 'x')));
  CHECK(read_file(scratch.path / "a", 100)->size() == 100);
  CHECK(read_file(scratch.path / "a", 99).error().code == Errc::kInvalid);
  CHECK(read_file(scratch.path, 99).error().code == Errc::kInvalid);
  CHECK(read_file(scratch.path / "none", 99).error().code == Errc::kNotFound);
  REQUIRE(mkfifo((scratch.path / "fifo").c_str(), 0600) == 0);
  CHECK(read_file(scratch.path / "fifo", 99).error().code == Errc::kInvalid);
}

TEST_CASE("new directories are private, and existing ones are not changed") {
  const ScratchFolder scratch;
  fs::permissions(scratch.path, fs::perms::all);
  REQUIRE(make_private_directories(scratch.path / "a" / "b"));
  REQUIRE(make_private_directories(scratch.path / "a" / "b"));
  CHECK(mode_of(scratch.path / "a") == 0700);
  CHECK(mode_of(scratch.path) == 0777);
  REQUIRE(write_file_atomic(scratch.path / "file", ""));
  CHECK_FALSE(make_private_directories(scratch.path / "file" / "x").has_value());
}

TEST_CASE("errno_text() names the error") {
  CHECK(errno_text(ENOSPC) == "No space left on device (ENOSPC)");
}

}  // namespace dlrun
