#pragma once
// Local SGD: each rank steps with its own gradients, and the ranks average their parameters from
// time to time, instead of summing gradients in every step (Stich 2019, "Local SGD Converges Fast
// and Communicates Little", Algorithm 1). If local steps start after some epochs, the method is
// post-local SGD (Lin et al. 2020, "Don't Use Large Mini-Batches, Use Local SGD", section 3).
//
// The optimizer's arrays are averaged too (Yu et al. 2019, "On the Linear Speedup Analysis of
// Communication Efficient Momentum SGD", Algorithm 1, do so with the velocity), and the running
// statistics as well. After an average all ranks hold the same state, so one checkpoint is enough,
// and training can resume with any number of ranks. An average costs one all-reduce per array.

#include <cstddef>
#include <span>
#include <vector>

#include "common/result.h"
#include "runtime/comm/communicator.h"
#include "runtime/trainer/nn/kernels.h"
#include "runtime/trainer/nn/network.h"

namespace dlrun::trainer {

class LocalSteps {
 public:
  /// `states` are the optimizer's arrays, each as long as the parameters. All arguments must
  /// outlive this object.
  LocalSteps(Communicator& communicator, Kernels<float>& kernels, Network<float>& network,
             std::vector<std::span<float>> states);

  /// Records a step with `mine` samples on this rank and `all` samples on all ranks together.
  void took(std::size_t mine, std::size_t all);

  // Counts since the last average:
  [[nodiscard]] std::size_t steps() const { return steps_; }
  [[nodiscard]] std::size_t samples() const { return samples_; }          ///< of this rank
  [[nodiscard]] std::size_t all_samples() const { return all_samples_; }  ///< of all ranks

  /// Replaces the parameters, the optimizer's arrays and the running statistics by their
  /// weighted means over the ranks. A rank's weight is its share of the samples since the last
  /// average. After one step of plain or momentum descent the result equals a step with the
  /// gradient of all ranks. The network's extra words become sums. Overwrites the gradients.
  /// Fails as the all-reduce does.
  [[nodiscard]] Result<> average();

 private:
  Communicator& communicator_;
  Kernels<float>& kernels_;
  Network<float>& network_;
  std::vector<std::span<float>> states_;
  std::size_t steps_ = 0;
  std::size_t samples_ = 0;
  std::size_t all_samples_ = 0;
};

}  // namespace dlrun::trainer
