#pragma once
// 16-bit floating-point numbers that can be sent and added. Conversion rounds to nearest, ties to
// even, as IEEE 754 specifies. The compilers' own 16-bit types are not used, because g++ 12 and
// clang 14 support different types.

#include <bit>
#include <cstdint>

namespace dlrun {

/// The sign, the exponent and the first seven fraction bits of a float32.
struct Bfloat16 {
  std::uint16_t bits = 0;

  Bfloat16() = default;
  explicit Bfloat16(float value) {
    const auto wide = std::bit_cast<std::uint32_t>(value);
    constexpr std::uint32_t kInfinity = 0x7f800000;
    // Rounding could turn a NaN into infinity.
    const bool is_nan = (wide & 0x7fffffffU) > kInfinity;
    bits = static_cast<std::uint16_t>(is_nan ? (wide >> 16U) | 0x40U
                                             : (wide + 0x7fffU + ((wide >> 16U) & 1U)) >> 16U);
  }
  operator float() const {  // NOLINT(google-explicit-constructor): exact
    return std::bit_cast<float>(std::uint32_t{bits} << 16U);
  }
};

/// IEEE 754 binary16: 5 exponent bits, 10 fraction bits. The largest value is 65504; numbers below
/// 2^-14 are multiples of 2^-24.
struct Float16 {
  std::uint16_t bits = 0;

  Float16() = default;
  explicit Float16(float value) {
    const auto wide = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (wide >> 16U) & 0x8000U;
    std::uint32_t magnitude = wide & 0x7fffffffU;
    constexpr std::uint32_t kTooLarge = (127U + 16U) << 23U;        // 2^16
    constexpr std::uint32_t kSmallestNormal = (127U - 14U) << 23U;  // 2^-14
    // 0.5, a float whose last bit has the value 2^-24.
    constexpr std::uint32_t kOneHalf = (127U - 24U + 23U) << 23U;
    if (magnitude >= kTooLarge) {
      magnitude = magnitude > 0x7f800000U ? 0x7e00U : 0x7c00U;
    } else if (magnitude < kSmallestNormal) {
      // This addition rounds to a multiple of 2^-24 and leaves the result in the low bits.
      magnitude = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) +
                                               std::bit_cast<float>(kOneHalf)) -
                  kOneHalf;
    } else {
      magnitude = (magnitude - ((127U - 15U) << 23U) + 0xfffU + ((magnitude >> 13U) & 1U)) >> 13U;
    }
    bits = static_cast<std::uint16_t>(sign | magnitude);
  }
  operator float() const {  // NOLINT(google-explicit-constructor): exact
    const std::uint32_t sign = (bits & 0x8000U) << 16U;
    const std::uint32_t exponent = (bits >> 10U) & 0x1fU;
    const std::uint32_t fraction = bits & 0x3ffU;
    if (exponent == 0) {
      const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
      return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
    }
    return std::bit_cast<float>(sign | (exponent == 31 ? 255U : exponent + 127U - 15U) << 23U |
                                fraction << 13U);
  }
};

}  // namespace dlrun
