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

auto key_of(const ImageChange& change) {
  return std::tuple(change.quarter_turns, change.is_flipped, change.down, change.right);
}

/// Returns the 3 x 3 image 1 2 3 / 4 5 6 / 7 8 9 after the change.
std::vector<float> changed_image(const ImageChange& change, std::size_t channels = 1) {
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
  CHECK(changed_image({}) == std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(changed_image({0, 1, 0, 0}) == std::vector<float>{3, 2, 1, 6, 5, 4, 9, 8, 7});
  CHECK(changed_image({1, 0, 0, 0}) == std::vector<float>{3, 6, 9, 2, 5, 8, 1, 4, 7});
  CHECK(changed_image({2, 0, 0, 0}) == std::vector<float>{9, 8, 7, 6, 5, 4, 3, 2, 1});
  CHECK(changed_image({3, 0, 0, 0}) == std::vector<float>{7, 4, 1, 8, 5, 2, 9, 6, 3});
  CHECK(changed_image({1, 1, 0, 0}) == std::vector<float>{1, 4, 7, 2, 5, 8, 3, 6, 9});
  CHECK(changed_image({0, 0, 1, -1}) == std::vector<float>{0, 0, 0, 2, 3, 0, 5, 6, 0});
  CHECK(changed_image({1, 0, -1, 0}) == std::vector<float>{2, 5, 8, 1, 4, 7, 0, 0, 0});
  CHECK(changed_image({0, 0, 0, 3}) == std::vector<float>(9, 0));
  // Channels of a pixel stay together.
  const auto two_channels = changed_image({0, 1, 0, 0}, 2);
  CHECK(std::vector<float>(two_channels.begin(), two_channels.begin() + 6) ==
        std::vector<float>{5, 6, 3, 4, 1, 2});
}

TEST_CASE(
    "augmentation depends on seed, epoch and sample, and every change occurs about equally often") {
  std::map<std::uint32_t, int> quarter_turns;
  std::map<std::int32_t, int> moves_down;
  int flipped_count = 0;
  int repeated_count = 0;
  constexpr int kSamples = 7000;
  for (std::uint64_t sample = 0; sample < kSamples; ++sample) {
    const ImageChange change = draw_image_change(kAll, 1, 2, sample);
    CHECK(key_of(change) == key_of(draw_image_change(kAll, 1, 2, sample)));
    ++quarter_turns[change.quarter_turns];
    ++moves_down[change.down];
    flipped_count += static_cast<int>(change.is_flipped);
    repeated_count += key_of(change) == key_of(draw_image_change(kAll, 1, 3, sample)) ? 1 : 0;
  }
  REQUIRE(quarter_turns.size() == 4);
  REQUIRE(moves_down.size() == 7);  // -3 to 3
  CHECK(moves_down.begin()->first == -3);
  // The tolerances are five standard deviations.
  for (const auto& [turn, count] : quarter_turns)
    CHECK(count == doctest::Approx(1750).epsilon(0.11));
  for (const auto& [pixels, count] : moves_down)
    CHECK(count == doctest::Approx(1000).epsilon(0.15));
  CHECK(flipped_count == doctest::Approx(3500).epsilon(0.06));
  // There are 2 x 4 x 7 x 7 = 392 changes, so by chance one sample in 392 has the same
  // change in both epochs.
  CHECK(repeated_count < 100);
  CHECK(key_of(draw_image_change(kAll, 1, 2, 5)) != key_of(draw_image_change(kAll, 4, 2, 5)));
  // A change does not depend on which other changes are enabled.
  const ImageChange turned = draw_image_change({false, true, 0}, 1, 2, 5);
  CHECK(turned.quarter_turns == draw_image_change(kAll, 1, 2, 5).quarter_turns);
  CHECK(turned.is_flipped + turned.down + turned.right == 0);
}

TEST_CASE("the text of an augmentation is parsed and printed back, and wrong text is refused") {
  for (const char* text : {"none", "flip", "rotate", "shift 8", "flip,rotate,shift 3"}) {
    const auto parsed = parse_augmentation(text);
    REQUIRE(parsed.has_value());
    CHECK(to_text(*parsed) == text);
  }
  CHECK(parse_augmentation("shift")->max_shift_pixels == 4);
  CHECK(*parse_augmentation(" flip , shift 2 ") == Augmentation{true, false, 2});
  CHECK(parse_augmentation("flop").error().message ==
        "expected none, or flip, rotate and shift [PIXELS], got 'flop'");
  CHECK(parse_augmentation("none,flip").error().message ==
        "expected 'none' without other words or spaces, got 'none,flip'");
  CHECK(parse_augmentation("shift 0").error().message ==
        "expected 'shift', or 'shift N' with N from 1 to 1024, got 'shift 0'");
  CHECK_FALSE(parse_augmentation("").has_value());
}

}  // namespace dlrun::trainer
