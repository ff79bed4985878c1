#pragma once
// Pieces of a step that several exchanges share.

#include <array>
#include <chrono>
#include <cstddef>
#include <span>

#include "runtime/trainer/parallel/gradient_exchange.h"

namespace dlrun::trainer {

/// Limits the norm of the context's gradients and runs the optimizer on all parameters.
void update_whole(const ExchangeContext& context, StepInfo info);

/// The times of a step in which each rank updates a part of the parameters: when this rank's part
/// of the sum was ready, when the optimizer had run, and when the step ended.
class PartTiming {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `bytes` is the size of the arrays that the ranks exchange.
  void set(Time start, Time summed, Time stepped, Time end, std::size_t bytes) {
    waited_ = (summed - start) + (end - stepped);
    intervals_ = {{{"sum of gradients", start, summed},
                   {"optimizer", summed, stepped},
                   {"new parameters", stepped, end},
                   {"reduce-scatter", start, summed, 0, bytes},
                   {"all-gather", stepped, end, 0, bytes}}};
  }
  [[nodiscard]] std::chrono::steady_clock::duration waited() const { return waited_; }
  [[nodiscard]] std::span<const StepInterval> intervals() const { return intervals_; }

 private:
  std::chrono::steady_clock::duration waited_{};
  std::array<StepInterval, 5> intervals_{};
};

}  // namespace dlrun::trainer
