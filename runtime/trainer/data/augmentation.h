#pragma once
// Draws random changes of training images: mirroring, quarter turns and shifts. The changes of a
// sample depend on seed, epoch and sample only, so they are equal after a restart. They are also
// equal for any number of ranks, unless the caller gives each rank its own seed (loop/batch.cc).

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/result.h"
#include "runtime/trainer/nn/image_change.h"

namespace dlrun::trainer {

struct Augmentation {
  bool flips = false;    ///< mirrors left and right, with probability 1/2
  bool rotates = false;  ///< turns by 0, 90, 180 or 270 degrees; needs square images
  /// Moves by at most this number of pixels down or up, and right or left.
  std::size_t max_shift_pixels = 0;

  [[nodiscard]] bool is_empty() const { return !flips && !rotates && max_shift_pixels == 0; }
  friend bool operator==(const Augmentation&, const Augmentation&) = default;
};

/// Parses "flip", "rotate" and "shift [PIXELS]" (1 to 1024; default 4), separated by commas.
/// "none", without any other word, means no changes. Fails with kUsage.
[[nodiscard]] Result<Augmentation> parse_augmentation(std::string_view text);
/// Returns a text from which parse_augmentation() makes the same augmentation.
[[nodiscard]] std::string to_text(const Augmentation& augmentation);

/// Draws the changes of a sample in an epoch from the random stream with the key (seed,
/// Purpose::kAugment, epoch and sample). The number of draws is constant, so that a kind of
/// change that is switched on or off does not alter the other changes.
[[nodiscard]] ImageChange draw_image_change(const Augmentation& augmentation, std::uint64_t seed,
                                            std::uint64_t epoch, std::uint64_t sample);

}  // namespace dlrun::trainer
