#pragma once
// Mirrors, turns and shifts images. CUDA's compiler reads this file too (C++17).

#include <cstddef>
#include <cstdint>

#include "runtime/trainer/host_device.h"
#include "runtime/trainer/nn/window.h"

namespace dlrun::trainer {

/// The changes of one image: the image is first mirrored, then turned, then shifted.
struct ImageChange {
  std::uint32_t quarter_turns = 0;  ///< turns of 90 degrees, counter-clockwise
  std::uint32_t is_flipped = 0;     ///< 1: left and right are exchanged; 0: not
  std::int32_t down = 0;            ///< pixels
  std::int32_t right = 0;           ///< pixels
};

/// Returns the value of element (row, column, k) of the changed image. x: the original image,
/// [height x width x channels]. Pixels that a shift uncovers are 0. If quarter_turns > 0, the image
/// must be square.
template <typename T>
DLRUN_HOST_DEVICE inline T changed_element(const ImageShape& shape, const ImageChange& change,
                                           const T* x, std::size_t row, std::size_t column,
                                           std::size_t k) {
  const auto height = static_cast<std::int64_t>(shape.height);
  const auto width = static_cast<std::int64_t>(shape.width);
  std::int64_t r = static_cast<std::int64_t>(row) - change.down;
  std::int64_t c = static_cast<std::int64_t>(column) - change.right;
  if (r < 0 || r >= height || c < 0 || c >= width) return T{0};
  for (std::uint32_t turn = 0; turn < change.quarter_turns; ++turn) {
    // Undoes one turn. A turn counter-clockwise brings the element in row i and column j to row
    // width - 1 - j and column i. So the element at (r, c) comes from row c, column width - 1 - r.
    const std::int64_t before = r;
    r = c;
    c = width - 1 - before;
  }
  if (change.is_flipped != 0) c = width - 1 - c;
  return x[(static_cast<std::size_t>(r) * shape.width + static_cast<std::size_t>(c)) *
               shape.channels +
           k];
}

}  // namespace dlrun::trainer
