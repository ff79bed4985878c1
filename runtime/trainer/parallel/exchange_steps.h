#pragma once
// Parts of a step that several exchanges have in common.

#include <array>
#include <chrono>
#include <cstddef>
#include <span>

#include "runtime/trainer/parallel/gradient_exchange.h"

namespace dlrun::trainer {

/// Limits the norm of the context's gradients, if clip_norm is set, and runs the optimizer on all
/// parameters.
void update_all_parameters(const ExchangeContext& context, StepInfo info);

/// The timing of a step of the sharded or the shared exchange, whose ranks each update a part of
/// the parameters.
class PartialUpdateTiming {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// start: the beginning of update(). summed: the time at which this rank's part of the sum was
  /// ready. stepped: the time at which the optimizer had ended. end: the time at which this rank
  /// had all new parameters. bytes: the size of the arrays that the ranks exchange.
  void set(Time start, Time summed, Time stepped, Time end, std::size_t bytes) {
    waiting_time_ = (summed - start) + (end - stepped);
    intervals_ = {{{"sum of gradients", start, summed},
                   {"optimizer", summed, stepped},
                   {"new parameters", stepped, end},
                   {"reduce-scatter", start, summed, 0, bytes},
                   {"all-gather", stepped, end, 0, bytes}}};
  }
  [[nodiscard]] std::chrono::steady_clock::duration waiting_time() const { return waiting_time_; }
  [[nodiscard]] std::span<const StepInterval> intervals() const { return intervals_; }

 private:
  std::chrono::steady_clock::duration waiting_time_{};
  std::array<StepInterval, 5> intervals_{};
};

}  // namespace dlrun::trainer
