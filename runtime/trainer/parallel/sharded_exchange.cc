// ZeRO stage 1 (Rajbhandari et al. 2020, "ZeRO", section 5.1): the parameters are divided evenly
// among the ranks (EvenParts), and each rank keeps the optimizer's state only for its part.
//
// A step is a short all-reduce of step_sums (such as the sum of the losses), one reduce-scatter of
// the gradients, a short all-reduce for their norm if the norm is limited, the optimizer's step on
// this rank's part, and one all-gather of the parameters. The reduce-scatter and the all-gather
// send as many bytes as an all-reduce of the gradients, but they cannot overlap with backward.

#include "runtime/trainer/parallel/exchange_steps.h"
#include "runtime/trainer/parallel/gradient_exchange.h"

namespace dlrun::trainer {
namespace {

using Clock = std::chrono::steady_clock;

class ShardedExchange final : public GradientExchange {
 public:
  explicit ShardedExchange(const ExchangeContext& context)
      : context_(context), sum_(context.kernels, context.state.parts().part_size()) {}

  [[nodiscard]] Result<> update(const StepInfo& info) override {
    const EvenParts& parts = context_.state.parts();
    Communicator& communicator = context_.communicator;
    StepInfo scaled = info;
    const Clock::time_point start = Clock::now();
    DLRUN_TRY(communicator.all_reduce(context_.step_sums, ReduceOp::kSum));
    DLRUN_TRY(communicator.reduce_scatter(
        ConstBuffer(context_.gradients.data(), parts.room(), DataType::kFloat32),
        Buffer(sum_.span()), ReduceOp::kSum));
    if (context_.clip_norm > 0) {
      DLRUN_TRY_ASSIGN(scaled.gradient_scale,
                       parts.clipping_scale_of(sum_.data(), context_.clip_norm));
    }
    const Clock::time_point summed = Clock::now();
    float* const mine = context_.parameters.data() + parts.part_offset();
    context_.optimizer.step(context_.kernels,
                            {mine, sum_.data(), context_.state.pointers(), parts.own_size(), {}},
                            scaled);
    const Clock::time_point stepped = Clock::now();
    DLRUN_TRY(communicator.all_gather(
        ConstBuffer(mine, parts.part_size(), DataType::kFloat32),
        Buffer(context_.parameters.data(), parts.room(), DataType::kFloat32)));
    timing_.set(start, summed, stepped, Clock::now(), context_.parameters.size_bytes());
    return {};
  }

  [[nodiscard]] Clock::duration waiting_time() const override { return timing_.waiting_time(); }
  [[nodiscard]] std::span<const StepInterval> intervals() const override {
    return timing_.intervals();
  }

 private:
  ExchangeContext context_;
  Array<float> sum_;  // this rank's part of the gradients, summed over all ranks
  PartialUpdateTiming timing_;
};

}  // namespace

std::unique_ptr<GradientExchange> make_sharded_exchange(const ExchangeContext& context) {
  return std::make_unique<ShardedExchange>(context);
}

}  // namespace dlrun::trainer
