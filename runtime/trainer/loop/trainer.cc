// The training loop, top to bottom: run() is the whole of it, step() one step of data-parallel training. The way of a
// gradient between backward and the optimizer is parallel/gradient_reducer.cc.

#include "runtime/trainer/loop/trainer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "runtime/trainer/checkpoint/checkpoint.h"
#include "runtime/trainer/nn/model.h"
#include "runtime/trainer/nn/network.h"
#include "runtime/trainer/parallel/agreement.h"
#include "runtime/trainer/parallel/device_collectives.h"
#include "runtime/trainer/parallel/sharded_step.h"

namespace dlrun::trainer {
namespace {

using Clock = std::chrono::steady_clock;

constexpr float kPixelScale = 1.0F / 255;
/// Samples in one forward pass of an evaluation, at least, unless their arrays take more than so many bytes.
constexpr std::size_t kEvaluationBatch = 256;
constexpr std::size_t kEvaluationBytes = std::size_t{512} << 20U;

/// Words that travel behind the gradients in their first bucket, so that what all ranks must know about a step costs no
/// collective of its own.
enum Word : std::size_t { kLossSum, kCorrect, kSaveRequests, kWords };

/// Tensors of one dimension are biases and scales.
TensorPart part_of(const TensorView& tensor) {
  std::size_t count = 1;
  for (const std::size_t size : tensor.shape) count *= size;
  return {tensor.offset, count, tensor.shape.size() > 1};
}

/// Whether ranks that can share their arrays are to: a layer's norms need the whole of it, 16 bits a copy.
bool may_share(const TrainOptions& options, const Optimizer<float>& rule) {
  return !rule.needs_whole_tensors() && options.buckets.compression == GradientReducer::Compression::kNone;
}

/// Samples that go through the network together.
std::size_t at_once(const TrainOptions& options) {
  return options.micro_batch == 0 ? options.batch : std::min(options.micro_batch, options.batch);
}

/// Samples that the network has room for.
std::size_t room(const TrainOptions& options, const Layers<float>& layers) {
  std::size_t elements = 1;  // of a sample: outputs, their gradients, workspaces
  for (const auto& layer : layers) elements += 2 * layer->outputs() + layer->workspace();
  return std::max(at_once(options), std::min(kEvaluationBatch, kEvaluationBytes / (elements * sizeof(float))));
}

}  // namespace

/// Sums over samples of all ranks.
struct Trainer::Totals {
  double loss = 0;
  double correct = 0;
  double samples = 0;

  [[nodiscard]] double mean_loss() const { return samples > 0 ? loss / samples : 0; }
  [[nodiscard]] double accuracy() const { return samples > 0 ? correct / samples : 0; }
};

struct Trainer::Parts {
  Parts(const TrainOptions& options, const Split& data, const Session& session, Layers<float> layers,
        std::unique_ptr<Optimizer<float>> rule, const std::vector<std::size_t>& rank_samples)
      : most(room(options, layers)),
        shared(session.communicator, session.kernels),
        network(session.kernels, std::move(layers), data.train.features, most, kWords,
                static_cast<std::size_t>(session.communicator.size()),
                may_share(options, *rule)
                    ? [this](std::size_t parameters,
                             std::size_t gradients) { return shared.allocate(parameters, gradients); }
                    : AllocateFlat()),
        optimizer(std::move(rule)),
        sampler({data.train.size(), options.batch, session.communicator.rank(), session.communicator.size(),
                 options.sharding, options.seed, rank_samples}),
        reducer(session.communicator, session.kernels, network, options.buckets),
        train(session.kernels.upload(data.train)),
        test(session.kernels.upload(data.test)),
        labels(session.kernels, network.max_batch() * data.train.label_width),
        totals(session.kernels, 2),
        accumulated(session.kernels, at_once(options) < options.batch ? network.parameters().size() : 0),
        checkpoints(options.checkpoint_dir, options.checkpoint_keep, session.may_commit),
        sum_over_ranks([this, &communicator = session.communicator](std::span<double> sums) {
          const Clock::time_point since = Clock::now();
          if (summed) summed = communicator.all_reduce(sums, ReduceOp::kSum);
          waited += Clock::now() - since;
        }) {
    for (const TensorView& tensor : network.tensors()) parts.push_back(part_of(tensor));
    std::size_t length = network.parameters().size();
    if (options.has_sharded_state || shared.is_shared()) {
      sharded = std::make_unique<ShardedStep>(session.communicator, session.kernels, length, parts, &shared);
      length = sharded->part();
    }
    for (std::size_t i = 0; i < optimizer->states().size(); ++i) {
      states.emplace_back(session.kernels, length);
      state_pointers.push_back(states.back().data());
    }
  }

