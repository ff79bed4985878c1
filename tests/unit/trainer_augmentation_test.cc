// Tests the random changes of augmentation, and where each change puts the pixels.

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/trainer/data/augmentation.h"
#include "runtime/trainer/nn/kernels.h"
#include "runtime/trainer/nn/layer_kernels.h"

namespace dlrun::trainer {
namespace {

const Augmentation kAll{true, true, 3};

auto key_of(const ImageChange& p) {
  return std::tuple(p.quarters, p.is_flipped, p.down, p.right);
}

/// Returns the 3 x 3 image 1 2 3 / 4 5 6 / 7 8 9 after the changes.
std::vector<float> placed(const ImageChange& change, std::size_t channels = 1) {
  const auto kernels = make_cpu_kernels<float>(1);
  const ImageShape shape{3, 3, channels};
  std::vector<float> x(shape.size());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i + 1);
  std::vector<float> y(x.size(), -1);
  kernels->layer_kernels().change_images(shape, std::vector{change}, x.data(), y.data());
  return y;
}

}  // namespace

TEST_CASE("augmentation mirrors an image, then rotates it counter-clockwise, then shifts it") {
  CHECK(placed({}) == std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(placed({0, 1, 0, 0}) == std::vector<float>{3, 2, 1, 6, 5, 4, 9, 8, 7});
  CHECK(placed({1, 0, 0, 0}) == std::vector<float>{3, 6, 9, 2, 5, 8, 1, 4, 7});
  CHECK(placed({2, 0, 0, 0}) == std::vector<float>{9, 8, 7, 6, 5, 4, 3, 2, 1});
  CHECK(placed({3, 0, 0, 0}) == std::vector<float>{7, 4, 1, 8, 5, 2, 9, 6, 3});
  CHECK(placed({1, 1, 0, 0}) == std::vector<float>{1, 4, 7, 2, 5, 8, 3, 6, 9});
  CHECK(placed({0, 0, 1, -1}) == std::vector<float>{0, 0, 0, 2, 3, 0, 5, 6, 0});
  CHECK(placed({1, 0, -1, 0}) == std::vector<float>{2, 5, 8, 1, 4, 7, 0, 0, 0});
  CHECK(placed({0, 0, 0, 3}) == std::vector<float>(9, 0));
  // Channels of a pixel stay together.
  const auto two = placed({0, 1, 0, 0}, 2);
  CHECK(std::vector<float>(two.begin(), two.begin() + 6) == std::vector<float>{5, 6, 3, 4, 1, 2});
}

TEST_CASE(
    "augmentation depends on seed, epoch and sample, and every change occurs about equally often") {
  std::map<std::uint32_t, int> quarters;
  std::map<std::int32_t, int> down;
  int flipped = 0;
  int repeated = 0;
  constexpr int kSamples = 7000;
  for (std::uint64_t sample = 0; sample < kSamples; ++sample) {
    const ImageChange one = image_change(kAll, 1, 2, sample);
    CHECK(key_of(one) == key_of(image_change(kAll, 1, 2, sample)));
    ++quarters[one.quarters];
    ++down[one.down];
    flipped += static_cast<int>(one.is_flipped);
    repeated += key_of(one) == key_of(image_change(kAll, 1, 3, sample)) ? 1 : 0;
  }
  REQUIRE(quarters.size() == 4);
  REQUIRE(down.size() == 7);  // -3 to 3
  CHECK(down.begin()->first == -3);
  // The tolerances are five standard deviations.
  for (const auto& [turn, count] : quarters) CHECK(count == doctest::Approx(1750).epsilon(0.11));
  for (const auto& [moved, count] : down) CHECK(count == doctest::Approx(1000).epsilon(0.15));
  CHECK(flipped == doctest::Approx(3500).epsilon(0.06));
  CHECK(repeated < 100);  // by chance one of 2 x 4 x 7 x 7 = 392 samples
  CHECK(key_of(image_change(kAll, 1, 2, 5)) != key_of(image_change(kAll, 4, 2, 5)));
  // A change does not depend on which other changes are enabled.
  const ImageChange turned = image_change({false, true, 0}, 1, 2, 5);
  CHECK(turned.quarters == image_change(kAll, 1, 2, 5).quarters);
  CHECK(turned.is_flipped + turned.down + turned.right == 0);
}

TEST_CASE("the text of an augmentation is parsed and printed back, and wrong text is refused") {
  for (const char* text : {"none", "flip", "rotate", "shift 8", "flip,rotate,shift 3"}) {
    const auto parsed = parse_augmentation(text);
    REQUIRE(parsed.has_value());
    CHECK(to_text(*parsed) == text);
  }
  CHECK(parse_augmentation("shift")->shift == 4);
  CHECK(*parse_augmentation(" flip , shift 2 ") == Augmentation{true, false, 2});
  CHECK(parse_augmentation("flop").error().message ==
        "expected none, or flip, rotate and shift [PIXELS], got 'flop'");
  CHECK(parse_augmentation("shift 0").error().message ==
        "expected 'shift', or 'shift N' with N from 1 to 1024, got 'shift 0'");
  CHECK_FALSE(parse_augmentation("").has_value());
}

}  // namespace dlrun::trainer
