// Local SGD: each rank steps with its own gradients, and the ranks average their parameters from
// time to time, instead of summing gradients in every step (Stich 2019, "Local SGD Converges Fast
// and Communicates Little", Algorithm 1). If local steps start after some epochs, the method is
// post-local SGD (Lin et al. 2020, "Don't Use Large Mini-Batches, Use Local SGD", section 3).
//
// The ranks also average the running statistics and the optimizer's arrays, as Algorithm 1 of Yu et
// al. 2019 ("On the Linear Speedup Analysis of Communication Efficient Momentum SGD") averages the
// velocity. After an average all ranks hold the same state, so one checkpoint is enough, and
// training can resume with any number of ranks. An average costs one all-reduce for the parameters
// and the statistics, and one for each of the optimizer's arrays.

#include "runtime/trainer/parallel/array_collectives.h"
#include "runtime/trainer/parallel/exchange_steps.h"
#include "runtime/trainer/parallel/gradient_exchange.h"

namespace dlrun::trainer {
namespace {

using Clock = std::chrono::steady_clock;

/// Computes to[i] = scale * from[i] for each element of `from`.
void scaled_copy(Kernels<float>& kernels, std::span<float> to, float scale,
                 std::span<const float> from) {
  kernels.zero(to.data(), from.size());
  kernels.add_scaled(to.data(), scale, from.data(), from.size());
}

class LocalExchange final : public GradientExchange {
 public:
  LocalExchange(const ExchangeContext& context, Network<float>& network,
                const GradientReducer::Options& bucket_options, std::size_t steps_per_average,
                double epochs_before_local_steps)
      : context_(context),
        network_(network),
        steps_per_average_(steps_per_average),
        epochs_before_local_steps_(epochs_before_local_steps),
        all_reduce_exchange_(make_all_reduce_exchange(context, network, bucket_options)) {}

  [[nodiscard]] StepScope begin(const StepStart& start) override {
    is_local_ = start.epochs_done >= epochs_before_local_steps_;
    if (!is_local_) return all_reduce_exchange_->begin(start);
    StepScope scope;
    scope.divisor = start.samples;
    scope.steps_since_average = steps_++;
    samples_ += start.samples;
    all_samples_ += start.all_samples;
    is_average_due_ = steps_ >= steps_per_average_ || start.ends_epoch;
    scope.makes_ranks_equal = is_average_due_;
    scope.samples = is_average_due_ ? all_samples_ : samples_;
    intervals_.clear();
    waiting_time_ = {};
    return scope;
  }

  void layer_done(std::size_t layer) override {
    if (!is_local_) all_reduce_exchange_->layer_done(layer);
  }

  [[nodiscard]] Result<> update(const StepInfo& info) override {
    if (!is_local_) return all_reduce_exchange_->update(info);
    const Clock::time_point start = Clock::now();
    update_all_parameters(context_, info);
    intervals_.push_back({"optimizer", start, Clock::now()});
    return {};
  }

  [[nodiscard]] Result<> end() override {
    if (!is_local_ || !is_average_due_) return {};
    const Clock::time_point start = Clock::now();
    DLRUN_TRY(average());
    const Clock::time_point end = Clock::now();
    waiting_time_ = end - start;
    intervals_.push_back({"average", start, end});
    return {};
  }

  [[nodiscard]] Clock::duration waiting_time() const override {
    return is_local_ ? waiting_time_ : all_reduce_exchange_->waiting_time();
  }
  [[nodiscard]] std::span<const StepInterval> intervals() const override {
    return is_local_ ? std::span<const StepInterval>(intervals_)
                     : all_reduce_exchange_->intervals();
  }
  [[nodiscard]] std::size_t bucket_count() const override {
    return all_reduce_exchange_->bucket_count();
  }

 private:
  /// Replaces the parameters, the optimizer's arrays and the running statistics by their weighted
  /// means over the ranks. A rank's weight is its share of the samples since the last average.
  /// After one step of plain or momentum descent the result equals a step with the gradient of all
  /// ranks. The network's extra elements become sums. Overwrites the gradients.
  [[nodiscard]] Result<> average() {
    Kernels<float>& kernels = context_.kernels;
    const auto share =
        static_cast<float>(static_cast<double>(samples_) / static_cast<double>(all_samples_));
    // The gradients are no longer needed. One all-reduce of their array sums the parameters, the
    // extra elements and the statistics.
    scaled_copy(kernels, network_.gradients(), share, network_.parameters());
    scaled_copy(kernels, network_.observed_statistics(), share, network_.running_statistics());
    DLRUN_TRY(sum_array(context_.communicator, kernels, network_.gradients_and_step_sums()));
    scaled_copy(kernels, network_.parameters(), 1, network_.gradients());
    scaled_copy(kernels, network_.running_statistics(), 1, network_.observed_statistics());
    for (const std::span<float> state : context_.state.spans()) {
      const std::span<float> sum = network_.gradients().first(state.size());
      scaled_copy(kernels, sum, share, state);
      DLRUN_TRY(sum_array(context_.communicator, kernels, sum));
      scaled_copy(kernels, state, 1, sum);
    }
    steps_ = samples_ = all_samples_ = 0;
    return {};
  }

  ExchangeContext context_;
  Network<float>& network_;
  std::size_t steps_per_average_;
  double epochs_before_local_steps_;
  std::unique_ptr<GradientExchange> all_reduce_exchange_;  // for the steps before the local steps
  bool is_local_ = false;        // true if the current step is a local step
  bool is_average_due_ = false;  // true if the ranks average after the current step
  // Counts since the last average:
  std::size_t steps_ = 0;
  std::size_t samples_ = 0;      // of this rank
  std::size_t all_samples_ = 0;  // of all ranks
  Clock::duration waiting_time_{};
  std::vector<StepInterval> intervals_;
};

}  // namespace

std::unique_ptr<GradientExchange> make_local_exchange(
    const ExchangeContext& context, Network<float>& network,
    const GradientReducer::Options& bucket_options, std::size_t steps_per_average,
    double epochs_before_local_steps) {
  return std::make_unique<LocalExchange>(context, network, bucket_options, steps_per_average,
                                         epochs_before_local_steps);
}

}  // namespace dlrun::trainer
