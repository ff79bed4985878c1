#include "runtime/trainer/data/augmentation.h"

#include <vector>

#include "common/text.h"
#include "runtime/trainer/data/random.h"

namespace dlrun::trainer {
namespace {

constexpr std::size_t kDefaultShift = 4;
constexpr std::int64_t kMostShift = 1024;

Result<std::size_t> shift_of(std::string_view word) {
  const std::string_view pixels = trim(word.substr(std::string_view("shift").size()));
  if (pixels.empty()) return kDefaultShift;
  const auto number = parse_int(pixels);
  if (!number || *number < 1 || *number > kMostShift) {
    return fail(Errc::kUsage, "expected 'shift', or 'shift N' with N from 1 to {}, got '{}'",
                kMostShift, printable(word));
  }
  return static_cast<std::size_t>(*number);
}

}  // namespace

Result<Augmentation> parse_augmentation(std::string_view text) {
  Augmentation augmentation;
  if (text == "none") return augmentation;
  for (const std::string_view part : split(text, ',')) {
    const std::string_view word = trim(part);
    if (word == "flip") {
      augmentation.flips = true;
    } else if (word == "rotate") {
      augmentation.rotates = true;
    } else if (word == "shift" || word.starts_with("shift ")) {
      DLRUN_TRY_ASSIGN(augmentation.max_shift_pixels, shift_of(word));
    } else if (word == "none") {
      return fail(Errc::kUsage, "expected 'none' without other words or spaces, got '{}'",
                  printable(text));
    } else {
      return fail(Errc::kUsage, "expected none, or flip, rotate and shift [PIXELS], got '{}'",
                  printable(word));
    }
  }
  return augmentation;
}

std::string to_text(const Augmentation& augmentation) {
  std::vector<std::string> words;
  if (augmentation.flips) words.emplace_back("flip");
  if (augmentation.rotates) words.emplace_back("rotate");
  if (augmentation.max_shift_pixels > 0)
    words.push_back(fmt::format("shift {}", augmentation.max_shift_pixels));
  return words.empty() ? "none" : join(words, ",");
}

ImageChange draw_image_change(const Augmentation& augmentation, std::uint64_t seed,
                              std::uint64_t epoch, std::uint64_t sample) {
  Random random(seed, Purpose::kAugment, mix(epoch) ^ sample);
  const auto flipped = random.below(2);
  const auto quarter_turns = random.below(4);
  const auto max_shift = static_cast<std::int32_t>(augmentation.max_shift_pixels);
  const auto draw_shift = [&] {
    const auto range = static_cast<std::uint64_t>(2 * max_shift + 1);
    return static_cast<std::int32_t>(random.below(range)) - max_shift;
  };
  ImageChange change;
  change.is_flipped = augmentation.flips ? static_cast<std::uint32_t>(flipped) : 0;
  change.quarter_turns = augmentation.rotates ? static_cast<std::uint32_t>(quarter_turns) : 0;
  change.down = draw_shift();
  change.right = draw_shift();
  return change;
}

}  // namespace dlrun::trainer
