#pragma once
// The way of a gradient from the layer that computed it to the optimizer, on all ranks alike.

#include <cstddef>
#include <vector>

#include "common/result.h"
#include "runtime/comm/communicator.h"
#include "runtime/trainer/nn/kernels.h"
#include "runtime/trainer/nn/network.h"

namespace dlrun::trainer {

/// Cuts the flat gradient array into buckets of whole layers, from the last layer back, and sums each bucket over all
/// ranks as soon as backward has filled it, while backward goes on with the layers before (Li et al. 2020, "PyTorch
/// Distributed", section 3.2). The sum happens in place: no gradient is copied, except where a GPU's gradients go
/// through a backend that only knows host memory.
///
/// Ranks scale their loss by 1 / (samples of all ranks), so the sum is the mean's gradient.
class GradientReducer {
 public:
  struct Options {
    std::size_t first_bucket_bytes = 16U << 10U;  ///< small, so that the network starts working early
    std::size_t bucket_bytes = 4U << 20U;         ///< a bucket is closed by the layer with which it reaches this
  };

  /// communicator, kernels and network outlive the reducer. The words behind the network's gradients travel in the
  /// first bucket.
  GradientReducer(Communicator& communicator, Kernels<float>& kernels, Network<float>& network, const Options& options);

  /// The gradients of layer are final. Starts the all-reduce of the bucket that it completes. An error waits for
  /// wait().
  void layer_done(std::size_t layer);

  /// Returns when all buckets hold the sum over all ranks; call once after each backward.
  [[nodiscard]] Result<> wait();

  [[nodiscard]] std::size_t buckets() const { return buckets_.size(); }

 private:
  struct Bucket {
    std::size_t begin = 0;  // elements of the flat array
    std::size_t end = 0;
    std::size_t last_layer = 0;  // the one that backward reaches last: the bucket is full when it is done
    std::vector<float> staging;  // empty where the communicator reads the gradients themselves
    Request request;
  };

  [[nodiscard]] Result<> start(Bucket& bucket);

  Communicator& communicator_;
  Kernels<float>& kernels_;
  float* gradients_;
  std::vector<Bucket> buckets_;  // in the order in which they are started: the last layer's first
  std::size_t next_ = 0;         // the bucket that is being filled
  Result<> status_;
};

}  // namespace dlrun::trainer
