// Tests 16-bit floats: every value, and the rounding between them.

#include "runtime/comm/half.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include <doctest/doctest.h>

namespace dlrun {
namespace {

template <typename T>
T of_bits(unsigned bits) {
  T value;
  value.bits = static_cast<std::uint16_t>(bits);
  return value;
}

/// Returns the value that the format defines for these bits.
double defined_value(unsigned bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const auto fraction = static_cast<double>(bits & ((1U << fraction_bits) - 1));
  const int exponent = static_cast<int>(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1)
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : NAN;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, 1 - bias - fraction_bits)
                    : std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
  return sign * magnitude;
}

/// Checks the conversion of every value of T to float and back, and the rounding of floats between
/// two values.
template <typename T>
void check_type(int exponent_bits, int fraction_bits) {
  for (unsigned bits = 0; bits < 0x10000U; ++bits) {
    const float value = of_bits<T>(bits);
    const double want = defined_value(bits, exponent_bits, fraction_bits);
    if (std::isnan(want)) {
      REQUIRE(std::isnan(value));
      REQUIRE(std::isnan(static_cast<float>(T(value))));
      continue;
    }
    REQUIRE(static_cast<double>(value) == want);
    REQUIRE(T(value).bits == bits);
    // A number half-way between two values is rounded to the one whose last bit is 0. A number next
    // to the half-way number is rounded to the nearer value.
    const double next = defined_value(bits + 1, exponent_bits, fraction_bits);
    if ((bits & 0x7fffU) == 0x7fffU || !std::isfinite(want) || !std::isfinite(next)) continue;
    const auto middle = static_cast<float>((want + next) / 2);
    // Skips a half-way number that is not a float.
    if (static_cast<double>(middle) != (want + next) / 2) continue;
    const bool is_normal_float = std::abs(middle) > 2 * std::numeric_limits<float>::min();
    REQUIRE(T(middle).bits == (bits % 2 == 0 ? bits : bits + 1));
    if (!is_normal_float) continue;
    REQUIRE(T(std::nextafter(middle, 0.0F)).bits == bits);
    REQUIRE(T(std::nextafter(middle, middle * 2)).bits == bits + 1);
  }
  CHECK(std::isinf(static_cast<float>(T(std::numeric_limits<float>::infinity()))));
  CHECK(std::isinf(static_cast<float>(T(-3.4e38F))));
}

}  // namespace

TEST_CASE(
    "the bits of binary16 and bfloat16 have the values that the formats define, and floats are "
    "rounded to the nearest value, ties to even") {
  check_type<Float16>(5, 10);
  check_type<Bfloat16>(8, 7);
  CHECK(static_cast<float>(Float16(65'519.0F)) == 65'504);
  CHECK(std::isinf(static_cast<float>(Float16(65'520.0F))));
  CHECK(static_cast<float>(Float16(1e-9F)) == 0);
  // All 1-bits in this NaN's fraction are among those that rounding cuts off.
  CHECK(std::isnan(static_cast<float>(Bfloat16(std::bit_cast<float>(0x7f800001U)))));
}

}  // namespace dlrun
