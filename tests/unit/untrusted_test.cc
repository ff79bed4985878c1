// Tests the reader and the parser for files that other users may have written, and the limits of
// both.

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include "common/bounded_json.h"
#include "common/files.h"
#include "common/json_lines.h"
#include "common/sha256.h"
#include "common/untrusted_file.h"
#include "tests/temporary_directory.h"

using namespace dlrun;

namespace {

std::string nested(std::size_t depth, char open = '[', char close = ']') {
  return std::string(depth, open) + std::string(depth, close);
}

std::string object_of_members(std::size_t count) {
  std::string text = "{";
  for (std::size_t i = 0; i < count; ++i) text += fmt::format("{}\"k{}\":0", i == 0 ? "" : ",", i);
  return text + "}";
}

}  // namespace

TEST_CASE("JSON nested deeper than 64 levels is refused") {
  CHECK(parse_json(nested(64)).is_array());
  CHECK(parse_json(nested(65)).is_discarded());
  CHECK(parse_json(nested(100'000)).is_discarded());
  CHECK(parse_json(std::string(100'000, '[')).is_discarded());
  std::string nested_objects;
  for (int i = 0; i < 100'000; ++i) nested_objects += "{\"a\":";
  CHECK(parse_json(nested_objects).is_discarded());
  CHECK(parse_json<nlohmann::json>(nested_objects, limits_for_sorted_json()).is_discarded());
}

TEST_CASE("brackets and commas inside JSON strings do not count as nesting or values") {
  const auto value =
      parse_json("[\"" + std::string(1000, '[') + "\\\"" + std::string(1000, ',') + "\\\\\"]");
  REQUIRE(value.is_array());
  CHECK(value.size() == 1);
  CHECK(parse_json("[\"\\\\\"," + nested(70) + "]").is_discarded());
}

TEST_CASE(
    "an object has at most 256 members by default, and a JSON text at most as many values as its "
    "limit allows") {
  CHECK(parse_json(object_of_members(256)).size() == 256);
  CHECK(parse_json(object_of_members(257)).is_discarded());
  CHECK(parse_json<nlohmann::json>(object_of_members(5000), limits_for_sorted_json()).size() ==
        5000);
  CHECK(parse_json("[1,2,3]", {.values = 4}).size() == 3);
  CHECK(parse_json("[1,2,3]", {.values = 3}).is_discarded());
}

TEST_CASE("incomplete or malformed JSON is refused without a crash") {
  for (const char* text :
       {"", "[", "{", "\"", "\"\\", "{\"a\":\"", "]", "}]", "[}", "nul", "[1,", "\xff"})
    CHECK(parse_json(text).is_discarded());
}

TEST_CASE(
    "a too deeply nested line of a record counts as damaged, although its checksum is right") {
  const std::string body = "{\"event\":\"result\",\"a\":" + nested(100'000);
  // The lines below all have a valid checksum, because anybody can compute one.
  const std::string honest = to_checked_line({{"event", "ended"}});
  nlohmann::ordered_json small{{"event", "result"}, {"a", 0}};
  std::string line = to_checked_line(small);
  CHECK(parse_checked_lines(line + honest).objects.size() == 2);
  CHECK(parse_checked_lines(checked_line_of_text(body) + honest).objects.size() == 1);
  CHECK(parse_checked_lines(checked_line_of_text(body) + honest).damaged_line_count == 1);
}

TEST_CASE("only a regular file is opened, and opening never waits") {
  const TemporaryDirectory folder;
  REQUIRE(::mkfifo((folder / "fifo").c_str(), 0600) == 0);
  REQUIRE(::mkdir((folder / "folder").c_str(), 0700) == 0);
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_un address {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, (folder / "socket").c_str(), sizeof address.sun_path - 1);
  REQUIRE(::bind(listener, reinterpret_cast<const struct sockaddr*>(&address), sizeof address) ==
          0);
  for (const char* name : {"fifo", "folder", "socket"}) {
    CAPTURE(name);
    CHECK(open_untrusted(folder / name, Links::kFollow).error().code == Errc::kInvalid);
    CHECK(read_untrusted(folder / name, 100, Links::kRefuse).error().code == Errc::kInvalid);
    CHECK(sha256_of_file(folder / name).error().code == Errc::kInvalid);
  }
  CHECK(read_file("/dev/zero", 100).error().code == Errc::kInvalid);
  CHECK(read_file("/proc/self/status", 1U << 16U).has_value());
  ::close(listener);
}

TEST_CASE("a link that alternates between a file and a FIFO never makes the reader open the FIFO") {
  const TemporaryDirectory folder;
  const auto fifo = folder / "fifo", link = folder / "log", next = folder / "next";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  REQUIRE(write_file_atomic(folder / "file", "text").has_value());
  std::filesystem::create_symlink(folder / "file", link);
  std::atomic<bool> is_fifo_opened = false, is_over = false;
  // open() for writing returns when the FIFO is opened for reading, even for a moment.
  std::thread writer([&] {
    const UniqueFd write_end(::open(fifo.c_str(), O_WRONLY | O_CLOEXEC));
    is_fifo_opened = true;
  });
  std::thread flipper([&] {
    for (bool to_fifo = true; !is_over; to_fifo = !to_fifo) {
      std::filesystem::create_symlink(to_fifo ? fifo : folder / "file", next);
      std::filesystem::rename(next, link);
    }
  });
  int opened_file_count = 0;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (!is_fifo_opened && std::chrono::steady_clock::now() < deadline)
    opened_file_count += open_untrusted(link, Links::kFollow).has_value() ? 1 : 0;
  is_over = true;
  flipper.join();
  CHECK_FALSE(is_fifo_opened);
  CHECK(opened_file_count > 0);
  // If the writer still waits in open(), this lets it end.
  const UniqueFd reader(::open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  writer.join();
}

TEST_CASE("a symbolic link is refused with Links::kRefuse, and followed with Links::kFollow") {
  const TemporaryDirectory folder;
  REQUIRE(write_file_atomic(folder / "private", "secret").has_value());
  std::filesystem::create_symlink(folder / "private", folder / "claim");
  CHECK(read_untrusted(folder / "claim", 100, Links::kRefuse).error().code == Errc::kInvalid);
  CHECK(read_untrusted(folder / "claim", 100, Links::kFollow).value_or("") == "secret");
  CHECK(read_untrusted(folder / "none", 100, Links::kRefuse).error().code == Errc::kNotFound);
}

TEST_CASE("a sparse file beyond the limit is refused without being read") {
  const TemporaryDirectory folder;
  REQUIRE(write_file_atomic(folder / "a", "").has_value());
  REQUIRE(::truncate((folder / "a").c_str(), off_t{1} << 41) == 0);
  CHECK(read_file(folder / "a", 1U << 20U).error().code == Errc::kInvalid);
}