  std::size_t most;  // samples that the network has room for
  SharedArrays shared;
  Network<float> network;
  std::unique_ptr<Optimizer<float>> optimizer;
  std::unique_ptr<ShardedStep> sharded;  // nullptr: this rank keeps all of the states
  std::vector<Array<float>> states;      // the optimizer's, each in the layout of the parameters, or this rank's part
  std::vector<float*> state_pointers;
  std::vector<TensorPart> parts;  // the tensors of the flat arrays
  Sampler sampler;
  GradientReducer reducer;
  DeviceData train;
  DeviceData test;
  Array<std::uint8_t> labels;  // of the batch
  Array<float> totals;         // of an evaluation
  Array<float> accumulated;    // gradients of the micro-batches before; zero between steps
  CheckpointFolder checkpoints;
  Clock::duration waited{};     // for other ranks, in the step under way
  Result<> summed;              // the first failure of the next
  SumOverRanks sum_over_ranks;  // for layers
  Schedule schedule;
  Position position;
  Totals epoch;                  // training samples of the epoch under way
  Clock::duration epoch_time{};  // spent in its steps
  double trained_seconds = 0;
  double trained_samples = 0;
  Totals last_test;
};

Trainer::Trainer(const TrainOptions& options, const Split& data, const Session& session)
    : options_(options), data_(data), session_(session) {}
Trainer::~Trainer() = default;

Result<Outcome> Trainer::run() {
  DLRUN_TRY(build());
  DLRUN_TRY(start_or_resume());
  Parts& p = *parts_;
  const auto epochs = epochs_per_rank(options_.sharding, options_.epochs, session_.communicator.size());
  while (p.position.epoch < epochs) {
    while (p.position.offset < p.sampler.epoch_length()) DLRUN_TRY(step());
    DLRUN_TRY(end_epoch());
  }
  if (p.last_test.samples == 0) {  // resumed at the very end
    auto test = evaluate();
    if (!test) return tl::unexpected(test.error());
    p.last_test = *test;
  }
  std::vector<float> held = parameters();
  const std::vector<float> running = to_host(session_.kernels, p.network.running());
  held.insert(held.end(), running.begin(), running.end());
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(held.data());
  auto hash = equal_on_all_ranks(session_.communicator, "parameters", {bytes, held.size() * sizeof(float)});
  if (!hash) return tl::unexpected(hash.error());

  Outcome outcome{p.last_test.accuracy(), p.last_test.mean_loss(), hash->substr(0, 16), p.position.step};
  session_.reporter.finish({outcome.test_loss, outcome.test_accuracy, data_.test.size(), outcome.parameters_hash,
                            session_.communicator.size(), outcome.steps, p.trained_seconds,
                            p.trained_seconds > 0 ? p.trained_samples / p.trained_seconds : 0});
  DLRUN_TRY(agree(session_.communicator, session_.host, session_.reporter.status()));
  return outcome;
}

Result<> Trainer::survey() {
  classes_ = data_.train.classes;
  train_samples_ = data_.train.size();
  if (options_.sharding != Sharding::kFile) return {};
  const std::array<std::uint64_t, 2> mine{train_samples_, classes_};
  std::vector<std::uint64_t> all(2 * static_cast<std::size_t>(session_.communicator.size()));
  DLRUN_TRY(session_.communicator.all_gather(std::span(mine), std::span(all)));
  train_samples_ = 0;
  for (std::size_t i = 0; i < all.size(); i += 2) {
    rank_samples_.push_back(all[i]);
    train_samples_ += all[i];
    classes_ = std::max(classes_, static_cast<std::size_t>(all[i + 1]));
  }
  return {};
}

Result<> Trainer::check_parallelism(const Optimizer<float>& rule) const {
  if (options_.has_sharded_state && rule.needs_whole_tensors()) {
    return fail(Errc::kUsage, "--optimizer-state sharded cuts across the layers, whose norms {} needs",
                options_.optimizer.name);
  }
  const std::string_view backend = session_.communicator.name();
  if (options_.buckets.compression != GradientReducer::Compression::kNone &&
      (options_.has_sharded_state || backend == "nccl")) {
    return fail(Errc::kUsage, "--compression goes with neither --backend nccl nor --optimizer-state sharded");
  }
  if (options_.has_sharded_state && !reads_device_memory(session_.communicator, session_.kernels)) {
    return fail(Errc::kUsage, "--optimizer-state sharded with --device cuda needs --backend nccl, not {}", backend);
  }
  return {};
}

Result<> Trainer::build() {
  DLRUN_TRY(survey());
  const bool is_multiple = data_.train.label_width > 1;
  if (is_multiple != (options_.loss == Loss::kSigmoid)) {
    return fail(Errc::kUsage, "{}: {}", data_.source,
                is_multiple
                    ? "its samples have a label of 0 or 1 for each class: they need --loss sigmoid"
                    : "its labels are classes that exclude each other: --loss sigmoid needs 0 or 1 for each class");
  }
  if (is_multiple && session_.kernels.layers() == nullptr)
    return fail(Errc::kUsage, "--loss sigmoid needs --device cpu");
  const auto words = options_.layers.empty() ? named_model(options_.model, options_.hidden, classes_)
                                             : Result<std::vector<std::string>>(options_.layers);
  if (!words) return tl::unexpected(words.error());
  const ImageShape image{data_.train.height, data_.train.width,
                         data_.train.features / (data_.train.height * data_.train.width)};
  auto layers = make_layers<float>(*words, image, classes_);
  if (!layers) return tl::unexpected(layers.error());
  for (std::size_t i = 0; i < layers->size() && session_.kernels.layers() == nullptr; ++i) {
    if ((*layers)[i]->needs_layer_kernels()) {
      return fail(Errc::kUsage, "--device cuda trains dense layers and relu only, not {}; use --device cpu",
                  (*layers)[i]->description());
    }
  }
  for (const auto& layer : *layers) {
    if (layer->joins_ranks() && at_once(options_) < options_.batch) {
      return fail(Errc::kUsage,
                  "--micro-batch {} of a batch of {}: batchnorm sync normalises whole batches; use batchnorm, or no "
                  "micro-batches",
                  options_.micro_batch, options_.batch);
    }
  }
  const auto rule = resolve(options_.optimizer);
  if (!rule) return tl::unexpected(rule.error());
  auto optimizer = make_optimizer<float>(*rule);
  if (!optimizer) return tl::unexpected(optimizer.error());
  DLRUN_TRY(check_parallelism(**optimizer));

  // Ranks that were started differently would train a nonsense, or wait for each other forever.
  const std::string same = fmt::format(
      "{}|{} {} {} {} {} {} {} {}|{} {} {} {} {} {} {} {}|{} {} {} {}|{} {} {}|{} {}|{} {} {} {} {} {}",
      fmt::join(*words, ","), rule->name, *rule->momentum, *rule->weight_decay, rule->beta1, rule->beta2,
      *rule->epsilon, rule->alpha, rule->trust, options_.learning_rate, static_cast<int>(options_.lr_scaling),
      static_cast<int>(options_.lr_decay), options_.warmup_epochs, fmt::join(options_.lr_steps, ","),
      options_.lr_step_factor, options_.lr_power, options_.clip_norm, options_.batch, options_.epochs, options_.seed,
      static_cast<int>(options_.sharding), options_.checkpoint_every, options_.checkpoint_keep, options_.resume,
      train_samples_, data_.test.size(), data_.train.features, data_.train.label_width,
      options_.buckets.first_bucket_bytes, options_.buckets.bucket_bytes,
      static_cast<int>(options_.buckets.compression), options_.has_sharded_state);
  auto equal = equal_on_all_ranks(session_.communicator, "options or data",
                                  {reinterpret_cast<const std::uint8_t*>(same.data()), same.size()});
  if (!equal) return tl::unexpected(equal.error());

  parts_ = std::make_unique<Parts>(options_, data_, session_, std::move(*layers), std::move(*optimizer), rank_samples_);
  Parts& p = *parts_;
  DLRUN_TRY(p.shared.status());
  const int size = session_.communicator.size();
  p.schedule = {options_.learning_rate,
                options_.lr_scaling,
                options_.lr_decay,
                options_.warmup_epochs,
                static_cast<double>(epochs_per_rank(options_.sharding, options_.epochs, size)),
                size,
                options_.lr_steps,
                options_.lr_step_factor,
                options_.lr_power};
  DLRUN_TRY(agree(session_.communicator, session_.host, session_.kernels.synchronise()));

  session_.reporter.note(
      fmt::format("data: {}; {} training and {} test samples", data_.source, train_samples_, data_.test.size()));
  session_.reporter.note(
      fmt::format("model: {}, {} parameters; optimizer {}, learning rate {:g}; batch {} x {} rank{}; {}; {}",
                  p.network.description(), p.network.parameters().size(), options_.optimizer.name,
                  learning_rate(p.schedule, options_.warmup_epochs), options_.batch, size, size == 1 ? "" : "s",
                  session_.communicator.name(), session_.kernels.description()));
  return {};
}

Result<> Trainer::start_or_resume() {
  Parts& p = *parts_;
  Communicator& communicator = session_.communicator;
  const std::vector<std::string> state_names(p.optimizer->states().begin(), p.optimizer->states().end());
  std::optional<TrainingState> saved;
  Result<> mine;
  if (communicator.rank() == 0 && options_.resume) {
    std::vector<std::string> passed_over;
    auto loaded = p.checkpoints.load_newest({p.network.tensors(), p.network.running_tensors()}, options_.optimizer.name,
                                            state_names, passed_over);
    for (const std::string& sentence : passed_over) session_.reporter.note(sentence);
    if (!loaded) {
      mine = tl::unexpected(loaded.error());
    } else if (loaded->has_value() && (*loaded)->seed != options_.seed) {
      mine = fail(Errc::kInvalid,
                  "{}: its checkpoints were made with --seed {}, this run has {}: the order of samples would not be "
                  "continued",
                  p.checkpoints.path().string(), (*loaded)->seed, options_.seed);
    } else {
      saved = std::move(*loaded);
    }
  } else if (communicator.rank() == 0 && options_.checkpoint_keep > 0 && !p.checkpoints.names().empty()) {
    mine = fail(Errc::kRefused,
                "{}: holds checkpoints of another run ({}): give --resume to go on from there, or another "
                "--checkpoint-dir",
                p.checkpoints.path().string(), p.checkpoints.names().front());
  }
  DLRUN_TRY(agree(communicator, session_.host, mine));

  // Rank 0's first values, or its checkpoint's, for everybody: no other rank needs to see the checkpoint folder.
  if (communicator.rank() == 0) p.network.initialise(options_.seed);
  std::array<std::uint64_t, 4> place{};
  if (saved) {
    place = {saved->position.step, saved->position.epoch, saved->position.offset, 1};
    session_.kernels.copy_from_host(p.network.parameters().data(), saved->parameters.data(),
                                    p.network.parameters().size_bytes());
    session_.kernels.copy_from_host(p.network.running().data(), saved->running.data(),
                                    p.network.running().size_bytes());
    for (std::size_t i = 0; i < p.states.size() && p.sharded == nullptr; ++i) {
      session_.kernels.copy_from_host(p.states[i].data(), saved->states[i].data(), p.states[i].span().size_bytes());
    }
    session_.reporter.note(
        fmt::format("resumed from {} at step {}", p.checkpoints.path().string(), saved->position.step));
  }
  DLRUN_TRY(communicator.broadcast(std::span(place), 0));
  p.position = {place[0], place[1], place[2]};
  if (!p.shared.is_shared()) DLRUN_TRY(broadcast_array(communicator, session_.kernels, p.network.parameters(), 0));
  DLRUN_TRY(broadcast_array(communicator, session_.kernels, p.network.running(), 0));
  if (p.sharded == nullptr) {
    for (Array<float>& state : p.states) DLRUN_TRY(broadcast_array(communicator, session_.kernels, state.span(), 0));
    return {};
  }
  for (std::size_t i = 0; i < p.states.size() && place[3] == 1; ++i) {  // without a checkpoint they are zeros
    std::vector<float> whole = saved ? std::move(saved->states[i]) : std::vector<float>(p.network.parameters().size());
    DLRUN_TRY(communicator.broadcast(std::span(whole), 0));
    p.sharded->take(whole, p.states[i].span());
    DLRUN_TRY(session_.kernels.synchronise());  // before `whole` goes
  }
  return {};
}

Result<> Trainer::step() {
  Parts& p = *parts_;
  Kernels<float>& kernels = session_.kernels;
  const Clock::time_point start = Clock::now();
  p.waited = {};

  // This rank's samples of the step's global batch. The last batch of an epoch is smaller, and may be empty here.
  const Batch batch = p.sampler.batch(p.position.epoch, p.position.offset);
  const std::size_t n = batch.samples.size();
  // Every rank divides by the samples of all ranks: the sum over ranks is then the mean over the global batch, whatever
  // each rank's part of it is.
  float* words = p.network.extra().data();
  const std::array<float, kWords> fresh{
      0, 0, session_.save_requested != nullptr && session_.save_requested->exchange(false) ? 1.0F : 0.0F};
  kernels.copy_from_host(words, fresh.data(), sizeof fresh);
  kernels.zero(p.network.observed().data(), p.network.observed().size());

  // Micro-batches one after another; the gradients of all but the last are kept aside, and added where backward leaves
  // the last one's, layer by layer, before they go to the other ranks. Mostly there is but one.
  const std::size_t most = at_once(options_);
  for (std::size_t at = 0; at == 0 || at < n; at += most) {
    const auto samples = batch.samples.subspan(at, std::min(most, n - at));
    const bool is_last = at + most >= n;
    kernels.gather(p.train, samples, kPixelScale, p.network.input(), p.labels.data());
    p.network.forward(samples.size(), {true, options_.seed, p.position.step, samples, batch.global_samples,
                                       session_.communicator.size() > 1 ? &p.sum_over_ranks : nullptr});
    loss(samples.size(), 1.0F / static_cast<float>(batch.global_samples), p.network.output_gradient(), words);
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
      if (p.sharded == nullptr) p.reducer.layer_done(layer);
    });
  }
  DLRUN_TRY(p.summed);
  const double epochs_done = static_cast<double>(p.position.epoch) +
                             static_cast<double>(p.position.offset) / static_cast<double>(p.sampler.epoch_length());
  p.position.step += 1;
  DLRUN_TRY(update({learning_rate(p.schedule, epochs_done), p.position.step, 1}));
  p.network.keep_observed();

  std::array<float, kWords> sums{};
  kernels.copy_to_host(sums.data(), words, sizeof sums);
  if (auto done = kernels.synchronise(); !done) {
    session_.communicator.abandon();  // a device that failed on this rank alone: the others must not wait for it
    return done;
  }
  p.position.offset += batch.advance;
  if (!std::isfinite(sums[kLossSum])) {
    return fail(Errc::kInvalid,
                "the loss is {} at step {} (epoch {}): the learning rate {:g} is too high, or the data hold what no "
                "model can learn; the checkpoints before stay",
                sums[kLossSum], p.position.step, p.position.epoch + 1, learning_rate(p.schedule, epochs_done));
  }

  const auto samples = static_cast<double>(batch.global_samples);
  p.epoch.loss += sums[kLossSum];
  p.epoch.correct += sums[kCorrect];
  p.epoch.samples += samples;
  const Clock::duration took = Clock::now() - start;
  p.epoch_time += took;
  session_.reporter.step(
      {p.position.epoch + 1, p.position.step,
       p.position.step +
           p.sampler.steps_left(p.position.epoch, p.position.offset, static_cast<std::size_t>(p.schedule.epochs)),
       (epochs_done + static_cast<double>(batch.advance) / static_cast<double>(p.sampler.epoch_length())) /
           p.schedule.epochs,
       sums[kLossSum] / samples, sums[kCorrect] / samples, batch.global_samples, took - p.waited});

  const bool is_due = options_.checkpoint_every > 0 && p.position.step % options_.checkpoint_every == 0;
  const bool is_epochs_end = p.position.offset >= p.sampler.epoch_length();  // end_epoch saves
  if ((is_due || sums[kSaveRequests] > 0) && !is_epochs_end) DLRUN_TRY(save());
  return {};
}

