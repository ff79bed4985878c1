#pragma once
// A network's flat arrays in memory shared by the ranks of one node: the parameters once for all
// ranks, and each rank's gradients readable by the others. The shared exchange
// (gradient_exchange.h) then copies nothing between ranks.

#include <cstddef>
#include <vector>

#include "common/result.h"
#include "runtime/comm/communicator.h"
#include "runtime/trainer/nn/kernels.h"
#include "runtime/trainer/nn/network.h"

namespace dlrun::trainer {

class SharedArrays {
 public:
  /// Both arguments must outlive this object.
  SharedArrays(Communicator& communicator, Kernels<float>& kernels)
      : communicator_(communicator), kernels_(kernels) {}

  /// Allocates the arrays for a Network. Call once, on all ranks with the same sizes. The arrays
  /// are not shared in these cases: there is one rank, the kernels use GPU memory, the communicator
  /// provides no shared memory, or its allocation fails (see status()). In these cases `kernels`
  /// allocates memory of this rank alone, and is_shared() is false.
  [[nodiscard]] FlatMemory allocate(std::size_t parameter_bytes, std::size_t gradient_bytes);

  [[nodiscard]] bool is_shared() const { return !gradients_of_ranks_.empty(); }
  /// Returns a pointer to each rank's gradients, in the order of the ranks. The list is empty if
  /// is_shared() is false.
  [[nodiscard]] const std::vector<const float*>& gradients_of_ranks() const {
    return gradients_of_ranks_;
  }
  /// Returns success, or the error of allocate(): kPeer or kTimeout.
  [[nodiscard]] const Result<>& status() const { return status_; }

 private:
  Communicator& communicator_;
  Kernels<float>& kernels_;
  std::vector<const float*> gradients_of_ranks_;
  Result<> status_;
};

}  // namespace dlrun::trainer
