#pragma once
// Combines the ranks' gradients in a step of training. There are four methods, each in its own
// file:
//   all_reduce_exchange.cc  Every rank gets the sum of all gradients and updates all parameters.
//   sharded_exchange.cc     Each rank updates a part of the parameters and sends it to the others
//                           (ZeRO-1).
//   shared_exchange.cc      Each rank updates a part of the parameters; the ranks of one node share
//                           the memory of the arrays.
//   local_exchange.cc       Each rank steps with its own gradients, and the ranks average their
//                           parameters from time to time.

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/result.h"
#include "runtime/comm/communicator.h"
#include "runtime/trainer/nn/kernels.h"
#include "runtime/trainer/nn/network.h"
#include "runtime/trainer/optim/optimizer.h"
#include "runtime/trainer/parallel/gradient_reducer.h"
#include "runtime/trainer/parallel/optimizer_state.h"
#include "runtime/trainer/parallel/shared_arrays.h"

namespace dlrun::trainer {

/// The objects and arrays on which an exchange works. They must outlive the exchange.
struct ExchangeContext {
  Communicator& communicator;
  Kernels<float>& kernels;
  const Optimizer<float>& optimizer;
  OptimizerState& state;
  std::span<float> parameters;  ///< in the memory of `kernels`, like gradients and step_sums
  std::span<float> gradients;   ///< as long as the parameters
  /// The elements that follow the gradients in the same array: the trainer's own numbers
  /// (Network::extra(), such as the sum of the losses) and the observed statistics. A step sums
  /// them over the ranks, but only if its StepScope::makes_ranks_equal is true.
  std::span<float> step_sums;
  std::span<const TensorRange> tensors;
  double clip_norm = 0;  ///< limit for the global norm of the summed gradients; 0: no limit
};

/// Describes a step that begins.
struct StepStart {
  double epochs_done = 0;
  bool ends_epoch = false;
  std::size_t samples = 0;      ///< of this rank
  std::size_t all_samples = 0;  ///< of all ranks
};

/// Describes what a step combines over the ranks. In a local step, each rank uses only its own
/// gradients.
struct StepScope {
  /// The loss is divided by this number of samples. If the ranks sum their gradients in this step,
  /// `divisor` is the number of samples of all ranks: the sum is then the mean over the global
  /// batch, however the samples are distributed. In a local step `divisor` is the number of this
  /// rank's samples.
  std::size_t divisor = 0;
  /// True if all ranks hold the same parameters after the step, and step_sums are sums over all
  /// ranks.
  bool makes_ranks_equal = true;
  /// Number of local steps since the last average, without this step.
  std::size_t steps_since_average = 0;
  /// Number of samples whose losses are in step_sums after the step.
  std::size_t samples = 0;
};

/// A time interval of a step, for the timeline.
struct StepInterval {
  const char* name;  ///< a literal
  std::chrono::steady_clock::time_point begin, end;
  std::optional<std::size_t> bucket = {};  ///< the bucket that is exchanged in the interval
  std::size_t bytes = 0;                   ///< of the bucket
};

/// One of the four methods. In each step the caller calls begin(), layer_done() for each layer
/// during backward, update() and end(), in this order, on all ranks.
class GradientExchange {
 public:
  virtual ~GradientExchange() = default;
  GradientExchange(const GradientExchange&) = delete;
  GradientExchange& operator=(const GradientExchange&) = delete;

  /// Begins a step and returns its scope.
  [[nodiscard]] virtual StepScope begin(const StepStart& start) {
    return {.divisor = start.all_samples, .samples = start.all_samples};
  }

  /// Announces that the gradients of a layer are final.
  virtual void layer_done(std::size_t /*layer*/) {}

  /// Combines the gradients, except in a local step, then limits their norm and runs the optimizer.
  /// The caller skips this function if the step's divisor is 0. Fails as the collectives do.
  [[nodiscard]] virtual Result<> update(const StepInfo& info) = 0;

  /// Ends the step. If StepScope::makes_ranks_equal, all ranks then hold the same parameters, and
  /// step_sums are sums over the ranks. Fails as the collectives do.
  [[nodiscard]] virtual Result<> end() { return {}; }

  /// Returns the time for which the most recent update() and end() waited for other ranks.
  [[nodiscard]] virtual std::chrono::steady_clock::duration waiting_time() const = 0;
  /// Returns the intervals of the most recent update() and end().
  [[nodiscard]] virtual std::span<const StepInterval> intervals() const = 0;
  /// Returns the number of buckets in intervals().
  [[nodiscard]] virtual std::size_t bucket_count() const { return 1; }

 protected:
  GradientExchange() = default;
};

/// Makes the exchange of all_reduce_exchange.cc. Each rank must have the whole state. `network`
/// must own the context's parameters and gradients.
[[nodiscard]] std::unique_ptr<GradientExchange> make_all_reduce_exchange(
    const ExchangeContext& context, Network<float>& network,
    const GradientReducer::Options& bucket_options);

/// Makes the exchange of sharded_exchange.cc. The state must be divided among the ranks. The arrays
/// of parameters and gradients must have room for EvenParts::room() elements. The optimizer must
/// not need whole tensors. The communicator must be able to read the memory of `kernels`.
[[nodiscard]] std::unique_ptr<GradientExchange> make_sharded_exchange(
    const ExchangeContext& context);

/// Makes the exchange of shared_exchange.cc. Has the requirements of make_sharded_exchange(), and
/// the context's parameters and gradients must be in `shared`, which must outlive the exchange.
[[nodiscard]] std::unique_ptr<GradientExchange> make_shared_exchange(const ExchangeContext& context,
                                                                     const SharedArrays& shared);

/// Makes the exchange of post-local SGD (local_exchange.cc). In the first
/// `epochs_before_local_steps` epochs (not necessarily a whole number), the ranks sum their
/// gradients in each step. Later each rank steps with its own gradients, and the ranks average
/// their states after every `steps_per_average` (> 0) local steps and at the end of an epoch. Each
/// rank must have the whole state.
[[nodiscard]] std::unique_ptr<GradientExchange> make_local_exchange(
    const ExchangeContext& context, Network<float>& network,
    const GradientReducer::Options& bucket_options, std::size_t steps_per_average,
    double epochs_before_local_steps);

}  // namespace dlrun::trainer