Result<> Trainer::update(StepInfo info) {
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
    DLRUN_TRY(p.sharded->step(*p.optimizer, parameters, gradients, p.state_pointers, info, options_.clip_norm));
    p.waited += p.sharded->waited();
    return {};
  }
  DLRUN_TRY(p.reducer.wait());
  p.waited += Clock::now() - start;
  if (options_.clip_norm > 0) info.gradient_scale = clipping_scale(kernels, gradients, count, options_.clip_norm);
  p.optimizer->step(kernels, {parameters, gradients, p.state_pointers, count, p.parts}, info);
  return {};
}

void Trainer::loss(std::size_t n, float scale, float* gradient, float* totals) {
  Parts& p = *parts_;
  if (options_.loss == Loss::kSigmoid) {
    session_.kernels.layers()->sigmoid_cross_entropy(p.network.output(), p.labels.data(), n, classes_, scale, gradient,
                                                     totals);
  } else {
    session_.kernels.softmax_cross_entropy(p.network.output(), p.labels.data(), n, classes_, scale, gradient, totals);
  }
}

Result<> Trainer::save() {
  if (options_.checkpoint_keep == 0) return {};
  Parts& p = *parts_;
  TrainingState state;
  if (p.sharded != nullptr) {
    for (Array<float>& array : p.states) {
      auto whole = p.sharded->whole(array.span());
      if (!whole) return tl::unexpected(whole.error());
      if (session_.communicator.rank() == 0) state.states.push_back(std::move(*whole));
    }
  }
  Result<> mine;
  if (session_.communicator.rank() == 0) {
    state.position = p.position;
    state.seed = options_.seed;
    state.optimizer = options_.optimizer.name;
    state.state_names.assign(p.optimizer->states().begin(), p.optimizer->states().end());
    state.parameters = parameters();
    state.running = to_host(session_.kernels, p.network.running());
    for (std::size_t i = state.states.size(); i < p.states.size(); ++i)
      state.states.push_back(to_host(session_.kernels, p.states[i].span()));
    mine = p.checkpoints.save(state, {p.network.tensors(), p.network.running_tensors()});
  }
  DLRUN_TRY(agree(session_.communicator, session_.host, mine));
  session_.reporter.saved(p.position.step);
  return {};
}

