#pragma once
// The way of a gradient from the layer that computed it to the optimizer, on all ranks alike.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/result.h"
#include "runtime/comm/communicator.h"
#include "runtime/trainer/nn/kernels.h"
#include "runtime/trainer/nn/network.h"

namespace dlrun::trainer {

/// Cuts the flat gradient array into buckets of whole layers, from the last layer back, and sums
/// each bucket over all ranks as soon as backward has filled it, while backward goes on with the
/// layers before (Li et al. 2020, "PyTorch Distributed", section 3.2). The sum happens in place: no
/// gradient is copied, except where a GPU's gradients go through a backend that only knows host
/// memory.
///
/// Compressed, a bucket is rounded to 16 bits, added in 16 bits in the order of the backend, and
/// widened again: half the bytes travel, and the sum of N ranks has a relative error of up to N
/// 2^-9 (bf16) or N 2^-12 (fp16, and below 2^-14 an absolute one of N 2^-25). The words stay as
/// they are, in a bucket of their own.
///
/// Ranks scale their loss by 1 / (samples of all ranks), so the sum is the mean's gradient.
class GradientReducer {
 public:
  enum class Compression { kNone, kBfloat16, kFloat16 };

  struct Options {
    std::size_t first_bucket_bytes = 16U
                                     << 10U;  ///< small, so that the network starts working early
    std::size_t bucket_bytes =
        4U << 20U;  ///< a bucket is closed by the layer with which it reaches this
    Compression compression = Compression::kNone;  ///< not of buckets in a GPU's memory
  };

  /// communicator, kernels and network outlive the reducer. The words behind the network's
  /// gradients travel in the first bucket.
  GradientReducer(Communicator& communicator, Kernels<float>& kernels, Network<float>& network,
                  const Options& options);

  /// The gradients of layer are final. Starts the all-reduce of the bucket that it completes. An
  /// error waits for wait().
  void layer_done(std::size_t layer);

  /// Returns when all buckets hold the sum over all ranks; call once after each backward.
  [[nodiscard]] Result<> wait();

  [[nodiscard]] std::size_t buckets() const { return buckets_.size(); }

  /// When bucket i's last all-reduce was started, and when wait() found it done.
  struct Timing {
    std::size_t bytes = 0;
    std::chrono::steady_clock::time_point begin, end;
  };
  [[nodiscard]] const Timing& timing(std::size_t i) const { return buckets_[i].timing; }

 private:
  struct Bucket {
    std::size_t begin = 0;  // elements of the flat array
    std::size_t end = 0;
    std::size_t last_layer =
        0;  // the one that backward reaches last: the bucket is full when it is done
    std::vector<float> staging;  // empty where the communicator reads the gradients themselves
    std::vector<std::uint16_t> halves;  // what travels where it is compressed
    Request request;
    Timing timing;
  };

  void add_bucket(std::size_t begin, std::size_t end, std::size_t last_layer, bool is_compressed);
  [[nodiscard]] Result<> start(Bucket& bucket);

  Communicator& communicator_;
  Kernels<float>& kernels_;
  float* gradients_;
  Compression compression_;
  std::vector<Bucket> buckets_;  // in the order in which they are started: the last layer's first
  std::size_t next_ = 0;         // the bucket that is being filled
  Result<> status_;
};

}  // namespace dlrun::trainer
