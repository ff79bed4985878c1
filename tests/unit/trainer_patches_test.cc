// Tests the generated land-cover patches.

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/trainer/data/dataset.h"
#include "runtime/trainer/data/patches.h"

namespace dlrun::trainer {

TEST_CASE(
    "patches have BigEarthNet's shape, and depend on seed, index and set (training or test)") {
  const Dataset three = generate_patches(3, 120, 7, false);
  CHECK(three.features == 120 * 120 * 12);
  CHECK(three.images.size() == 3 * three.features);
  CHECK(three.classes == 19);
  CHECK(three.label_width == 19);
  CHECK(three.size() == 3);
  const Dataset two = generate_patches(2, 120, 7, false);
  CHECK(std::equal(two.images.begin(), two.images.end(), three.images.begin()));
  CHECK(std::equal(two.labels.begin(), two.labels.end(), three.labels.begin()));
  CHECK(generate_patches(2, 120, 8, false).images != two.images);
  CHECK(generate_patches(2, 120, 7, true).images != two.images);
}

TEST_CASE(
    "each patch has one to four labels, and all labels occur, those with low numbers more often") {
  constexpr std::size_t kPatches = 3000;
  const Dataset data = generate_patches(kPatches, 12, 1, false);
  std::vector<std::size_t> label_counts(19);
  for (std::size_t i = 0; i < kPatches; ++i) {
    const auto first = data.labels.begin() + static_cast<std::ptrdiff_t>(i * 19);
    const auto label_count = std::accumulate(first, first + 19, 0);
    CHECK(label_count >= 1);
    CHECK(label_count <= 4);
    for (std::size_t k = 0; k < 19; ++k) label_counts[k] += first[static_cast<std::ptrdiff_t>(k)];
  }
  CHECK(*std::ranges::min_element(label_counts) > 150);
  CHECK(label_counts[0] > 2 * label_counts[18]);
}

TEST_CASE(
    "a patch with a single label is nearest, by the sums of its bands, to the example patch of "
    "that label") {
  // The patches and the examples have different seeds. The sum over a band's pixels removes noise.
  // More than 95 % of the patches must be nearest to the example of their label.
  const auto band_sums = [](const Dataset& data, std::size_t i) {
    std::vector<double> sums(12);
    for (std::size_t at = 0; at < data.features; ++at)
      sums[at % 12] += data.images[i * data.features + at];
    return sums;
  };
  const auto only_label = [](const Dataset& data, std::size_t i) {
    const auto first = data.labels.begin() + static_cast<std::ptrdiff_t>(i * 19);
    return std::accumulate(first, first + 19, 0) == 1 ? std::find(first, first + 19, 1) - first
                                                      : std::ptrdiff_t{-1};
  };
  const Dataset train = generate_patches(3000, 12, 1, false);
  const Dataset test = generate_patches(500, 12, 2, true);
  std::vector<std::vector<double>> sums_of_example(19);  // of one patch for each label
  for (std::size_t i = 0; i < train.size(); ++i) {
    if (const auto label = only_label(train, i); label >= 0)
      sums_of_example[static_cast<std::size_t>(label)] = band_sums(train, i);
  }
  int right_count = 0;
  int tested_count = 0;
  for (std::size_t i = 0; i < test.size(); ++i) {
    const auto label = only_label(test, i);
    if (label < 0) continue;
    const auto sums = band_sums(test, i);
    const auto distance = [&](const std::vector<double>& other) {
      double sum = 0;
      for (std::size_t band = 0; band < other.size(); ++band)
        sum += (sums[band] - other[band]) * (sums[band] - other[band]);
      return other.empty() ? 1e9 : sum;
    };
    const auto nearest = std::ranges::min_element(sums_of_example, {}, distance);
    right_count += nearest - sums_of_example.begin() == label ? 1 : 0;
    ++tested_count;
  }
  CHECK(tested_count > 80);
  CHECK(right_count > 0.95 * tested_count);
}

TEST_CASE(
    "patches have the number and the size that the options give, and a folder of data is refused") {
  DataOptions options;
  options.dataset = "patches";
  options.patch_size = 8;
  options.train_samples = 5;
  options.test_samples = 3;
  const auto split = load_data(options);
  REQUIRE(split.has_value());
  CHECK(split->train.size() == 5);
  CHECK(split->test.size() == 3);
  CHECK(split->train.height == 8);
  options.path = "/data";
  CHECK(load_data(options).error().message ==
        "--dataset patches generates its images; remove --data /data");
}

}  // namespace dlrun::trainer
