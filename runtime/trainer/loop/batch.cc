// The input of a training step.

#include <vector>

#include "runtime/trainer/loop/parts.h"

namespace dlrun::trainer {

void Trainer::gather(std::span<const std::uint32_t> samples) {
  Parts& p = *parts_;
  Kernels<float>& kernels = session_.kernels;
  const bool is_plain = options_.augmentation.is_empty();
  kernels.gather(p.train, samples, kPixelScale, is_plain ? p.network.input() : p.originals.data(),
                 p.labels.data());
  if (is_plain) return;
  // If the ranks do not share each epoch's samples, each rank draws its own changes, as it draws
  // its own order of samples.
  const std::uint64_t who = options_.sharding == Sharding::kSample
                                ? 0
                                : static_cast<std::uint64_t>(session_.communicator.rank()) + 1;
  std::vector<Placement> placements;
  for (const std::uint32_t sample : samples) {
    placements.push_back(
        placement_of(options_.augmentation, mix(options_.seed) ^ who, p.position.epoch, sample));
  }
  kernels.layers().place(image_shape(data_.train), placements, p.originals.data(),
                         p.network.input());
}

}  // namespace dlrun::trainer
