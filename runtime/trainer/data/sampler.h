#pragma once
// Chooses the samples that a rank processes in each step.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dlrun::trainer {

/// How the ranks divide the work.
enum class Sharding {
  /// The samples of every epoch are spread over the ranks; n ranks with a batch of B samples give
  /// the same result as one rank with a batch of n * B samples.
  kSample,
  kFile,  ///< each rank reads its own files, and shuffles their samples anew in every epoch
  /// The epochs are spread over the ranks; every rank runs ceil(epochs / ranks) epochs, each
  /// with all samples in the rank's own order.
  kEpoch,
};

/// One rank's part of one step.
struct Batch {
  /// Indices of this rank's samples; may be empty at the end of an epoch.
  std::span<const std::uint32_t> samples;
  /// Number of samples of all ranks in this step. Except in local steps, the gradients are divided
  /// by this number (StepScope::divisor).
  std::size_t global_samples = 0;
  std::size_t advance = 0;  ///< number of samples by which this step moves the offset
};

/// Shuffles the samples of every epoch (Fisher-Yates with a seed) and gives each rank its part.
///
/// kSample: the order does not depend on rank or world size. Each step takes the next ranks * batch
/// samples, and rank r the r-th part of them. The last step of an epoch may be smaller; its samples
/// are divided as evenly as possible. The position in an epoch is an offset in samples, so a run
/// can resume with another world size.
///
/// kFile: each rank applies the offset to its own samples. A rank that has finished its samples
/// gets empty batches until the rank with the most samples has finished, so every epoch has each
/// sample once.
///
/// kEpoch: every rank has its own epochs with all samples, and the offset counts the samples of
/// this rank's epoch.
class Sampler {
 public:
  struct Options {
    std::size_t samples = 0;  ///< number of samples in the data set, > 0; not used for kFile
    std::size_t batch = 1;    ///< samples per rank and step, > 0
    int rank = 0;
    int ranks = 1;
    Sharding sharding = Sharding::kSample;
    std::uint64_t seed = 1;
    /// For kFile: number of samples of each rank, in the order of the ranks.
    std::vector<std::size_t> rank_samples{};
  };

  explicit Sampler(const Options& options);

  /// Returns the offset at which an epoch ends.
  [[nodiscard]] std::size_t epoch_length() const;

  /// Returns Batch::advance of a full step.
  [[nodiscard]] std::size_t full_advance() const;

  /// Returns the number of steps from `offset` in `epoch`, both from 0, until this rank has
  /// completed `epochs` epochs (epochs_per_rank()). `offset` is in samples.
  [[nodiscard]] std::uint64_t steps_left(std::size_t epoch, std::size_t offset,
                                         std::size_t epochs) const;

  /// Returns the batch at `offset` (below epoch_length()) of `epoch`, both from 0. Its span is
  /// valid until the next call of batch().
  [[nodiscard]] Batch batch(std::size_t epoch, std::size_t offset);

 private:
  void shuffle(std::size_t epoch);

  Options options_;
  std::vector<std::uint32_t> order_;       // samples in the order of shuffled_epoch_
  std::size_t shuffled_epoch_ = SIZE_MAX;  // SIZE_MAX: not shuffled yet
};

/// Returns the number of epochs that each rank runs: with kEpoch the epochs divided by the number
/// of ranks, `size`, rounded up; otherwise all epochs.
[[nodiscard]] std::size_t epochs_per_rank(Sharding sharding, std::size_t epochs, int size);

/// A position in training: whole epochs, and the offset in the epoch after them.
struct EpochPosition {
  std::uint64_t epoch = 0;
  std::uint64_t offset = 0;

  friend bool operator==(const EpochPosition&, const EpochPosition&) = default;
};

/// Converts the position that each of `old_ranks` ranks has reached in its own epochs (kEpoch) to
/// the position of each of `new_ranks` ranks. `length` is the number of samples of an epoch. The
/// number of samples that the old ranks have done together is divided by new_ranks and rounded
/// down, so the remainder of the division is trained again. `length`, `old_ranks` and `new_ranks`
/// are > 0.
[[nodiscard]] EpochPosition redistributed(EpochPosition position, std::size_t length,
                                          std::uint64_t old_ranks, std::uint64_t new_ranks);

/// The items [begin, end) that belong to one rank.
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
  [[nodiscard]] std::size_t size() const { return end - begin; }
};
/// Returns the part of n items that belongs to `rank`. `size` is the number of ranks. The first n
/// mod size ranks get one item more.
[[nodiscard]] Range even_part(std::size_t n, int rank, int size);

}  // namespace dlrun::trainer
