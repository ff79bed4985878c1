#pragma once
// Local SGD: each rank steps by its own gradients, and now and then the ranks average what they
// have, in place of the gradients at each step (Stich 2019, "Local SGD Converges Fast and
// Communicates Little", Algorithm 1). From some epoch on only, it is post-local SGD (Lin et al.
// 2020, "Don't Use Large Mini-Batches, Use Local SGD", section 3).
//
// The optimizer's arrays are averaged with the parameters (as Yu et al. 2019, "On the Linear
// Speedup Analysis of Communication Efficient Momentum SGD", Algorithm 1, do with the velocity),
// and the running statistics: after an average all ranks hold the same, so that there is one
// checkpoint of it, which goes on at any number of ranks. An average costs one all-reduce of each
// array.

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
  /// states: the optimizer's arrays, each of the length of the parameters. All outlive it.
  LocalSteps(Communicator& communicator, Kernels<float>& kernels, Network<float>& network,
             std::vector<std::span<float>> states);

  /// A step was taken by the gradient of `mine` samples on this rank, of `all` on all ranks
  /// together.
  void took(std::size_t mine, std::size_t all);

  // Since the last average:
  [[nodiscard]] std::size_t steps() const { return steps_; }
  [[nodiscard]] std::size_t samples() const { return samples_; }          ///< of this rank
  [[nodiscard]] std::size_t all_samples() const { return all_samples_; }  ///< of all ranks

  /// Parameters, the optimizer's arrays and running statistics become their means over the ranks,
  /// each rank's weight being its part of the samples since the last average: after one step of
  /// plain or momentum descent that is the step by all ranks' gradient. The network's extra words
  /// become their sums. Overwrites the gradients. Fails as the all-reduce does.
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
