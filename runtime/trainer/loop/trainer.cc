// The training loop. run() is the whole training, step() one data-parallel step.
// parallel/gradient_exchange.h lists how ranks combine their gradients and update the parameters.

#include "runtime/trainer/loop/trainer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "runtime/trainer/loop/parts.h"
#include "runtime/trainer/parallel/agreement.h"
#include "runtime/trainer/parallel/array_collectives.h"

namespace dlrun::trainer {
Trainer::Trainer(const TrainOptions& options, const Split& data, const Session& session)
    : options_(options), data_(data), session_(session) {}
Trainer::~Trainer() = default;

Result<Outcome> Trainer::run() {
  DLRUN_TRY(build());
  DLRUN_TRY(start_or_resume());
  Parts& p = *parts_;
  if (options_.trace_steps > 0) {
    DLRUN_TRY_ASSIGN(auto trace, Trace::start(session_.communicator,
                                              {options_.trace_steps, options_.trace_prefix,
                                               session_.host, p.exchange->bucket_count()}));
    p.trace = std::make_unique<Trace>(std::move(trace));
  }
  const auto epochs =
      epochs_per_rank(options_.sharding, options_.epochs, session_.communicator.size());
  while (p.position.epoch < epochs) {
    while (p.position.offset < p.sampler.epoch_length()) {
      DLRUN_TRY(step());
      if (p.trace != nullptr && p.trace->end_step()) DLRUN_TRY(write_trace());
    }
    DLRUN_TRY(end_epoch());
  }
  if (p.trace != nullptr && p.trace->is_recording()) DLRUN_TRY(write_trace());
  if (p.last_test.samples == 0) {  // resumed after the last epoch
    DLRUN_TRY_ASSIGN(p.last_test, evaluate());
  }
  std::vector<float> values = parameters();
  const std::vector<float> running = to_host(session_.kernels, p.network.running_statistics());
  values.insert(values.end(), running.begin(), running.end());
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(values.data());
  DLRUN_TRY_ASSIGN(auto hash, common_hash(session_.communicator, "parameters",
                                          {bytes, values.size() * sizeof(float)}));

  Outcome outcome{p.last_test.accuracy(), p.last_test.mean_loss(), hash.substr(0, 16),
                  p.position.step, p.last_test.label_scores()};
  session_.reporter.report_result(
      {outcome.test_loss, outcome.test_accuracy, data_.test.size(), outcome.parameters_hash,
       session_.communicator.size(), outcome.steps, p.trained_seconds,
       p.trained_seconds > 0 ? p.trained_samples / p.trained_seconds : 0, outcome.label_scores});
  DLRUN_TRY(agree(session_.communicator, session_.host, session_.reporter.status()));
  return outcome;
}

Result<> Trainer::step() {
  Parts& p = *parts_;
  Kernels<float>& kernels = session_.kernels;
  const Trace::Span whole_step(p.trace.get(), "step", "step", p.position.step + 1);
  const Clock::time_point start = Clock::now();
  p.waited = {};

  // This rank's samples of the step's global batch. The last batch of an epoch may be smaller, and
  // empty on this rank.
  const Batch batch = p.sampler.batch(p.position.epoch, p.position.offset);
  const double epochs_done =
      static_cast<double>(p.position.epoch) +
      static_cast<double>(p.position.offset) / static_cast<double>(p.sampler.epoch_length());
  const bool ends_epoch = p.position.offset + batch.advance >= p.sampler.epoch_length();
  const StepScope scope =
      p.exchange->begin({epochs_done, ends_epoch, batch.samples.size(), batch.global_samples});

  // The stream capture usually ends when `sums` are copied to the host below. It ends earlier if
  // the host needs another result of the step, for example the gradients' norm for clipping.
  if (p.uses_cuda_graphs) kernels.begin_step(batch.samples.size());
  start_step_sums(scope);
  forward_and_backward(batch, scope.divisor);
  DLRUN_TRY(p.sum_status);
  p.position.step += 1;
  if (scope.divisor > 0) {  // 0: a local step of a rank without samples
    DLRUN_TRY(p.exchange->update({learning_rate(p.schedule, epochs_done), p.position.step, 1}));
    p.network.update_running_statistics();
  }
  DLRUN_TRY(p.exchange->end());
  p.waited += p.exchange->waiting_time();
  trace_exchange();

  std::array<float, kStepSumCount> sums{};
  kernels.copy_to_host(sums.data(), p.network.extra().data(), sizeof sums);
  if (auto done = kernels.synchronise(); !done) {
    // The device failed on this rank only. The other ranks must not wait for this rank.
    session_.communicator.abandon();
    return done;
  }
  p.position.offset += batch.advance;
  if (scope.makes_ranks_equal && !std::isfinite(sums[kLossSum]))
    return loss_error(sums[kLossSum], epochs_done);
  add_and_report_step(batch, scope, sums, start);

  if (!scope.makes_ranks_equal) return {};
  const std::size_t every = options_.checkpoint_every;
  // True if one of the steps since the last average is a multiple of `every`.
  const bool is_due = every > 0 && p.position.step / every >
                                       (p.position.step - scope.steps_since_average - 1) / every;
  p.is_save_due = is_due || sums[kSaveRequests] > 0;
  // At the end of an epoch, end_epoch() saves.
  return p.is_save_due && !ends_epoch ? save() : Result<>();
}

void Trainer::start_step_sums(const StepScope& scope) {
  Parts& p = *parts_;
  Kernels<float>& kernels = session_.kernels;
  float* const step_sums = p.network.extra().data();
  if (scope.steps_since_average == 0) {
    constexpr std::array<float, kStepSumCount> kZeros{};
    kernels.copy_from_host(step_sums, kZeros.data(), sizeof kZeros);
  }
  if (scope.makes_ranks_equal && session_.save_requested != nullptr &&
      session_.save_requested->exchange(false)) {
    constexpr float kRequest = 1;
    kernels.copy_from_host(step_sums + kSaveRequests, &kRequest, sizeof kRequest);
  }
  kernels.zero(p.network.observed_statistics().data(), p.network.observed_statistics().size());
}

void Trainer::forward_and_backward(const Batch& batch, std::size_t divisor) {
  Parts& p = *parts_;
  Kernels<float>& kernels = session_.kernels;
  Trace* const trace = p.trace.get();
  float* const step_sums = p.network.extra().data();
  const std::size_t n = batch.samples.size();
  // Process the micro-batches in order. The gradients of all micro-batches except the last are
  // accumulated in p.accumulated_gradients. The last backward adds them layer by layer, before a
  // layer's gradients are sent to the other ranks. Usually there is only one micro-batch.
  const std::size_t per_pass = samples_per_pass(options_);
  for (std::size_t at = 0; at == 0 || at < n; at += per_pass) {
    const auto samples = batch.samples.subspan(at, std::min(per_pass, n - at));
    const bool is_last = at + per_pass >= n;
    {
      const Trace::Span span(trace, "data", "samples", samples.size());
      load_samples(samples);
    }
    {
      const Trace::Span span(trace, "forward", "samples", samples.size());
      p.network.forward(samples.size(),
                        {true, options_.seed, p.position.step, samples, divisor,
                         session_.communicator.size() > 1 ? &p.sum_over_ranks : nullptr});
    }
    const Trace::Span span(trace, "backward", "samples", samples.size());
    compute_loss(samples.size(), 1.0F / static_cast<float>(std::max<std::size_t>(divisor, 1)),
                 p.network.output_gradient(), step_sums);
    kernels.zero(p.own_loss.data(), 1);
    // Copy this rank's loss, because the exchange replaces step_sums[kLossSum] by the sum over all
    // ranks.
    kernels.add_scaled(p.own_loss.data(), 1, step_sums + kLossSum, 1);
    p.network.backward(samples.size(), [&](std::size_t layer) {
      const std::size_t first = p.network.first_element_of(layer);
      const std::size_t count = p.network.first_element_of(layer + 1) - first;
      float* gradients = p.network.gradients().data() + first;
      if (!is_last) {
        kernels.add_scaled(p.accumulated_gradients.data() + first, 1, gradients, count);
        return;
      }
      if (at > 0) {
        kernels.add_scaled(gradients, 1, p.accumulated_gradients.data() + first, count);
        kernels.zero(p.accumulated_gradients.data() + first, count);
      }
      p.exchange->layer_done(layer);
    });
  }
}

void Trainer::trace_exchange() {
  Trace* const trace = parts_->trace.get();
  if (trace == nullptr) return;
  for (const StepInterval& interval : parts_->exchange->intervals()) {
    if (interval.bucket) {
      trace->add_bucket_span(*interval.bucket, interval.name, interval.bytes, interval.begin,
                             interval.end);
    } else {
      trace->add_span(interval.name, interval.begin, interval.end);
    }
  }
}

void Trainer::add_and_report_step(const Batch& batch, const StepScope& scope,
                                  std::span<const float> sums,
                                  std::chrono::steady_clock::time_point start) {
  Parts& p = *parts_;
  const auto samples = static_cast<double>(std::max<std::size_t>(scope.samples, 1));
  if (scope.makes_ranks_equal) {
    p.epoch_totals.loss += sums[kLossSum];
    p.epoch_totals.correct += sums[kCorrect];
    p.epoch_totals.samples += samples;
  }
  const Clock::duration took = Clock::now() - start;
  p.epoch_time += took;
  const auto epoch_length = static_cast<double>(p.sampler.epoch_length());
  const double epochs_done =
      static_cast<double>(p.position.epoch) + static_cast<double>(p.position.offset) / epoch_length;
  session_.reporter.report_step(
      {p.position.epoch + 1, p.position.step,
       p.position.step + p.sampler.steps_left(p.position.epoch, p.position.offset,
                                              static_cast<std::size_t>(p.schedule.epochs)),
       epochs_done / p.schedule.epochs, sums[kLossSum] / samples, sums[kCorrect] / samples,
       batch.global_samples, took - p.waited, learning_rate(p.schedule, epochs_done)});
}

Result<> Trainer::loss_error(double loss, double epochs_done) {
  const auto error_for = [&](double value) {
    return fail(Errc::kInvalid,
                "{}: the loss is {} at step {} (epoch {}): the learning rate {:g} is too high, or "
                "the data contain invalid values; earlier checkpoints are kept",
                data_.source, value, parts_->position.step, parts_->position.epoch + 1,
                learning_rate(parts_->schedule, epochs_done));
  };
  const double own = to_host(session_.kernels, parts_->own_loss.span()).front();
  DLRUN_TRY(agree(session_.communicator, session_.host,
                  std::isfinite(own) ? Result<>() : Result<>(error_for(own))));
  return error_for(loss);  // every rank's own loss is finite, but the sum overflowed
}

void Trainer::compute_loss(std::size_t n, float scale, float* gradient, float* totals) {
  Parts& p = *parts_;
  if (options_.loss == Loss::kSigmoid) {
    session_.kernels.layer_kernels().sigmoid_cross_entropy(p.network.output(), p.labels.data(), n,
                                                           classes_, scale, gradient, totals);
  } else {
    session_.kernels.softmax_cross_entropy(p.network.output(), p.labels.data(), n, classes_, scale,
                                           gradient, totals);
  }
}

Result<> Trainer::end_epoch() {
  Parts& p = *parts_;
  p.position.epoch += 1;
  p.position.offset = 0;
  const bool is_last_epoch = static_cast<double>(p.position.epoch) >= p.schedule.epochs;
  if (options_.checkpoint_every == 0 || p.is_save_due || is_last_epoch) DLRUN_TRY(save());

  DLRUN_TRY_ASSIGN(auto test, evaluate());
  if (!std::isfinite(test.mean_loss())) {  // the test loss is equal on all ranks
    return fail(Errc::kInvalid,
                "{}: the test loss is {} after step {} (epoch {}): the learning rate is too high",
                data_.source, test.mean_loss(), p.position.step, p.position.epoch);
  }
  p.last_test = test;
  const double seconds = std::chrono::duration<double>(p.epoch_time).count();
  session_.reporter.report_epoch({p.position.epoch, p.position.step, p.epoch_totals.mean_loss(),
                                  p.epoch_totals.accuracy(), test.mean_loss(), test.accuracy(),
                                  seconds > 0 ? p.epoch_totals.samples / seconds : 0,
                                  test.label_scores()});
  p.trained_seconds += seconds;
  p.trained_samples += p.epoch_totals.samples;
  p.epoch_totals = {};
  p.epoch_time = {};
  return agree(session_.communicator, session_.host, session_.reporter.status());
}

Result<Trainer::Totals> Trainer::evaluate() {
  Parts& p = *parts_;
  Kernels<float>& kernels = session_.kernels;
  const Trace::Span span(p.trace.get(), "test", "samples", p.test.sample_count);
  const Range mine =
      even_part(p.test.sample_count, session_.communicator.rank(), session_.communicator.size());
  std::vector<std::uint32_t> samples(p.network.max_batch());
  constexpr std::array<float, 2> kZeros{};
  kernels.copy_from_host(p.test_sums.data(), kZeros.data(), sizeof kZeros);
  std::vector<std::uint32_t> confusion_counts(p.confusion_counts.size());
  kernels.copy_from_host(p.confusion_counts.data(), confusion_counts.data(),
                         confusion_counts.size() * sizeof(confusion_counts[0]));
  for (std::size_t at = mine.begin; at < mine.end; at += samples.size()) {
    const std::size_t n = std::min(samples.size(), mine.end - at);
    for (std::size_t i = 0; i < n; ++i) samples[i] = static_cast<std::uint32_t>(at + i);
    kernels.gather(p.test, std::span(samples).first(n), kPixelScale, p.network.input(),
                   p.labels.data());
    p.network.forward(n);
    compute_loss(n, 1, nullptr, p.test_sums.data());
    if (!confusion_counts.empty()) {
      kernels.layer_kernels().count_confusions(p.network.output(), p.labels.data(), n, classes_,
                                               p.confusion_counts.data());
    }
  }
  const std::vector<float> sums = to_host(kernels, p.test_sums.span());
  kernels.copy_to_host(confusion_counts.data(), p.confusion_counts.data(),
                       confusion_counts.size() * sizeof(confusion_counts[0]));
  std::vector<double> all{sums[0], sums[1]};
  all.insert(all.end(), confusion_counts.begin(), confusion_counts.end());
  DLRUN_TRY(session_.communicator.all_reduce(std::span(all), ReduceOp::kSum));
  return Totals{
      all[0], all[1], static_cast<double>(p.test.sample_count), {all.begin() + 2, all.end()}};
}

Result<> Trainer::write_trace() {
  DLRUN_TRY(agree(session_.communicator, session_.host, parts_->trace->write()));
  session_.reporter.note(fmt::format("timeline: {}.json", options_.trace_prefix.string()));
  return {};
}

std::vector<float> Trainer::parameters() {
  return to_host(session_.kernels, parts_->network.parameters());
}

}  // namespace dlrun::trainer
