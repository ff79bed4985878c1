#pragma once
// The optimizer's state arrays on a rank: whole, or this rank's part of them.

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "common/result.h"
#include "runtime/comm/communicator.h"
#include "runtime/trainer/nn/kernels.h"
#include "runtime/trainer/optim/optimizer.h"

namespace dlrun::trainer {

/// Divides flat arrays of `elements` elements into one part of equal size for each rank. The last
/// parts may extend beyond the elements, or be empty.
class EvenParts {
 public:
  /// The references must outlive this object.
  EvenParts(Communicator& communicator, Kernels<float>& kernels, std::size_t elements);

  /// Return the number of elements of one part, and of all parts together (room).
  [[nodiscard]] static std::size_t part(std::size_t elements, int size) {
    const auto ranks = static_cast<std::size_t>(size);
    return (elements + ranks - 1) / ranks;
  }
  [[nodiscard]] static std::size_t room(std::size_t elements, int size) {
    return part(elements, size) * static_cast<std::size_t>(size);
  }

  [[nodiscard]] std::size_t elements() const { return elements_; }
  [[nodiscard]] std::size_t part() const { return part_; }
  [[nodiscard]] std::size_t room() const { return room(elements_, communicator_.size()); }
  /// Returns the offset of this rank's part, which may be beyond the elements.
  [[nodiscard]] std::size_t offset() const {
    return part_ * static_cast<std::size_t>(communicator_.rank());
  }
  /// Returns the number of elements in this rank's part.
  [[nodiscard]] std::size_t count() const { return count_; }

  /// Returns the whole array, in host memory, on every rank. mine: this rank's part of it,
  /// [part()], in kernels' memory. A collective.
  [[nodiscard]] Result<std::vector<float>> whole(std::span<const float> mine) const;
  /// Copies this rank's part of `whole` ([elements()], host memory) to `mine`
  /// ([part()], kernels' memory).
  void copy_part(const std::vector<float>& whole, std::span<float> mine) const;

  /// Returns the factor that limits the global norm of the gradients to `most`; see
  /// clipping_scale(). mine: this rank's part of the gradients, [count()]. A collective.
  [[nodiscard]] Result<double> clipping_scale_of(const float* mine, double most) const;

 private:
  Communicator& communicator_;
  Kernels<float>& kernels_;
  std::size_t elements_;
  std::size_t part_;
  std::size_t begin_;  // first element of this rank's part
  std::size_t count_;
};

class OptimizerState {
 public:
  /// Allocates the rule's arrays, which are zero. With is_divided each rank keeps its part of them;
  /// the rule must then not need whole tensors. The references must outlive this object.
  OptimizerState(Communicator& communicator, Kernels<float>& kernels, const Optimizer<float>& rule,
                 std::size_t parameters, std::size_t tensors, bool is_divided);

  /// Returns the arrays in the rule's order: each whole, or [parts().part()].
  [[nodiscard]] std::span<float* const> pointers() const { return pointers_; }
  [[nodiscard]] std::vector<std::span<float>> spans();
  [[nodiscard]] const EvenParts& parts() const { return parts_; }

  /// Returns the whole arrays, in host memory, on rank 0, and an empty list on the other ranks. A
  /// collective if the state is divided.
  [[nodiscard]] Result<std::vector<std::vector<float>>> gather();

  /// Copies rank 0's `saved` arrays to the arrays of all ranks; if the state is divided, each rank
  /// gets its part. The other ranks pass nullptr. If is_resumed is false, rank 0 also passes
  /// nullptr, and the arrays stay zero. A collective.
  [[nodiscard]] Result<> restore(const std::vector<std::vector<float>>* saved, bool is_resumed);

 private:
  Communicator& communicator_;
  Kernels<float>& kernels_;
  EvenParts parts_;
  bool is_divided_;
  std::vector<Array<float>> arrays_;
  std::vector<float*> pointers_;
};

}  // namespace dlrun::trainer
