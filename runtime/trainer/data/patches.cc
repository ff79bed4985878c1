// A patch is divided among a few random points: each pixel belongs to the nearest point, and has
// the spectrum of that point's class.

#include "runtime/trainer/data/patches.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "runtime/trainer/data/random.h"

namespace dlrun::trainer {
namespace {

constexpr std::size_t kMostRegions = 4;
/// A region that covers less than 1/kMinAreaDivisor of the patch joins the largest region.
constexpr std::size_t kMinAreaDivisor = 8;

using Spectrum = std::array<double, kPatchBands>;
using Spectra = std::array<Spectrum, kPatchLabels>;

/// Returns the brightness of each class in each band. The result does not depend on the seed, so a
/// model can train with one seed and be tested with another.
Spectra draw_spectra() {
  Spectra spectra;
  for (std::size_t k = 0; k < kPatchLabels; ++k) {
    Random random(0, Purpose::kSpectra, k);
    for (double& value : spectra[k]) value = random.uniform(40, 200);
  }
  return spectra;
}

/// A random point, and the class of the pixels nearest to it.
struct Region {
  double row = 0;
  double column = 0;
  std::size_t class_index = 0;
};

std::vector<Region> draw_regions(std::size_t size, Random& random) {
  std::vector<Region> regions(1 + random.below(kMostRegions));
  const auto edge = static_cast<double>(size);
  for (Region& region : regions) {
    region.row = random.uniform(0, edge);
    region.column = random.uniform(0, edge);
    const double u = random.uniform();
    // The first class is about four times as frequent as the last.
    region.class_index = static_cast<std::size_t>(kPatchLabels * u * std::sqrt(u));
  }
  return regions;
}

/// Returns the class of each pixel, [size x size].
std::vector<std::size_t> classes_of_pixels(std::size_t size, std::span<const Region> regions) {
  std::vector<std::size_t> nearest(size * size);  // for each pixel, the index of the nearest region
  std::array<std::size_t, kMostRegions> areas{};
  for (std::size_t at = 0; at < nearest.size(); ++at) {
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < regions.size(); ++i) {
      const double down = static_cast<double>(at / size) + 0.5 - regions[i].row;
      const double right = static_cast<double>(at % size) + 0.5 - regions[i].column;
      const double distance = down * down + right * right;
      if (distance < least) nearest[at] = i;
      least = std::min(least, distance);
    }
    ++areas[nearest[at]];
  }
  const auto largest = static_cast<std::size_t>(std::ranges::max_element(areas) - areas.begin());
  std::vector<std::size_t> classes;
  classes.reserve(nearest.size());
  for (const std::size_t region : nearest) {
    const bool is_too_small = areas[region] * kMinAreaDivisor < nearest.size();
    classes.push_back(regions[is_too_small ? largest : region].class_index);
  }
  return classes;
}

/// Returns a number of mean 0 and variance 1: the sum of four uniform numbers of 16 bits each,
/// which is nearly normal.
double nearly_normal(Random& random) {
  const std::uint64_t bits = random.next();
  std::uint64_t sum = 0;
  for (unsigned shift = 0; shift < 64; shift += 16) sum += bits >> shift & 0xffffU;
  const double scale = std::sqrt(3.0) / 65536;  // a uniform number has variance 65536^2 / 12
  return (static_cast<double>(sum) - 2 * 65535.0) * scale;
}

void draw_patch(std::size_t size, const Spectra& spectra, Random& random,
                std::span<std::uint8_t> pixels, std::span<std::uint8_t> labels) {
  const std::vector<std::size_t> classes = classes_of_pixels(size, draw_regions(size, random));
  // Light varies over the patch. Haze adds the same value to all pixels of a band.
  const double light = random.uniform(0.85, 1.15);
  const double light_down = random.uniform(-0.15, 0.15);
  const double light_right = random.uniform(-0.15, 0.15);
  const double noise = random.uniform(5, 15);
  Spectrum haze{};
  for (double& value : haze) value = random.uniform(-8, 8);
  const auto edge = static_cast<double>(size);
  for (std::size_t at = 0; at < classes.size(); ++at) {
    const double light_here = light + light_down * (static_cast<double>(at / size) / edge - 0.5) +
                              light_right * (static_cast<double>(at % size) / edge - 0.5);
    const Spectrum& spectrum = spectra[classes[at]];
    for (std::size_t band = 0; band < kPatchBands; ++band) {
      const double value = spectrum[band] * light_here + haze[band] + noise * nearly_normal(random);
      pixels[at * kPatchBands + band] = static_cast<std::uint8_t>(std::clamp(value, 0.0, 255.0));
    }
    labels[classes[at]] = 1;
  }
}

}  // namespace

Dataset generate_patches(std::size_t n, std::size_t size, std::uint64_t seed, bool is_test) {
  Dataset data;
  data.height = data.width = size;
  data.features = size * size * kPatchBands;
  data.classes = data.label_width = kPatchLabels;
  data.images.resize(n * data.features);
  data.labels.resize(n * kPatchLabels);
  const Spectra spectra = draw_spectra();
  for (std::size_t i = 0; i < n; ++i) {
    Random random(seed, is_test ? Purpose::kTestPatches : Purpose::kTrainPatches, i);
    draw_patch(size, spectra, random,
               std::span(data.images).subspan(i * data.features, data.features),
               std::span(data.labels).subspan(i * kPatchLabels, kPatchLabels));
  }
  return data;
}

}  // namespace dlrun::trainer