Result<> Trainer::end_epoch() {
  Parts& p = *parts_;
  p.position.epoch += 1;
  p.position.offset = 0;
  const bool is_end = static_cast<double>(p.position.epoch) >= p.schedule.epochs;
  const bool is_due = options_.checkpoint_every == 0 || p.position.step % options_.checkpoint_every == 0;
  if (is_due || is_end) DLRUN_TRY(save());

  auto test = evaluate();
  if (!test) return tl::unexpected(test.error());
  p.last_test = *test;
  const double seconds = std::chrono::duration<double>(p.epoch_time).count();
  session_.reporter.epoch({p.position.epoch, p.position.step, p.epoch.mean_loss(), p.epoch.accuracy(),
                           test->mean_loss(), test->accuracy(), seconds > 0 ? p.epoch.samples / seconds : 0});
  p.trained_seconds += seconds;
  p.trained_samples += p.epoch.samples;
  p.epoch = {};
  p.epoch_time = {};
  return agree(session_.communicator, session_.host, session_.reporter.status());
}

Result<Trainer::Totals> Trainer::evaluate() {
  Parts& p = *parts_;
  Kernels<float>& kernels = session_.kernels;
  const Range mine = even_part(p.test.samples, session_.communicator.rank(), session_.communicator.size());
  std::vector<std::uint32_t> samples(p.network.max_batch());
  constexpr std::array<float, 2> kZeros{};
  kernels.copy_from_host(p.totals.data(), kZeros.data(), sizeof kZeros);
  for (std::size_t at = mine.begin; at < mine.end; at += samples.size()) {
    const std::size_t n = std::min(samples.size(), mine.end - at);
    for (std::size_t i = 0; i < n; ++i) samples[i] = static_cast<std::uint32_t>(at + i);
    kernels.gather(p.test, std::span(samples).first(n), kPixelScale, p.network.input(), p.labels.data());
    p.network.forward(n);
    loss(n, 1, nullptr, p.totals.data());
  }
  const std::vector<float> sums = to_host(kernels, p.totals.span());
  std::array<double, 2> all{sums[0], sums[1]};
  DLRUN_TRY(session_.communicator.all_reduce(std::span(all), ReduceOp::kSum));
  return Totals{all[0], all[1], static_cast<double>(p.test.samples)};
}

std::vector<float> Trainer::parameters() {
  return to_host(session_.kernels, parts_->network.parameters());
}

}  // namespace dlrun::trainer
