#include "common/text.h"

#include <array>
#include <cctype>

#include <doctest/doctest.h>

namespace dlrun {

TEST_CASE("split_words() splits at each of several separators, and leaves out empty parts") {
  using Words = std::vector<std::string_view>;
  CHECK(split_words("a, [b]", " ,[]") == Words{"a", "b"});
  CHECK(split_words("--a", "-") == Words{"a"});
  CHECK(split_words(", ,", " ,").empty());
  CHECK(split_words("", " ").empty());
}

TEST_CASE("split() keeps empty parts") {
  CHECK(split("a,,b", ',') == std::vector<std::string_view>{"a", "", "b"});
  CHECK(split("", ',') == std::vector<std::string_view>{""});
}

TEST_CASE("parse_int() accepts only whole decimal numbers") {
  CHECK(parse_int("-12") == -12);
  CHECK(parse_int("+7") == 7);
  CHECK(parse_int("9223372036854775807") == INT64_MAX);
  for (const char* bad : {"", "+", "-", "+-1", "1 ", " 1", "1x", "0x10", "9223372036854775808"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_int(bad).has_value());
  }
}

TEST_CASE(
    "parse_double() refuses numbers that are not finite, and text that is not only a number") {
  CHECK(parse_double("1e-3") == doctest::Approx(0.001));
  for (const char* bad : {"", "nan", "inf", "1e999", "1,5", "1.0f"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_double(bad).has_value());
  }
}

TEST_CASE("a swapped pair of letters is one edit") {
  CHECK(edit_distance("pratition", "partition") == 1);
}

TEST_CASE(
    "nearest() suggests a name for a word with a small spelling error, and none for other words") {
  constexpr std::array<std::string_view, 3> kKeys{"gpus_per_node", "tasks_per_node", "time"};
  CHECK(nearest("gpus_per_nod", kKeys) == "gpus_per_node");
  CHECK(nearest("tine", kKeys) == "time");
  CHECK_FALSE(nearest("walltime", kKeys).has_value());
}

TEST_CASE(
    "nearest() ignores the difference of capital and small letters, even in a misspelt word") {
  constexpr std::array<std::string_view, 2> kWords{"any", "ok"};
  CHECK(nearest("OK", kWords) == "ok");
  CHECK(nearest("ANI", kWords) == "any");
  CHECK(nearest("ok", std::array<std::string_view, 1>{"OK"}) == "OK");
}

TEST_CASE("UTF-8 is checked as RFC 3629 defines it") {
  CHECK(is_utf8("gr\xc3\xbc\xc3\x9f \xf0\x9f\x8c\x8d"));
  for (const char* bad :
       {"\xc0\xaf", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xe2\x82", "\x80", "\xe0\x80\x80"}) {
    CHECK_FALSE(is_utf8(bad));
  }
}

TEST_CASE("cut_text() returns the beginning of a text, and does not split a character") {
  CHECK(cut_text("abc", 3) == "abc");
  CHECK(cut_text("abc", 2) == "ab");
  CHECK(cut_text("gr\u00fcn", 3) == "gr");
  CHECK(cut_text("gr\u00fcn", 4) == "gr\u00fc");
  CHECK(cut_text("\u00fc", 0).empty());
}

TEST_CASE(
    "printable() escapes characters that are invisible or reverse text, and keeps letters of any "
    "language") {
  CHECK(printable("exit 0 \u202e 1 tixe") == "exit 0 \\xe2\\x80\\xae 1 tixe");
  for (const char* hidden :
       {"\u200b", "\u200e", "\u200f", "\u061c", "\u2028", "\u202a", "\u2060",     "\u2066",
        "\u2069", "\ufeff", "\u0085", "\u00ad", "\u034f", "\u115f", "\u1160",     "\u17b4",
        "\u17b5", "\u180b", "\u3164", "\ufe00", "\ufe0f", "\uffa0", "\U0001d173", "\U000e0100"}) {
    CAPTURE(hidden);
    CHECK(printable(hidden).starts_with("\\x"));
  }
  for (const char* shown : {"é", "Ω", "日本", "שלום", "–…█", "🙂"})
    CHECK(printable(shown) == shown);
}

TEST_CASE("printable() escapes control characters and broken UTF-8") {
  CHECK(printable("a\x1b[31m\xff\xc3\xa9") == "a\\x1b[31m\\xff\xc3\xa9");
}

TEST_CASE(
    "bytes can be converted to hex and back, and text of an odd length or with other characters is "
    "refused") {
  const std::vector<std::uint8_t> bytes{0x00, 0xff, 0x1a};
  CHECK(to_hex(bytes) == "00ff1a");
  CHECK(from_hex("00FF1a") == bytes);
  CHECK_FALSE(from_hex("0").has_value());
  CHECK_FALSE(from_hex("zz").has_value());
}

TEST_CASE("random_hex() returns two digits for each byte, and differs each time") {
  CHECK(random_hex(16).size() == 32);
  CHECK(random_hex(16) != random_hex(16));
}

TEST_CASE("timestamps are UTC with milliseconds") {
  CHECK(utc_timestamp(std::chrono::system_clock::time_point(std::chrono::milliseconds(1'000))) ==
        "1970-01-01T00:00:01.000Z");
}

TEST_CASE("timestamps are parsed to the millisecond, and other text is refused") {
  CHECK(seconds_of_utc("1970-01-01T00:01:00.250Z") == 60.25);
  CHECK(seconds_of_utc("2026-11-21T12:30:00Z") == 1795264200);
  CHECK_FALSE(seconds_of_utc("yesterday"));
  CHECK_FALSE(seconds_of_utc(""));
}

TEST_CASE("a carriage return is removed only before a line feed") {
  CHECK(with_unix_line_ends("no route\r\n\r\nx\ry\r") == "no route\n\nx\ry\r");
  CHECK(with_unix_line_ends("").empty());
}

TEST_CASE("lower_case() changes the letters A to Z only") {
  CHECK(lower_case("aBC-[FE80:\xc3\x84Z@") == "abc-[fe80:\xc3\x84z@");
  CHECK(lower_case("").empty());
}

}  // namespace dlrun
