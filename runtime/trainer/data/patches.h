#pragma once
// Generates land-cover patches like those of BigEarthNet (Sumbul et al. 2019; 19 labels: Sumbul et
// al. 2021): square images of 12 spectral bands, each with some of 19 labels. Needs neither files
// nor a network connection.

#include <cstddef>
#include <cstdint>

#include "runtime/trainer/data/dataset.h"

namespace dlrun::trainer {

inline constexpr std::size_t kPatchSize = 120;  ///< pixels per row and per column, by default
inline constexpr std::size_t kPatchBands = 12;
inline constexpr std::size_t kPatchLabels = 19;  ///< number of classes

/// Draws n patches of size x size pixels, for the test data if is_test, else for the training data.
/// Test and training data use different random streams. images: [n x size x size x 12], labels: [n
/// x 19] of 0 or 1. Each class has a spectrum of its own. A patch has up to four regions, each of
/// one class, and each region covers at least an eighth of the patch. The labels of a patch are the
/// classes of its regions. Light, haze and noise vary. The first classes are more frequent than the
/// last. Sample i depends only on (seed, is_test, size, i). size > 0.
[[nodiscard]] Dataset generate_patches(std::size_t n, std::size_t size, std::uint64_t seed,
                                       bool is_test);

}  // namespace dlrun::trainer
