// The ranks of one node share their arrays and send no gradients. Each rank sums its part of all
// ranks' gradients directly from their memory, updates its part of the common parameters, and then
// waits for the others. A rank updates the parameters piece by piece, in its own cache, and writes
// each new piece with stores that bypass the cache (loops::copy_past_caches). The ranks exchange
// only ExchangeContext::step_sums (such as the sum of the losses) and, if the norm of the gradients
// is limited, one number for this norm.

#include <algorithm>

#include "runtime/comm/reduce.h"
#include "runtime/trainer/nn/cpu_loops.h"
#include "runtime/trainer/parallel/exchange_steps.h"
#include "runtime/trainer/parallel/gradient_exchange.h"

namespace dlrun::trainer {
namespace {

using Clock = std::chrono::steady_clock;

/// Number of elements of a piece. A piece and its optimizer states fit into the second-level cache,
/// and a piece is large enough to be worth dividing between two threads.
constexpr std::size_t kPieceElements = 16'384;

class SharedExchange final : public GradientExchange {
 public:
  SharedExchange(const ExchangeContext& context, const SharedArrays& shared)
      : context_(context),
        shared_(shared),
        sum_(context.kernels, context.state.parts().part_size()),
        piece_(context.kernels, std::min(kPieceElements, context.state.parts().part_size())) {}

  [[nodiscard]] Result<> update(const StepInfo& info) override {
    const Clock::time_point start = Clock::now();
    // This is the first collective after backward. When it returns, the gradients of all ranks are
    // final.
    DLRUN_TRY(context_.communicator.all_reduce(context_.step_sums, ReduceOp::kSum));
    sum();
    StepInfo scaled = info;
    if (context_.clip_norm > 0) {
      DLRUN_TRY_ASSIGN(scaled.gradient_scale,
                       context_.state.parts().clipping_scale_of(sum_.data(), context_.clip_norm));
    }
    const Clock::time_point summed = Clock::now();
    step(scaled);
    const Clock::time_point stepped = Clock::now();
    DLRUN_TRY(context_.communicator.barrier());
    timing_.set(start, summed, stepped, Clock::now(), context_.parameters.size_bytes());
    return {};
  }

  [[nodiscard]] Clock::duration waiting_time() const override { return timing_.waiting_time(); }
  [[nodiscard]] std::span<const StepInterval> intervals() const override {
    return timing_.intervals();
  }

 private:
  /// Sums this rank's part of all ranks' gradients: in the order of the ranks, in blocks that keep
  /// the partial sum in the first-level cache.
  void sum() {
    constexpr std::size_t kBlockElements = 2048;
    const EvenParts& parts = context_.state.parts();
    const std::vector<const float*>& gradients_of_ranks = shared_.gradients_of_ranks();
    for (std::size_t at = 0; at < parts.own_size(); at += kBlockElements) {
      const std::size_t n = std::min(kBlockElements, parts.own_size() - at);
      const std::size_t from = parts.part_offset() + at;
      float* const to = sum_.data() + at;
      combine(ReduceOp::kSum, to, gradients_of_ranks[0] + from, gradients_of_ranks[1] + from, n);
      for (std::size_t rank = 2; rank < gradients_of_ranks.size(); ++rank)
        combine(ReduceOp::kSum, to, to, gradients_of_ranks[rank] + from, n);
    }
  }

  /// Runs the optimizer on this rank's part, piece by piece: copies a piece, updates the copy, and
  /// writes it back past the caches.
  void step(const StepInfo& info) {
    const EvenParts& parts = context_.state.parts();
    const std::span<float* const> states = context_.state.pointers();
    std::vector<float*> states_of_piece(states.begin(), states.end());
    float* const mine = context_.parameters.data() + parts.part_offset();
    for (std::size_t at = 0; at < parts.own_size(); at += kPieceElements) {
      const std::size_t n = std::min(kPieceElements, parts.own_size() - at);
      std::copy_n(mine + at, n, piece_.data());
      context_.optimizer.step(context_.kernels,
                              {piece_.data(), sum_.data() + at, states_of_piece, n, {}}, info);
      loops::copy_past_caches(piece_.data(), mine + at, n);
      for (float*& state : states_of_piece) state += n;
    }
  }

  ExchangeContext context_;
  const SharedArrays& shared_;
  Array<float> sum_;    // this rank's part of the gradients, summed over all ranks
  Array<float> piece_;  // copy of a piece of the parameters
  PartialUpdateTiming timing_;
};

}  // namespace

std::unique_ptr<GradientExchange> make_shared_exchange(const ExchangeContext& context,
                                                       const SharedArrays& shared) {
  return std::make_unique<SharedExchange>(context, shared);
}

}  // namespace dlrun::trainer
