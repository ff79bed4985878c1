#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/trainer/data/dataset.h"
#include "runtime/trainer/data/random.h"
#include "runtime/trainer/data/sampler.h"

namespace dlrun::trainer {
namespace {

using Samples = std::vector<std::uint32_t>;

/// Returns the samples of every step of an epoch, over all ranks in rank order. `batch` is the
/// batch size of one rank. Checks the size of each rank's part.
std::vector<Samples> steps_of_epoch(std::size_t sample_count, std::size_t batch, int rank_count,
                                    std::size_t epoch) {
  std::vector<Samples> steps;
  std::vector<Sampler> samplers;
  for (int rank = 0; rank < rank_count; ++rank)
    samplers.emplace_back(
        Sampler::Options{sample_count, batch, rank, rank_count, Sharding::kSample, 5});
  for (std::size_t offset = 0; offset < sample_count;) {
    Samples step;
    std::size_t advance = 0;
    for (Sampler& sampler : samplers) {
      const Batch part = sampler.batch(epoch, offset);
      step.insert(step.end(), part.samples.begin(), part.samples.end());
      CHECK(part.samples.size() <= batch);
      CHECK(part.global_samples ==
            std::min(batch * static_cast<std::size_t>(rank_count), sample_count - offset));
      advance = part.advance;
    }
    CHECK(step.size() == advance);
    steps.push_back(step);
    offset += advance;
  }
  return steps;
}

}  // namespace

TEST_CASE("the ranks' batches form the same global batches at every world size") {
  for (const std::size_t sample_count : {96U, 97U, 107U, 5U}) {
    for (const int rank_count : {2, 3, 4, 6, 12}) {
      CAPTURE(sample_count);
      CAPTURE(rank_count);
      const auto one_rank = steps_of_epoch(sample_count, 24, 1, 3);
      const auto many_ranks =
          steps_of_epoch(sample_count, 24 / static_cast<std::size_t>(rank_count), rank_count, 3);
      CHECK(one_rank == many_ranks);
    }
  }
}

TEST_CASE("an epoch holds every sample once, in an order that changes with epoch and seed") {
  const auto epoch_order = [](std::size_t epoch, std::uint64_t seed) {
    Sampler sampler({50, 50, 0, 1, Sharding::kSample, seed});
    const Batch batch = sampler.batch(epoch, 0);
    return Samples(batch.samples.begin(), batch.samples.end());
  };
  Samples sorted = epoch_order(0, 1);
  std::sort(sorted.begin(), sorted.end());
  for (std::uint32_t i = 0; i < 50; ++i) CHECK(sorted[i] == i);
  CHECK(epoch_order(0, 1) == epoch_order(0, 1));
  CHECK(epoch_order(0, 1) != epoch_order(1, 1));
  CHECK(epoch_order(0, 1) != epoch_order(0, 2));
}

TEST_CASE(
    "with --shard epoch, every rank gets all samples in its own order, and the ranks divide the "
    "epochs") {
  Sampler a({20, 8, 0, 2, Sharding::kEpoch, 1});
  Sampler b({20, 8, 1, 2, Sharding::kEpoch, 1});
  Samples all_a;
  Samples all_b;
  for (std::size_t offset = 0; offset < 20;) {
    const Batch part_a = a.batch(0, offset);
    const Batch part_b = b.batch(0, offset);
    all_a.insert(all_a.end(), part_a.samples.begin(), part_a.samples.end());
    all_b.insert(all_b.end(), part_b.samples.begin(), part_b.samples.end());
    CHECK(part_a.global_samples == 2 * part_a.samples.size());
    offset += part_a.advance;
  }
  CHECK(all_a != all_b);
  CHECK(std::set(all_a.begin(), all_a.end()).size() == 20);
  CHECK(std::set(all_b.begin(), all_b.end()).size() == 20);
  CHECK(epochs_per_rank(Sharding::kEpoch, 12, 5) == 3);
  CHECK(epochs_per_rank(Sharding::kEpoch, 4, 4) == 1);
  CHECK(epochs_per_rank(Sharding::kSample, 4, 4) == 4);
}

TEST_CASE(
    "with --shard file, an epoch has each rank's samples once, and ends after the rank with the "
    "most samples") {
  const std::vector<std::size_t> sizes{20, 33, 9};
  std::vector<Sampler> samplers;
  for (int rank = 0; rank < 3; ++rank)
    samplers.emplace_back(Sampler::Options{0, 8, rank, 3, Sharding::kFile, 1, sizes});
  std::vector<Samples> taken(3);
  std::vector<std::size_t> global;
  for (std::size_t offset = 0; offset < samplers[0].epoch_length();) {
    std::size_t sum = 0;
    std::size_t advance = 0;
    for (std::size_t rank = 0; rank < 3; ++rank) {
      const Batch part = samplers[rank].batch(0, offset);
      taken[rank].insert(taken[rank].end(), part.samples.begin(), part.samples.end());
      sum += part.samples.size();
      advance = part.advance;
      if (rank == 0) global.push_back(part.global_samples);
    }
    CHECK(global.back() == sum);
    offset += advance;
  }
  CHECK(global == std::vector<std::size_t>{24, 17, 12, 8, 1});
  for (std::size_t rank = 0; rank < 3; ++rank) {
    CHECK(taken[rank].size() == sizes[rank]);
    CHECK(std::set(taken[rank].begin(), taken[rank].end()).size() == sizes[rank]);
  }
  CHECK(epochs_per_rank(Sharding::kFile, 4, 4) == 4);
}

TEST_CASE("steps_left() equals the number of steps that follow") {
  for (const auto sharding : {Sharding::kSample, Sharding::kFile, Sharding::kEpoch}) {
    Sampler sampler({50, 8, 0, 3, sharding, 1, {30, 50, 1}});
    constexpr std::size_t kEpochs = 3;
    std::uint64_t left = sampler.steps_left(0, 0, kEpochs);
    for (std::size_t epoch = 0; epoch < kEpochs; ++epoch) {
      for (std::size_t offset = 0; offset < 50;
           offset += sampler.batch(epoch, offset).advance, --left) {
        CHECK(sampler.steps_left(epoch, offset, kEpochs) == left);
      }
    }
    CHECK(left == 0);
    CHECK(sampler.steps_left(kEpochs - 1, 50, kEpochs) == 0);
  }
}

TEST_CASE(
    "with --shard epoch, another number of ranks resumes after the same total number of samples, "
    "rounded down") {
  CHECK(redistributed({3, 17}, 100, 4, 4) == EpochPosition{3, 17});
  CHECK(redistributed({1, 40}, 100, 2, 4) == EpochPosition{0, 70});
  CHECK(redistributed({1, 40}, 100, 2, 1) == EpochPosition{2, 80});
  CHECK(redistributed({1, 99}, 100, 1, 7) == EpochPosition{0, 28});
  CHECK(redistributed({5, 0}, 100, 3, 5) == EpochPosition{3, 0});
  CHECK(redistributed({1'000'000, 0}, 4'000'000'000, 100'000, 99'999) ==
        EpochPosition{1'000'010, 400'004});
}

TEST_CASE(
    "even_part() gives parts that cover everything once, and whose sizes differ by at most one") {
  for (const std::size_t n : {0U, 1U, 6U, 7U, 8U, 100U}) {
    for (const int size : {1, 2, 7}) {
      std::size_t next = 0;
      for (int rank = 0; rank < size; ++rank) {
        const Range part = even_part(n, rank, size);
        CHECK(part.begin == next);
        CHECK(part.size() >= n / static_cast<std::size_t>(size));
        CHECK(part.size() <= n / static_cast<std::size_t>(size) + 1);
        next = part.end;
      }
      CHECK(next == n);
    }
  }
}

TEST_CASE(
    "generated digits depend only on seed, index and set (training or test), and every class "
    "occurs") {
  const Dataset digits = generate_digits(300, 3, false);
  const Dataset fewer = generate_digits(100, 3, false);
  CHECK(std::equal(fewer.images.begin(), fewer.images.end(), digits.images.begin()));
  CHECK(generate_digits(100, 4, false).images != fewer.images);
  CHECK(generate_digits(100, 3, true).images != fewer.images);
  std::array<int, 10> count{};
  for (const std::uint8_t label : digits.labels) ++count.at(label);
  for (const int n : count) CHECK(n > 10);

  // An image is neither empty nor full: between 2 and 50 percent of its pixels are ink.
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const auto* image = digits.images.data() + i * digits.features;
    const auto ink = std::count_if(image, image + digits.features,
                                   [](std::uint8_t pixel) { return pixel > 120; });
    CAPTURE(i);
    CHECK(ink > 15);
    CHECK(ink < 400);
  }
}

TEST_CASE(
    "mix() gives SplitMix64's published numbers, and uniform() gives numbers from 0 to below 1") {
  // SplitMix64's first outputs for seed 1234567, as the Rosetta Code task "Pseudo-random
  // numbers/Splitmix64" lists them.
  std::uint64_t state = 1234567;
  const auto next = [&] {
    const std::uint64_t value = mix(state);
    state += 0x9e3779b97f4a7c15U;
    return value;
  };
  CHECK(next() == 6457827717110365317U);
  CHECK(next() == 3203168211198807973U);
  CHECK(next() == 9817491932198370423U);

  Random random(1, Purpose::kShuffle);
  double sum = 0;
  for (int i = 0; i < 10'000; ++i) {
    const double u = random.uniform();
    CHECK((u >= 0 && u < 1));
    sum += u;
  }
  CHECK(sum / 10'000 == doctest::Approx(0.5).epsilon(0.03));  // within 15 standard deviations
}

}  // namespace dlrun::trainer
