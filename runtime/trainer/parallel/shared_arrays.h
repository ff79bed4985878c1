#pragma once
// A network's flat arrays in memory that the ranks of one node share: the parameters once for all
// ranks, each rank's gradients where the others read them. With them a step of ShardedStep copies
// nothing between ranks.

#include <cstddef>
#include <vector>

#include "common/result.h"
#include "runtime/comm/communicator.h"
#include "runtime/trainer/nn/kernels.h"
#include "runtime/trainer/nn/network.h"

namespace dlrun::trainer {

class SharedArrays {
 public:
  /// communicator and kernels outlive it.
  SharedArrays(Communicator& communicator, Kernels<float>& kernels)
      : communicator_(communicator), kernels_(kernels) {}

  /// For Network, once, on all ranks with the same numbers. The kernels' own memory where the
  /// communicator shares none (is_shared() is false then), and after a failure.
  [[nodiscard]] FlatMemory allocate(std::size_t parameters, std::size_t gradients);

  [[nodiscard]] bool is_shared() const { return !gradients_.empty(); }
  /// Each rank's gradients, in the order of the ranks; empty where they are not shared.
  [[nodiscard]] const std::vector<const float*>& gradients() const { return gradients_; }
  /// What allocate() failed with: kPeer, kTimeout.
  [[nodiscard]] const Result<>& status() const { return status_; }

 private:
  Communicator& communicator_;
  Kernels<float>& kernels_;
  std::vector<const float*> gradients_;
  Result<> status_;
};

}  // namespace dlrun::trainer
