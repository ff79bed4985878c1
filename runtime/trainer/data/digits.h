#pragma once
// Drawn digits: images of 0 to 9 for machines without data or network. A model has to learn them:
// every image has its own style, slant, rotation, size, place, pen and noise.

#include <cstdint>
#include <span>

#include "runtime/trainer/data/random.h"

namespace dlrun::trainer {

inline constexpr std::uint32_t kDigitSize = 28;  ///< pixels in a row and in a column

/// Draws digit (0..9) into pixels ([28 x 28], row-major, 0 is background). The same stream draws
/// the same image.
void draw_digit(int digit, Random& random, std::span<std::uint8_t, kDigitSize * kDigitSize> pixels);

}  // namespace dlrun::trainer
