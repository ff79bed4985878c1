// Every rank gets the sum of all gradients and updates all parameters. The all-reduce of a bucket
// starts when the gradients of its layers are final, while backward continues. update() waits for
// all buckets.

#include "runtime/trainer/parallel/exchange_steps.h"
#include "runtime/trainer/parallel/gradient_exchange.h"

namespace dlrun::trainer {
namespace {

using Clock = std::chrono::steady_clock;

class AllReduceExchange final : public GradientExchange {
 public:
  AllReduceExchange(const ExchangeContext& context, Network<float>& network,
                    const GradientReducer::Options& bucket_options)
      : context_(context),
        reducer_(context.communicator, context.kernels, network, bucket_options) {}

  void layer_done(std::size_t layer) override { reducer_.layer_done(layer); }

  [[nodiscard]] Result<> update(const StepInfo& info) override {
    const Clock::time_point start = Clock::now();
    DLRUN_TRY(reducer_.wait());
    const Clock::time_point summed = Clock::now();
    update_all_parameters(context_, info);
    waiting_time_ = summed - start;
    intervals_.clear();
    intervals_.push_back({"wait for gradients", start, summed});
    for (std::size_t i = 0; i < reducer_.bucket_count(); ++i) {
      const GradientReducer::Timing& timing = reducer_.timing(i);
      intervals_.push_back({"all-reduce", timing.begin, timing.end, i, timing.bytes});
    }
    intervals_.push_back({"optimizer", summed, Clock::now()});
    return {};
  }

  [[nodiscard]] Clock::duration waiting_time() const override { return waiting_time_; }
  [[nodiscard]] std::span<const StepInterval> intervals() const override { return intervals_; }
  [[nodiscard]] std::size_t bucket_count() const override { return reducer_.bucket_count(); }

 private:
  ExchangeContext context_;
  GradientReducer reducer_;
  Clock::duration waiting_time_{};
  std::vector<StepInterval> intervals_;
};

}  // namespace

std::unique_ptr<GradientExchange> make_all_reduce_exchange(
    const ExchangeContext& context, Network<float>& network,
    const GradientReducer::Options& bucket_options) {
  return std::make_unique<AllReduceExchange>(context, network, bucket_options);
}

}  // namespace dlrun::trainer
