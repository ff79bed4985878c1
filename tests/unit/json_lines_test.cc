#include "common/json_lines.h"

#include <fcntl.h>

#include <fstream>
#include <limits>

#include <doctest/doctest.h>

#include "common/files.h"
#include "tests/temporary_directory.h"

namespace dlrun {
namespace {

std::string two_lines() {
  return to_checked_line({{"event", "started"}, {"ranks", 8}}) +
         to_checked_line({{"event", "ended"}, {"text", "a\nb"}});
}

}  // namespace

TEST_CASE("checked lines can be parsed back") {
  const std::string text = two_lines();
  const CheckedLines lines = parse_checked_lines(text);
  REQUIRE(lines.objects.size() == 2);
  CHECK(lines.objects[0]["ranks"] == 8);
  CHECK(lines.objects[1]["text"] == "a\nb");
  CHECK_FALSE(lines.objects[1].contains("crc"));
  CHECK(lines.checked_end == text.size());
  CHECK_FALSE(lines.has_incomplete_end);
}

TEST_CASE("a text that is cut anywhere in its last line loses only this line") {
  const std::string text = two_lines();
  const std::size_t second_start = text.find('\n') + 1;
  for (std::size_t cut = second_start + 1; cut < text.size(); ++cut) {
    const CheckedLines lines = parse_checked_lines(std::string_view(text).substr(0, cut));
    CAPTURE(cut);
    REQUIRE(lines.objects.size() == 1);
    CHECK(lines.has_incomplete_end);
    CHECK(lines.checked_end == second_start);
  }
}

TEST_CASE("a flipped bit is noticed, whichever byte of a line holds it") {
  const std::string text = two_lines();
  const std::size_t second_start = text.find('\n') + 1;
  for (std::size_t i = 0; i + 1 < second_start; ++i) {
    std::string damaged = text;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    if (damaged[i] == '\n') continue;
    const CheckedLines lines = parse_checked_lines(damaged);
    CAPTURE(i);
    CHECK(lines.objects.size() == 1);
    CHECK(lines.damaged_line_count == 1);
  }
}

TEST_CASE("a reader skips lines longer than the limit, wherever they begin in its buffer") {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "lines";
  for (const std::size_t first_length :
       {std::size_t{1}, std::size_t{100'000}, std::size_t{262'143}}) {
    for (const std::size_t excess : {std::size_t{0}, std::size_t{1}, std::size_t{200'000}}) {
      CAPTURE(first_length);
      CAPTURE(excess);
      std::ofstream(path) << std::string(first_length, 'a') << '\n'
                          << std::string(kLongestLineBytes + excess, 'b') << "\nlast\n";
      const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
      REQUIRE(file.is_open());
      LineReader lines(file.get(), 0, std::numeric_limits<off_t>::max());
      std::vector<std::size_t> lengths;
      while (const auto line = lines.next()) lengths.push_back(line->size());
      auto expected = std::vector<std::size_t>{first_length, kLongestLineBytes, 4};
      if (excess > 0) expected.erase(expected.begin() + 1);
      CHECK(lengths == expected);
      CHECK(lines.long_line_count() == (excess > 0 ? 1 : 0));
      CHECK_FALSE(lines.has_unfinished_line());
    }
  }
}

TEST_CASE("a line with bytes that are not UTF-8 can be written and read") {
  const CheckedLines lines = parse_checked_lines(to_checked_line({{"text", "a\xff"}}));
  REQUIRE(lines.objects.size() == 1);
}

}  // namespace dlrun
