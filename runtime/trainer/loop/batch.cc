// Loads the input of a training step.

#include <vector>

#include "runtime/trainer/loop/parts.h"

namespace dlrun::trainer {

void Trainer::load_samples(std::span<const std::uint32_t> samples) {
  Parts& p = *parts_;
  Kernels<float>& kernels = session_.kernels;
  const bool is_plain = options_.augmentation.is_empty();
  kernels.gather(p.train, samples, kPixelScale, is_plain ? p.network.input() : p.originals.data(),
                 p.labels.data());
  if (is_plain) return;
  // If the ranks do not divide the samples of each epoch among themselves, each rank draws its own
  // changes, like its own order of samples (Sampler::shuffle).
  const std::uint64_t rank_salt =
      options_.sharding == Sharding::kSample
          ? 0
          : static_cast<std::uint64_t>(session_.communicator.rank()) + 1;
  std::vector<ImageChange> changes;
  for (const std::uint32_t sample : samples) {
    changes.push_back(draw_image_change(options_.augmentation, mix(options_.seed) ^ rank_salt,
                                        p.position.epoch, sample));
  }
  kernels.layer_kernels().change_images(image_shape(data_.train), changes, p.originals.data(),
                                        p.network.input());
}

}  // namespace dlrun::trainer
