#pragma once
// Sums gradients over all ranks, between backward and the optimizer.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/result.h"
#include "runtime/comm/communicator.h"
#include "runtime/trainer/nn/kernels.h"
#include "runtime/trainer/nn/network.h"

namespace dlrun::trainer {

/// Divides the flat gradient array into buckets of whole layers, from the last layer to the first.
/// Each bucket is summed over all ranks as soon as backward has filled it, while backward continues
/// with the layers before it (Li et al. 2020, "PyTorch Distributed", section 3.2). Without
/// compression the gradients are summed in place. If they are on a GPU and the backend can read
/// only host memory, they are summed in a copy in host memory.
///
/// With compression, a bucket is rounded to 16 bits, summed in 16 bits in the backend's order, and
/// widened again. Half the bytes are sent. The sum over N ranks has an error of up to N*2^-8 (bf16)
/// or N*2^-11 (fp16) times the sum of the absolute values. In fp16, a sum below 2^-14 has an error
/// of up to N*2^-25.
///
/// Behind the gradients, the network's array has further numbers that are summed over the ranks
/// (Network::gradients_and_step_sums()). These elements are sent in the first bucket. With
/// compression the first bucket has only these elements, and is not compressed.
///
/// The caller must divide each rank's loss by the number of samples of all ranks, so that the sum
/// is the gradient of the mean loss.
class GradientReducer {
 public:
  enum class Compression { kNone, kBfloat16, kFloat16 };

  struct Options {
    std::size_t first_bucket_bytes = 16U << 10U;  ///< small, so that communication starts early
    /// A bucket ends with the layer that makes it at least this large.
    std::size_t bucket_bytes = 4U << 20U;
    Compression compression = Compression::kNone;  ///< works in host memory only, so not with nccl
  };

  /// communicator, kernels and network must outlive the reducer.
  GradientReducer(Communicator& communicator, Kernels<float>& kernels, Network<float>& network,
                  const Options& options);

  /// Announces that the gradients of a layer are final. Starts the all-reduce of each bucket whose
  /// layers are now all final. wait() returns the error of a start that fails.
  void layer_done(std::size_t layer);

  /// Waits until all buckets hold the sum over all ranks. Call once after each backward. Fails as
  /// the collectives do.
  [[nodiscard]] Result<> wait();

  [[nodiscard]] std::size_t bucket_count() const { return buckets_.size(); }

  /// The number of bytes that a bucket's all-reduce sums, the time at which its most recent
  /// all-reduce was started, and the time at which wait() saw the end of it.
  struct Timing {
    std::size_t bytes = 0;
    std::chrono::steady_clock::time_point begin, end;
  };
  [[nodiscard]] const Timing& timing(std::size_t i) const { return buckets_[i].timing; }

 private:
  struct Bucket {
    std::size_t begin = 0;  // range of elements in the flat array
    std::size_t end = 0;
    std::size_t lowest_layer = 0;  // index of the bucket's layer that backward finishes last
    std::vector<float> staging;    // copy in host memory; empty if none is needed
    std::vector<std::uint16_t> compressed;  // the compressed gradients, then their sum
    Request request;
    Timing timing;
  };

  void add_bucket(std::size_t begin, std::size_t end, std::size_t lowest_layer, bool is_compressed);
  [[nodiscard]] Result<> start(Bucket& bucket);

  Communicator& communicator_;
  Kernels<float>& kernels_;
  float* gradients_;
  Compression compression_;
  std::vector<Bucket> buckets_;  // in the order in which they are started: last layer first
  std::size_t next_bucket_ = 0;  // index of the bucket that is being filled
  Result<> status_;
};

}  // namespace dlrun::trainer
