#pragma once
// Which samples a rank takes in a step.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dlrun::trainer {

/// How the ranks share the work.
enum class Sharding {
  kSample,  ///< every epoch's samples are spread over the ranks: size ranks x batch B equals one
            ///< rank x batch size * B
  kFile,    ///< the data lie on the ranks already, each has files of its own: every epoch it takes
            ///< them in its own order
  kEpoch,   ///< the epochs are spread: every rank sees all samples, in its own order, ceil(epochs /
            ///< size) times
};

/// One rank's part of one step.
struct Batch {
  std::span<const std::uint32_t> samples;  ///< this rank's; may be empty in an epoch's last step
  std::size_t global_samples =
      0;                    ///< of all ranks together in this step; the gradient is divided by it
  std::size_t advance = 0;  ///< how far this step moves the offset
};

/// A seeded permutation per epoch (Fisher-Yates), dealt out to the ranks. Under kSample it does not
/// depend on rank or size, and a step takes its next size * batch samples: rank r the r-th part.
/// What is left at an epoch's end is a smaller step, split as evenly as can be. A place in an epoch
/// is an offset in samples, so that a run can go on at another size. Under kFile it is one of this
/// rank's samples: a rank whose samples are all taken waits with empty batches for the one that has
/// most, so that an epoch holds each sample of each rank once.
class Sampler {
 public:
  struct Options {
    std::size_t samples = 0;  ///< in the data set; > 0
    std::size_t batch = 1;    ///< per rank; > 0
    int rank = 0;
    int size = 1;
    Sharding sharding = Sharding::kSample;
    std::uint64_t seed = 1;
    std::vector<std::size_t>
        rank_samples{};  ///< of each rank under kFile; `samples` has no part in it then
  };

  explicit Sampler(const Options& options);

  /// The offset at which an epoch ends.
  [[nodiscard]] std::size_t epoch_length() const;

  /// How far a full step moves the offset.
  [[nodiscard]] std::size_t samples_per_step() const;

  /// Steps from offset of epoch to the end of the last of `epochs` epochs, all counted as this
  /// rank's.
  [[nodiscard]] std::uint64_t steps_left(std::size_t epoch, std::size_t offset,
                                         std::size_t epochs) const;

  /// What comes at offset (below epoch_length()) of epoch, both from 0. The span is valid until the
  /// next call.
  [[nodiscard]] Batch batch(std::size_t epoch, std::size_t offset);

 private:
  void shuffle(std::size_t epoch);

  Options options_;
  std::vector<std::uint32_t> order_;
  std::size_t shuffled_epoch_ = SIZE_MAX;
};

/// Epochs that each rank runs: its share rounded up under kEpoch, else all of them.
[[nodiscard]] std::size_t epochs_per_rank(Sharding sharding, std::size_t epochs, int size);

/// A place in training: whole epochs, and how far into the next.
struct EpochPlace {
  std::uint64_t epoch = 0;
  std::uint64_t offset = 0;

  friend bool operator==(const EpochPlace&, const EpochPlace&) = default;
};

/// Where each of `now` ranks stands once `before` ranks, each in epochs of its own of `length`
/// samples, were at place: as many epochs of all ranks together, the rest of a division left to be
/// done again. All but place are > 0.
[[nodiscard]] EpochPlace shared_anew(EpochPlace place, std::size_t length, std::uint64_t before,
                                     std::uint64_t now);

/// Rank r's part of n items dealt out evenly in order: the first n mod size ranks get one more.
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
  [[nodiscard]] std::size_t size() const { return end - begin; }
};
[[nodiscard]] Range even_part(std::size_t n, int rank, int size);

}  // namespace dlrun::trainer
