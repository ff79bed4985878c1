// Prepares training: checks data, options and ranks against each other, and creates the parts of
// the Trainer.

#include <functional>
#include <utility>

#include <fmt/format.h>

#include "runtime/trainer/loop/parts.h"
#include "runtime/trainer/nn/model.h"
#include "runtime/trainer/parallel/agreement.h"
#include "runtime/trainer/parallel/array_collectives.h"

namespace dlrun::trainer {
namespace {

/// Number of samples in one forward pass of an evaluation, unless kEvaluationBytes allows fewer or
/// a pass of training has more.
constexpr std::size_t kEvaluationBatch = 256;
/// Limit for the size of the arrays of these samples, in bytes.
constexpr std::size_t kEvaluationBytes = std::size_t{512} << 20U;

/// Returns the ranges of the network's tensors for the optimizer. Tensors of one dimension are
/// biases or scales; all others are weights.
std::vector<TensorRange> ranges_of(const Network<float>& network) {
  std::vector<TensorRange> ranges;
  for (const TensorLocation& tensor : network.tensors()) {
    std::size_t count = 1;
    for (const std::size_t size : tensor.shape) count *= size;
    ranges.push_back({tensor.offset, count, tensor.shape.size() > 1});
  }
  return ranges;
}

/// Returns true if the options allow the ranks to keep their arrays in shared memory. Returns false
/// for optimizers that need whole tensors, for 16-bit compression, and for local steps.
bool may_share_arrays(const TrainOptions& options, const Optimizer<float>& optimizer) {
  return !optimizer.needs_whole_tensors() &&
         options.bucket_options.compression == GradientReducer::Compression::kNone &&
         options.local_steps == 0;
}

/// Returns the maximum number of samples in one forward pass.
std::size_t max_forward_samples_of(const TrainOptions& options, const Layers<float>& layers) {
  std::size_t elements = 1;  // for one sample: outputs, their gradients, workspaces
  for (const auto& layer : layers) elements += 2 * layer->outputs() + layer->workspace_size();
  return std::max(samples_per_pass(options),
                  std::min(kEvaluationBatch, kEvaluationBytes / (elements * sizeof(float))));
}

}  // namespace

std::unique_ptr<GradientExchange> Trainer::Parts::make_exchange(const TrainOptions& options,
                                                                const Session& session) {
  const std::size_t count = network.parameters().size();
  const ExchangeContext context{
      .communicator = session.communicator,
      .kernels = session.kernels,
      .optimizer = *optimizer,
      .state = optimizer_state,
      .parameters = network.parameters(),
      .gradients = network.gradients(),
      .step_sums = network.gradients_and_step_sums().subspan(count),
      .tensors = tensors,
      .clip_norm = options.clip_norm,
  };
  if (shared.is_shared()) return make_shared_exchange(context, shared);
  if (options.has_sharded_state) return make_sharded_exchange(context);
  if (options.local_steps > 0) {
    return make_local_exchange(context, network, options.bucket_options, options.local_steps,
                               options.epochs_before_local_steps);
  }
  return make_all_reduce_exchange(context, network, options.bucket_options);
}

Trainer::Parts::Parts(const TrainOptions& options, const Split& data, const Session& session,
                      Layers<float> layers, std::unique_ptr<Optimizer<float>> chosen_optimizer,
                      const std::vector<std::size_t>& rank_samples)
    : max_forward_samples(max_forward_samples_of(options, layers)),
      shared(session.communicator, session.kernels),
      network(session.kernels, std::move(layers), data.train.features, max_forward_samples,
              kStepSumCount, static_cast<std::size_t>(session.communicator.size()),
              may_share_arrays(options, *chosen_optimizer)
                  ? AllocateFlat(std::bind_front(&SharedArrays::allocate, &shared))
                  : AllocateFlat()),
      optimizer(std::move(chosen_optimizer)),
      tensors(ranges_of(network)),
      optimizer_state(session.communicator, session.kernels, *optimizer,
                      network.parameters().size(), tensors.size(),
                      options.has_sharded_state || shared.is_shared()),
      exchange(make_exchange(options, session)),
      sampler({data.train.size(), options.batch, session.communicator.rank(),
               session.communicator.size(), options.sharding, options.seed, rank_samples}),
      train(session.kernels.upload(data.train)),
      test(session.kernels.upload(data.test)),
      labels(session.kernels, network.max_batch() * data.train.label_width),
      originals(session.kernels, options.augmentation.is_empty()
                                     ? 0
                                     : samples_per_pass(options) * data.train.features),
      test_sums(session.kernels, 2),
      confusion_counts(session.kernels,
                       data.train.label_width > 1 ? 3 * data.train.label_width : 0),
      own_loss(session.kernels, 1),
      accumulated_gradients(session.kernels, samples_per_pass(options) < options.batch
                                                 ? network.parameters().size()
                                                 : 0),
      checkpoints(options.checkpoint_dir, options.checkpoint_keep,
                  [&communicator = session.communicator,
                   check_may_commit = session.check_may_commit]() -> Result<> {
                    // If a collective has failed, the parameters may come from partial sums.
                    DLRUN_TRY(communicator.check_results());
                    return check_may_commit();
                  }),
      sum_over_ranks([this, &communicator = session.communicator](std::span<double> sums) {
        const Clock::time_point start = Clock::now();
        if (sum_status) sum_status = communicator.all_reduce(sums, ReduceOp::kSum);
        waited += Clock::now() - start;
      }) {}

Result<Layers<float>> Trainer::check_and_make_layers() const {
  const bool is_multi_label = data_.train.label_width > 1;
  if (is_multi_label != (options_.loss == Loss::kSigmoid)) {
    return fail(Errc::kUsage, "{}: {}", data_.source,
                is_multi_label
                    ? "its samples have a label of 0 or 1 for each class: they need --loss sigmoid"
                    : "its labels are classes that exclude each other: --loss sigmoid needs 0 or 1 "
                      "for each class");
  }
  DLRUN_TRY_ASSIGN(const auto layer_texts,
                   options_.layers.empty()
                       ? layer_texts_of(options_.model, options_.hidden_widths, classes_)
                       : Result<std::vector<std::string>>(options_.layers));
  const ImageShape image = image_shape(data_.train);
  if (options_.augmentation.rotates && image.height != image.width) {
    return fail(
        Errc::kUsage,
        "--augment rotate turns images by 90 degrees, but the images of {} are not square: {} x "
        "{} pixels",
        data_.source, image.height, image.width);
  }
  if (const std::size_t shift = options_.augmentation.max_shift_pixels;
      shift > 0 && (shift >= image.height || shift >= image.width)) {
    return fail(Errc::kUsage,
                "--augment shift {} must be smaller than the images of {} ({} x {} pixels)", shift,
                data_.source, image.height, image.width);
  }
  DLRUN_TRY_ASSIGN(auto layers, make_layers<float>(layer_texts, image, classes_));
  for (const auto& layer : layers) {
    if (layer->communicates() && samples_per_pass(options_) < options_.batch) {
      return fail(Errc::kUsage,
                  "--micro-batch {} of a batch of {}: batchnorm sync normalises whole batches; use "
                  "batchnorm, or no micro-batches",
                  options_.micro_batch, options_.batch);
    }
    if (layer->communicates() && options_.local_steps > 0) {
      return fail(
          Errc::kUsage,
          "--local-steps: batchnorm sync normalises the batches of all ranks; use batchnorm");
    }
  }
  return layers;
}

Result<> Trainer::build() {
  // Check first that all ranks have the same options. Otherwise only some ranks might fail in the
  // checks that follow, and the other ranks would wait for them.
  DLRUN_TRY(check_that_ranks_are_alike());
  DLRUN_TRY(count_samples_and_classes());
  DLRUN_TRY(check_shards());
  DLRUN_TRY_ASSIGN(auto layers, check_and_make_layers());
  DLRUN_TRY_ASSIGN(const auto optimizer_options, with_defaults(options_.optimizer));
  DLRUN_TRY_ASSIGN(auto optimizer, make_optimizer<float>(optimizer_options));
  DLRUN_TRY(check_parallelism(*optimizer));

  parts_ = std::make_unique<Parts>(options_, data_, session_, std::move(layers),
                                   std::move(optimizer), rank_samples_);
  Parts& p = *parts_;
  DLRUN_TRY(p.shared.status());
  const int size = session_.communicator.size();
  p.schedule = {options_.learning_rate,
                options_.lr_scaling,
                options_.lr_decay,
                options_.warmup_epochs,
                static_cast<double>(epochs_per_rank(options_.sharding, options_.epochs, size)),
                size,
                options_.lr_step_epochs,
                options_.lr_step_factor,
                options_.lr_power};
  p.uses_cuda_graphs =
      session_.kernels.captures_steps() && session_.communicator.name() == "single";
  DLRUN_TRY(agree(session_.communicator, session_.host, session_.kernels.synchronise()));
  report_setup();
  return {};
}

void Trainer::report_setup() {
  Parts& p = *parts_;
  const int size = session_.communicator.size();
  session_.reporter.note(fmt::format("data: {}; {} training and {} test samples", data_.source,
                                     train_samples_, data_.test.size()));
  if (p.train.is_streamed) {
    session_.reporter.note(
        fmt::format("data: {} MiB of training images do not fit into GPU memory; each batch is "
                    "copied to the GPU",
                    data_.train.images.size() >> 20U));
  }
  session_.reporter.note(fmt::format(
      "model: {}, {} parameters; optimizer {}, learning rate {:g}; batch {} x {} rank{}; {}; {}",
      p.network.description(), p.network.parameters().size(), options_.optimizer.name,
      learning_rate(p.schedule, options_.warmup_epochs), options_.batch, size, size == 1 ? "" : "s",
      session_.communicator.name(), session_.kernels.description()));
  if (session_.kernels.captures_steps()) {
    const bool needs_norms = options_.clip_norm > 0 || p.optimizer->needs_whole_tensors();
    session_.reporter.note(fmt::format(
        "CUDA graphs: {}",
        !p.uses_cuda_graphs
            ? fmt::format(
                  "not used: with backend {}, ranks exchange gradients within a step; CUDA graphs "
                  "are for one rank (--backend single)",
                  session_.communicator.name())
        : needs_norms ? "each step is one graph, up to the point where the host reads the gradient "
                        "norms"
                      : "each step is one graph"));
  }
  if (options_.local_steps > 0) {
    session_.reporter.note(fmt::format(
        "post-local SGD: after {:g} epochs each rank steps with its own gradients, and the ranks "
        "average their parameters every {} steps",
        options_.epochs_before_local_steps, options_.local_steps));
  }
}

}  // namespace dlrun::trainer
