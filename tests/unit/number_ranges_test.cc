#include "common/number_ranges.h"

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

namespace dlrun {
namespace {

TEST_CASE("consecutive numbers are shown as one range") {
  CHECK(number_ranges(std::vector<int>{}).empty());
  CHECK(number_ranges(std::vector<int>{7}) == "7");
  CHECK(number_ranges(std::vector<std::int64_t>{3, 6, 7, 8, 9, 12}) == "3, 6-9, 12");
}

TEST_CASE("many ranges end in an ellipsis after about 160 characters") {
  std::vector<int> even;
  for (int number = 0; number < 10'000; number += 2) even.push_back(number);
  const auto text = number_ranges(even);
  CHECK(text.starts_with("0, 2, 4, "));
  CHECK(text.ends_with(", ..."));
  CHECK(text.size() < 200);
}

}  // namespace
}  // namespace dlrun
