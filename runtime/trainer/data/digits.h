#pragma once
// Generated digits: images of 0 to 9, for machines without a data set or a network connection. They
// vary in style, slant, rotation, size, position, pen and noise, so that a model has to learn them.

#include <cstdint>
#include <span>

#include "runtime/trainer/data/random.h"

namespace dlrun::trainer {

inline constexpr std::uint32_t kDigitSize = 28;  ///< pixels per row and per column

/// Draws a digit (0..9) into pixels ([28 x 28], row-major, 0 is background). Equal random streams
/// give equal images.
void draw_digit(int digit, Random& random, std::span<std::uint8_t, kDigitSize * kDigitSize> pixels);

}  // namespace dlrun::trainer
