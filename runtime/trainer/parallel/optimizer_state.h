#pragma once
// The optimizer's state arrays on a rank: the whole arrays, or this rank's part of them.

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "common/result.h"
#include "runtime/comm/communicator.h"
#include "runtime/trainer/nn/kernels.h"
#include "runtime/trainer/optim/optimizer.h"

namespace dlrun::trainer {

/// Divides flat arrays of element_count() elements into one part for each rank. Every part has room
/// for part_size() elements. If the division leaves a remainder, the last parts contain fewer
/// elements, or none, and their room extends beyond the last element.
class EvenParts {
 public:
  /// The references must outlive this object.
  EvenParts(Communicator& communicator, Kernels<float>& kernels, std::size_t element_count);

  /// Returns the number of elements for which each part has room.
  [[nodiscard]] static std::size_t part_size(std::size_t element_count, int rank_count) {
    const auto ranks = static_cast<std::size_t>(rank_count);
    return (element_count + ranks - 1) / ranks;
  }
  /// Returns the number of elements for which all parts together have room.
  [[nodiscard]] static std::size_t room(std::size_t element_count, int rank_count) {
    return part_size(element_count, rank_count) * static_cast<std::size_t>(rank_count);
  }

  [[nodiscard]] std::size_t element_count() const { return element_count_; }
  [[nodiscard]] std::size_t part_size() const { return part_size_; }
  [[nodiscard]] std::size_t room() const { return room(element_count_, communicator_.size()); }
  /// Returns the offset of this rank's part. If the part is empty, its offset is element_count()
  /// or more.
  [[nodiscard]] std::size_t part_offset() const {
    return part_size_ * static_cast<std::size_t>(communicator_.rank());
  }
  /// Returns the number of elements that this rank's part contains: part_size() or fewer.
  [[nodiscard]] std::size_t own_size() const { return own_size_; }

  /// Returns the whole array, in host memory, on every rank. mine: this rank's part, an array of
  /// part_size() elements in the memory of `kernels`. All ranks must call this function. Fails as
  /// Communicator::all_gather() does.
  [[nodiscard]] Result<std::vector<float>> gather_whole(std::span<const float> mine) const;
  /// Copies this rank's part of `whole` to `mine`. whole: element_count() elements in host memory.
  /// mine: room for part_size() elements in the memory of `kernels`.
  void copy_part(const std::vector<float>& whole, std::span<float> mine) const;

  /// Returns the factor that limits the global norm of the gradients to `max_norm`; see
  /// clipping_scale(). mine: this rank's part of the gradients, own_size() elements in the
  /// memory of `kernels`. All ranks must call this function. Fails as Communicator::all_reduce()
  /// does.
  [[nodiscard]] Result<double> clipping_scale_of(const float* mine, double max_norm) const;

 private:
  Communicator& communicator_;
  Kernels<float>& kernels_;
  std::size_t element_count_;
  std::size_t part_size_;
  std::size_t own_begin_;  // part_offset(), but at most element_count_
  std::size_t own_size_;
};

class OptimizerState {
 public:
  /// Allocates the optimizer's state arrays and sets them to zero. If is_divided is true, each rank
  /// keeps only its part of the arrays, and the optimizer must not need whole tensors. The
  /// references must outlive this object.
  OptimizerState(Communicator& communicator, Kernels<float>& kernels,
                 const Optimizer<float>& optimizer, std::size_t parameter_count,
                 std::size_t tensor_count, bool is_divided);

  /// Returns the arrays in the optimizer's order. An array has one element for each parameter
  /// (parts().part_size() elements if the state is divided) or one for each tensor.
  [[nodiscard]] std::span<float* const> pointers() const { return pointers_; }
  [[nodiscard]] std::vector<std::span<float>> spans();
  [[nodiscard]] const EvenParts& parts() const { return parts_; }

  /// Returns the whole arrays, in host memory, on rank 0, and an empty list on the other ranks. All
  /// ranks must call this function if the state is divided. Fails as gather_whole() does.
  [[nodiscard]] Result<std::vector<std::vector<float>>> gather();

  /// Copies rank 0's `saved` arrays to the arrays of all ranks; if the state is divided, each rank
  /// gets its part. The other ranks pass nullptr. If is_resumed is false, rank 0 also passes
  /// nullptr, and the arrays stay zero. All ranks must call this function. Fails as
  /// Communicator::broadcast() and Kernels::synchronise() do.
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
