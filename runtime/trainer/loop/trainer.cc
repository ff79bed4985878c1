// The training loop. run() is the whole training, step() one data-parallel step.
// parallel/gradient_reducer.cc sums the gradients between backward and the optimizer.

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
#include "runtime/trainer/parallel/device_collectives.h"

namespace dlrun::trainer {
namespace {

constexpr float kPixelScale = 1.0F / 255;

}  // namespace

Trainer::Trainer(const TrainOptions& options, const Split& data, const Session& session)
    : options_(options), data_(data), session_(session) {}
Trainer::~Trainer() = default;

Result<Outcome> Trainer::run() {
  DLRUN_TRY(build());
  DLRUN_TRY(start_or_resume());
  Parts& p = *parts_;
  if (options_.trace_steps > 0) {
    auto trace = Trace::start(session_.communicator,
                              {options_.trace_steps, options_.trace_prefix, session_.host,
                               p.sharded != nullptr ? 1 : p.reducer.buckets()});
    if (!trace) return tl::unexpected(trace.error());
    p.trace = std::make_unique<Trace>(std::move(*trace));
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
  if (p.last_test.samples == 0) {  // resumed at the very end
    auto test = evaluate();
    if (!test) return tl::unexpected(test.error());
    p.last_test = *test;
  }
  std::vector<float> held = parameters();
  const std::vector<float> running = to_host(session_.kernels, p.network.running());
  held.insert(held.end(), running.begin(), running.end());
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(held.data());
  auto hash =
      equal_on_all_ranks(session_.communicator, "parameters", {bytes, held.size() * sizeof(float)});
  if (!hash) return tl::unexpected(hash.error());

  Outcome outcome{p.last_test.accuracy(), p.last_test.mean_loss(), hash->substr(0, 16),
                  p.position.step};
  session_.reporter.finish({outcome.test_loss, outcome.test_accuracy, data_.test.size(),
                            outcome.parameters_hash, session_.communicator.size(), outcome.steps,
                            p.trained_seconds,
                            p.trained_seconds > 0 ? p.trained_samples / p.trained_seconds : 0});
  DLRUN_TRY(agree(session_.communicator, session_.host, session_.reporter.status()));
  return outcome;
}

Result<> Trainer::step() {
  Parts& p = *parts_;
  Kernels<float>& kernels = session_.kernels;
  Trace* const trace = p.trace.get();
  const Trace::Span whole_step(trace, "step", "step", p.position.step + 1);
  const Clock::time_point start = Clock::now();
  p.waited = {};

  // Get this rank's samples of the step's global batch. The last batch of an epoch is smaller and
  // may be empty on this rank.
  const Batch batch = p.sampler.batch(p.position.epoch, p.position.offset);
  const std::size_t n = batch.samples.size();
  const double epochs_done =
      static_cast<double>(p.position.epoch) +
      static_cast<double>(p.position.offset) / static_cast<double>(p.sampler.epoch_length());
  const bool is_epochs_end = p.position.offset + batch.advance >= p.sampler.epoch_length();
  // A local step uses only this rank's gradients. After local_steps of them, and at the end of an
  // epoch, the ranks average their parameters.
  const bool is_local = p.local != nullptr && epochs_done >= options_.local_after;
  const std::size_t steps_apart = is_local ? p.local->steps() : 0;
  const bool is_together = !is_local || steps_apart + 1 >= options_.local_steps || is_epochs_end;

  // In a common step every rank divides by the number of samples of all ranks. The sum over ranks
  // is then the mean over the global batch, however the samples are distributed.
  const std::size_t batch_samples = is_local ? n : batch.global_samples;
  // The recording ends where the words are read, or earlier, for example for clipping.
  if (p.is_recorded) kernels.begin_step(n);
  float* words = p.network.extra().data();
  if (steps_apart == 0) {
    constexpr std::array<float, kWords> kFresh{};
    kernels.copy_from_host(words, kFresh.data(), sizeof kFresh);
  }
  if (is_together && session_.save_requested != nullptr &&
      session_.save_requested->exchange(false)) {
    constexpr float kRequest = 1;
    kernels.copy_from_host(words + kSaveRequests, &kRequest, sizeof kRequest);
  }
  kernels.zero(p.network.observed().data(), p.network.observed().size());

  // Process the micro-batches in order. The gradients of all but the last are accumulated
  // separately. During the last backward they are added layer by layer, before a layer's gradients
  // go to the other ranks. Usually there is only one micro-batch.
  const std::size_t most = at_once(options_);
  for (std::size_t at = 0; at == 0 || at < n; at += most) {
    const auto samples = batch.samples.subspan(at, std::min(most, n - at));
    const bool is_last = at + most >= n;
    {
      const Trace::Span span(trace, "data", "samples", samples.size());
      kernels.gather(p.train, samples, kPixelScale, p.network.input(), p.labels.data());
    }
    {
      const Trace::Span span(trace, "forward", "samples", samples.size());
      p.network.forward(samples.size(),
                        {true, options_.seed, p.position.step, samples, batch_samples,
                         session_.communicator.size() > 1 ? &p.sum_over_ranks : nullptr});
    }
    const Trace::Span span(trace, "backward", "samples", samples.size());
    loss(samples.size(), 1.0F / static_cast<float>(std::max<std::size_t>(batch_samples, 1)),
         p.network.output_gradient(), words);
    kernels.zero(p.own_loss.data(), 1);
    // Keep this rank's loss before the words become the sums over all ranks.
    kernels.add_scaled(p.own_loss.data(), 1, words + kLossSum, 1);
    p.network.backward(samples.size(), [&](std::size_t layer) {
      const std::size_t first = p.network.first(layer);
      const std::size_t count = p.network.first(layer + 1) - first;
      float* gradients = p.network.gradients().data() + first;
      if (!is_last) {
        kernels.add_scaled(p.accumulated.data() + first, 1, gradients, count);
        return;
      }
      if (at > 0) {
        kernels.add_scaled(gradients, 1, p.accumulated.data() + first, count);
        kernels.zero(p.accumulated.data() + first, count);
      }
      if (p.sharded == nullptr && !is_local) p.reducer.layer_done(layer);
    });
  }
  DLRUN_TRY(p.summed);
  p.position.step += 1;
  if (batch_samples > 0) {  // otherwise this rank has no step to take
    DLRUN_TRY(update({learning_rate(p.schedule, epochs_done), p.position.step, 1}, is_local));
    p.network.keep_observed();
  }
  std::size_t seen = batch.global_samples;  // number of samples whose loss the words hold
  if (is_local) {
    p.local->took(n, batch.global_samples);
    seen = is_together ? p.local->all_samples() : p.local->samples();
    const Clock::time_point since = Clock::now();
    const Trace::Span span(is_together ? trace : nullptr, "average");
    if (is_together) DLRUN_TRY(p.local->average());
    p.waited += Clock::now() - since;
  }

  std::array<float, kWords> sums{};
  kernels.copy_to_host(sums.data(), words, sizeof sums);
  if (auto done = kernels.synchronise(); !done) {
    // The device failed on this rank only; the other ranks must not wait for it.
    session_.communicator.abandon();
    return done;
  }
  p.position.offset += batch.advance;
  if (is_together && !std::isfinite(sums[kLossSum])) return not_finite(sums[kLossSum], epochs_done);

  const auto samples = static_cast<double>(std::max<std::size_t>(seen, 1));
  if (is_together) {
    p.epoch.loss += sums[kLossSum];
    p.epoch.correct += sums[kCorrect];
    p.epoch.samples += samples;
  }
  const Clock::duration took = Clock::now() - start;
  p.epoch_time += took;
  session_.reporter.step(
      {p.position.epoch + 1, p.position.step,
       p.position.step + p.sampler.steps_left(p.position.epoch, p.position.offset,
                                              static_cast<std::size_t>(p.schedule.epochs)),
       (epochs_done +
        static_cast<double>(batch.advance) / static_cast<double>(p.sampler.epoch_length())) /
           p.schedule.epochs,
       sums[kLossSum] / samples, sums[kCorrect] / samples, batch.global_samples, took - p.waited});

  if (!is_together) return {};
  const std::size_t every = options_.checkpoint_every;
  const bool is_due =
      every > 0 && p.position.step / every > (p.position.step - steps_apart - 1) / every;
  p.is_save_due = is_due || sums[kSaveRequests] > 0;
  return p.is_save_due && !is_epochs_end ? save() : Result<>();  // otherwise end_epoch() saves
}

Result<> Trainer::not_finite(double loss, double epochs_done) {
  const auto say = [&](double value) {
    return fail(Errc::kInvalid,
                "{}: the loss is {} at step {} (epoch {}): the learning rate {:g} is too high, or "
                "the data hold what no "
                "model can learn; the checkpoints before stay",
                data_.source, value, parts_->position.step, parts_->position.epoch + 1,
                learning_rate(parts_->schedule, epochs_done));
  };
  const double own = to_host(session_.kernels, parts_->own_loss.span()).front();
  DLRUN_TRY(agree(session_.communicator, session_.host,
                  std::isfinite(own) ? Result<>() : Result<>(say(own))));
  return say(loss);  // no single rank is to blame; the sum overflowed
}

Result<> Trainer::update(StepInfo info, bool is_local) {
  Parts& p = *parts_;
  Kernels<float>& kernels = session_.kernels;
  const std::size_t count = p.network.parameters().size();
  float* const parameters = p.network.parameters().data();
  float* const gradients = p.network.gradients().data();
  const Clock::time_point start = Clock::now();
  if (p.sharded != nullptr) {
    const std::span<float> words = p.network.gradients_and_extra().subspan(count);
    DLRUN_TRY(session_.communicator.all_reduce(words, ReduceOp::kSum));
    p.waited += Clock::now() - start;
    DLRUN_TRY(p.sharded->step(*p.optimizer, parameters, gradients, p.state_pointers, info,
                              options_.clip_norm));
    p.waited += p.sharded->waited();
    if (p.trace != nullptr) {
      const ShardedStep::Timing& timing = p.sharded->timing();
      p.trace->span("sum of gradients", start, timing.summed);
      p.trace->span("optimizer", timing.summed, timing.stepped);
      p.trace->span("new parameters", timing.stepped, timing.end);
      p.trace->bucket(0, "reduce-scatter", p.sharded->bytes(), start, timing.summed);
      p.trace->bucket(0, "all-gather", p.sharded->bytes(), timing.stepped, timing.end);
    }
    return {};
  }
  if (!is_local) {
    const Trace::Span span(p.trace.get(), "wait for gradients");
    DLRUN_TRY(p.reducer.wait());
    for (std::size_t i = 0; p.trace != nullptr && i < p.reducer.buckets(); ++i) {
      const GradientReducer::Timing& timing = p.reducer.timing(i);
      p.trace->bucket(i, "all-reduce", timing.bytes, timing.begin, timing.end);
    }
  }
  p.waited += Clock::now() - start;
  const Trace::Span span(p.trace.get(), "optimizer");
  if (options_.clip_norm > 0)
    info.gradient_scale = clipping_scale(kernels, gradients, count, options_.clip_norm);
  p.optimizer->step(kernels, {parameters, gradients, p.state_pointers, count, p.parts}, info);
  return {};
}

void Trainer::loss(std::size_t n, float scale, float* gradient, float* totals) {
  Parts& p = *parts_;
  if (options_.loss == Loss::kSigmoid) {
    session_.kernels.layers().sigmoid_cross_entropy(p.network.output(), p.labels.data(), n,
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
  const bool is_end = static_cast<double>(p.position.epoch) >= p.schedule.epochs;
  if (options_.checkpoint_every == 0 || p.is_save_due || is_end) DLRUN_TRY(save());

  auto test = evaluate();
  if (!test) return tl::unexpected(test.error());
  if (!std::isfinite(test->mean_loss())) {  // the same on all ranks
    return fail(Errc::kInvalid,
                "{}: the test loss is {} after step {} (epoch {}): the learning rate is too high",
                data_.source, test->mean_loss(), p.position.step, p.position.epoch);
  }
  p.last_test = *test;
  const double seconds = std::chrono::duration<double>(p.epoch_time).count();
  session_.reporter.epoch({p.position.epoch, p.position.step, p.epoch.mean_loss(),
                           p.epoch.accuracy(), test->mean_loss(), test->accuracy(),
                           seconds > 0 ? p.epoch.samples / seconds : 0});
  p.trained_seconds += seconds;
  p.trained_samples += p.epoch.samples;
  p.epoch = {};
  p.epoch_time = {};
  return agree(session_.communicator, session_.host, session_.reporter.status());
}

Result<Trainer::Totals> Trainer::evaluate() {
  Parts& p = *parts_;
  Kernels<float>& kernels = session_.kernels;
  const Trace::Span span(p.trace.get(), "test", "samples", p.test.samples);
  const Range mine =
      even_part(p.test.samples, session_.communicator.rank(), session_.communicator.size());
  std::vector<std::uint32_t> samples(p.network.max_batch());
  constexpr std::array<float, 2> kZeros{};
  kernels.copy_from_host(p.totals.data(), kZeros.data(), sizeof kZeros);
  for (std::size_t at = mine.begin; at < mine.end; at += samples.size()) {
    const std::size_t n = std::min(samples.size(), mine.end - at);
    for (std::size_t i = 0; i < n; ++i) samples[i] = static_cast<std::uint32_t>(at + i);
    kernels.gather(p.test, std::span(samples).first(n), kPixelScale, p.network.input(),
                   p.labels.data());
    p.network.forward(n);
    loss(n, 1, nullptr, p.totals.data());
  }
  const std::vector<float> sums = to_host(kernels, p.totals.span());
  std::array<double, 2> all{sums[0], sums[1]};
  DLRUN_TRY(session_.communicator.all_reduce(std::span(all), ReduceOp::kSum));
  return Totals{all[0], all[1], static_cast<double>(p.test.samples)};
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
