// Tests the file that a separate thread writes: full disks, a full queue, and the renewal of a
// file (a file that is too large is replaced by a smaller one).
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include <doctest/doctest.h>

#include "common/files.h"
#include "common/result.h"
#include "runtime/agent/background_file.h"
#include "tests/temporary_directory.h"

namespace dlrun::agent {
namespace {

using std::chrono::milliseconds;

TEST_CASE("several failed writes to a full disk are reported once") {
  BackgroundFile file(UniqueFd(::open("/dev/full", O_WRONLY | O_CLOEXEC)), "the log", 1U << 20U);
  CHECK(file.push("one\n"));
  CHECK(file.push("two\n"));
  REQUIRE(file.drain(milliseconds(5000)));
  const auto failure = file.take_failure();
  REQUIRE(failure);
  CHECK(failure->message.find("the log: No space left on device") != std::string::npos);
  CHECK_FALSE(file.take_failure());
}

/// While this object exists, a write beyond the first `size_bytes` bytes of a file fails as on a
/// full disk. SIGXFSZ stays ignored afterwards.
class FullDisk {
 public:
  explicit FullDisk(rlim_t size_bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit full{size_bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &full);
  }
  ~FullDisk() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
};

TEST_CASE(
    "on a full disk a durable line waits for room, any other line is lost, and no line is written "
    "in part") {
  const TemporaryDirectory folder;
  const auto path = (folder / "events").string();
  auto file = BackgroundFile::open(path, 1U << 20U);
  REQUIRE(file.has_value());
  const std::string kept(100, 'k');
  {
    const FullDisk full(50);
    REQUIRE((*file)->push(std::string(100, 'p')));
    REQUIRE((*file)->push(kept, true));
    // The durable line is still queued.
    CHECK_FALSE((*file)->drain(milliseconds(100)));
  }
  CHECK((*file)->drain(milliseconds(5000)));
  CHECK(read_file(path, 4096).value() == kept);
}

TEST_CASE("if nobody reads the pipe, the full queue refuses new lines and keeps the old ones") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  const UniqueFd reader(ends[0]);
  BackgroundFile file(UniqueFd(ends[1]), "a pipe", 1000);
  const std::string big(200'000, 'x');  // more than a pipe holds, so the writer blocks
  REQUIRE(file.push(big));
  CHECK_FALSE(file.push("more"));
  CHECK_FALSE(file.is_less_than_half_full());
  CHECK_FALSE(file.drain(milliseconds(1)));
  std::size_t seen = 0;
  std::array<char, 65536> buffer;
  while (seen < big.size()) {
    const auto got = ::read(reader.get(), buffer.data(), buffer.size());
    REQUIRE(got > 0);
    seen += static_cast<std::size_t>(got);
  }
  CHECK(file.drain(milliseconds(5000)));
  CHECK(file.push("more"));
  CHECK(file.drain(milliseconds(5000)));
}

TEST_CASE(
    "is_less_than_half_full() is false once half of the queue is used, and the other half still "
    "takes lines") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  const UniqueFd reader(ends[0]);
  BackgroundFile file(UniqueFd(ends[1]), "a pipe", 1'000'000);
  const std::string part(200'000, 'x');  // more than a pipe holds, so the writer blocks
  std::size_t pushed = 0;
  for (; file.is_less_than_half_full(); pushed += part.size()) REQUIRE(file.push(part));
  CHECK(pushed == 3 * part.size());
  REQUIRE(file.push(part));
  pushed += part.size();
  std::array<char, 65536> buffer;
  while (pushed > 0) {
    const auto got = ::read(reader.get(), buffer.data(), buffer.size());
    REQUIRE(got > 0);
    pushed -= static_cast<std::size_t>(got);
  }
  CHECK(file.drain(milliseconds(5000)));
}

TEST_CASE("lost bytes are counted, and their number is written where they are missing") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  const UniqueFd reader(ends[0]);
  BackgroundFile file(UniqueFd(ends[1]), "a pipe", 1000, BackgroundFile::Content::kText);
  const std::string big(200'000, 'x');  // more than a pipe holds, so the writer blocks
  file.push_or_drop(big);
  file.push_or_drop("lost");
  file.push_or_drop("lost, too");
  CHECK(file.dropped_bytes() == 13);
  std::string seen;
  const auto read_until = [&](const std::string& end) {
    std::array<char, 65536> buffer;
    while (!seen.ends_with(end)) {
      const auto got = ::read(reader.get(), buffer.data(), buffer.size());
      REQUIRE(got > 0);
      seen.append(buffer.data(), static_cast<std::size_t>(got));
    }
  };
  const std::string gap =
      "\ndlrun: 13 bytes of output are missing here: the file was not written fast enough\n";
  read_until(gap);
  CHECK(seen == big + gap);
  file.push_or_drop("kept");
  read_until("kept");
  REQUIRE(file.drain(milliseconds(5000)));
}

TEST_CASE("as soon as a full disk has room again, the log says how many bytes are missing") {
  const TemporaryDirectory folder;
  const auto path = (folder / "log").string();
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  auto small = before;
  small.rlim_cur = 4;
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  auto file = BackgroundFile::open(path, 1U << 20U, BackgroundFile::Content::kText);
  REQUIRE(file);
  (*file)->push_or_drop("one\n");
  REQUIRE((*file)->drain(milliseconds(5000)));
  ::setrlimit(RLIMIT_FSIZE, &small);
  (*file)->push_or_drop("two\n");
  REQUIRE((*file)->drain(milliseconds(5000)));
  ::setrlimit(RLIMIT_FSIZE, &before);
  (*file)->push_or_drop("three\n");
  REQUIRE((*file)->drain(milliseconds(5000)));
  ::signal(SIGXFSZ, handler);
  CHECK((*file)->take_failure()->message.find("EFBIG") != std::string::npos);
  CHECK(read_file(path, 4096).value() == "one\ndlrun: 4 bytes of output are missing here: " + path +
                                             ": File too large (EFBIG)\nthree\n");
}

TEST_CASE("once a file has been renewed after a failed try, its original limit applies again") {
  const TemporaryDirectory folder;
  const auto path = (folder / "record").string();
  auto file = BackgroundFile::open(path, 1U << 20U);
  REQUIRE(file);
  int calls = 0;
  (*file)->renew_beyond(100, [&]() -> Result<BackgroundFile::Renewed> {
    if (++calls == 1) return fail(Errc::kIo, "no room");
    return BackgroundFile::Renewed{
        UniqueFd(::open(path.c_str(), O_WRONLY | O_APPEND | O_TRUNC | O_CLOEXEC)), std::nullopt};
  });
  const auto write = [&](std::size_t bytes) {
    REQUIRE((*file)->push(std::string(bytes, 'x')));
    REQUIRE((*file)->drain(milliseconds(5000)));
  };
  write(150);  // the renewal fails; the next one comes beyond 162 bytes: 150 and an eighth of 100
  CHECK(calls == 1);
  write(10);
  CHECK(calls == 1);
  write(10);  // the renewal empties the file
  CHECK(calls == 2);
  write(150);
  CHECK(calls == 3);
}

TEST_CASE(
    "if a renewal does not make the file smaller, another follows before the file reaches twice "
    "its limit") {
  for (const bool fails : {true, false}) {
    CAPTURE(fails);
    const TemporaryDirectory folder;
    const auto path = (folder / "record").string();
    auto file = BackgroundFile::open(path, 1U << 20U);
    REQUIRE(file);
    int calls = 0;
    (*file)->renew_beyond(800, [&]() -> Result<BackgroundFile::Renewed> {
      ++calls;
      if (fails) return fail(Errc::kIo, "no room");
      return BackgroundFile::Renewed{
          // The renewal leaves out no byte.
          UniqueFd(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC)), std::nullopt};
    });
    for (int i = 0; i < 160; ++i) {
      REQUIRE((*file)->push(std::string(10, 'x')));
      REQUIRE((*file)->drain(milliseconds(5000)));
    }
    // The first call comes beyond 800 bytes. The next one comes an eighth of the limit later after
    // a failure, and half of the limit later after a success.
    CHECK(calls == (fails ? 8 : 2));
  }
}

}  // namespace
}  // namespace dlrun::agent
