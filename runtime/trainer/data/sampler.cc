#include "runtime/trainer/data/sampler.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "runtime/trainer/data/random.h"

namespace dlrun::trainer {

Sampler::Sampler(const Options& options)
    : options_(options),
      order_(options.sharding == Sharding::kFile
                 ? options.rank_samples[static_cast<std::size_t>(options.rank)]
                 : options.samples) {}

std::size_t Sampler::epoch_length() const {
  return options_.sharding == Sharding::kFile ? *std::ranges::max_element(options_.rank_samples)
                                              : options_.samples;
}

std::size_t Sampler::full_advance() const {
  return options_.sharding == Sharding::kSample
             ? options_.batch * static_cast<std::size_t>(options_.ranks)
             : options_.batch;
}

std::uint64_t Sampler::steps_left(std::size_t epoch, std::size_t offset, std::size_t epochs) const {
  const std::size_t advance = full_advance();
  const auto steps_of = [advance](std::size_t samples) {
    return (samples + advance - 1) / advance;
  };
  return epoch < epochs
             ? steps_of(epoch_length() - offset) + (epochs - epoch - 1) * steps_of(epoch_length())
             : 0;
}

Batch Sampler::batch(std::size_t epoch, std::size_t offset) {
  if (shuffled_epoch_ != epoch) shuffle(epoch);
  const std::size_t count = std::min(full_advance(), epoch_length() - offset);
  if (options_.sharding == Sharding::kFile) {
    const auto count_in_step = [&](std::size_t rank_samples) {
      return std::min(count, rank_samples - std::min(rank_samples, offset));
    };
    Batch batch{std::span<const std::uint32_t>(order_), 0, count};
    batch.samples =
        batch.samples.subspan(std::min(order_.size(), offset), count_in_step(order_.size()));
    for (const std::size_t samples : options_.rank_samples)
      batch.global_samples += count_in_step(samples);
    return batch;
  }
  const auto step_samples = std::span<const std::uint32_t>(order_).subspan(offset, count);
  if (options_.sharding == Sharding::kEpoch)
    return {step_samples, count * static_cast<std::size_t>(options_.ranks), count};
  const Range mine = even_part(count, options_.rank, options_.ranks);
  return {step_samples.subspan(mine.begin, mine.size()), count, count};
}

void Sampler::shuffle(std::size_t epoch) {
  std::iota(order_.begin(), order_.end(), 0U);
  const std::uint64_t rank_salt =
      options_.sharding == Sharding::kSample ? 0 : static_cast<std::uint64_t>(options_.rank) + 1;
  Random random(mix(options_.seed) ^ rank_salt, Purpose::kShuffle, epoch);
  for (std::size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random.below(i)]);
  shuffled_epoch_ = epoch;
}

std::size_t epochs_per_rank(Sharding sharding, std::size_t epochs, int size) {
  const auto ranks = static_cast<std::size_t>(size);
  return sharding == Sharding::kEpoch ? (epochs + ranks - 1) / ranks : epochs;
}

EpochPosition redistributed(EpochPosition position, std::size_t length, std::uint64_t old_ranks,
                            std::uint64_t new_ranks) {
  if (old_ranks == new_ranks) return position;
  // Convert epochs and samples separately: the total number of samples may exceed 64 bits.
  const std::uint64_t epochs = position.epoch * old_ranks;
  const std::uint64_t samples =
      (epochs % new_ranks * length + position.offset * old_ranks) / new_ranks;
  return {epochs / new_ranks + samples / length, samples % length};
}

Range even_part(std::size_t n, int rank, int size) {
  const auto ranks_before = static_cast<std::size_t>(rank);
  const auto ranks = static_cast<std::size_t>(size);
  const std::size_t base = n / ranks;
  const std::size_t extra = n % ranks;
  const std::size_t begin = ranks_before * base + std::min(ranks_before, extra);
  return {begin, begin + base + (ranks_before < extra ? 1 : 0)};
}

}  // namespace dlrun::trainer
