#include "runtime/trainer/train_flags.h"

#include <array>
#include <limits>

#include <fmt/format.h>

#include "runtime/trainer/nn/model.h"

namespace dlrun::trainer {
namespace {

using O = TrainOptions;

constexpr std::int64_t kMostTracedSteps = 100'000;  // a step needs about a kilobyte of memory
constexpr std::int64_t kLargestSize = 1 << 20;
constexpr double kLargestNumber = 1e9;
constexpr double kBelowOne = 0.999999999;

using Compression = GradientReducer::Compression;
constexpr std::array<FlagChoice<Loss>, 2> kLosses{
    {{"softmax", Loss::kSoftmax}, {"sigmoid", Loss::kSigmoid}}};
constexpr std::array<FlagChoice<bool>, 2> kOptimizerStates{{{"whole", false}, {"sharded", true}}};
constexpr std::array<FlagChoice<Compression>, 3> kCompressions{{{"none", Compression::kNone},
                                                                {"bf16", Compression::kBfloat16},
                                                                {"fp16", Compression::kFloat16}}};
constexpr std::array<FlagChoice<LrScaling>, 3> kLrScalings{
    {{"none", LrScaling::kNone}, {"linear", LrScaling::kLinear}, {"sqrt", LrScaling::kSqrt}}};
constexpr std::array<FlagChoice<LrDecay>, 5> kLrDecays{{{"constant", LrDecay::kConstant},
                                                        {"linear", LrDecay::kLinear},
                                                        {"cosine", LrDecay::kCosine},
                                                        {"step", LrDecay::kStep},
                                                        {"polynomial", LrDecay::kPolynomial}}};
constexpr std::array<FlagChoice<Sharding>, 3> kShardings{
    {{"sample", Sharding::kSample}, {"file", Sharding::kFile}, {"epoch", Sharding::kEpoch}}};

Result<> set_hidden(O& options, std::string_view value) {
  options.hidden_widths.clear();
  for (const std::string_view part : split(value, ',')) {
    DLRUN_TRY_ASSIGN(const auto width, parse_whole_number(part, 1, kLargestSize));
    options.hidden_widths.push_back(static_cast<std::size_t>(width));
  }
  return {};
}

Result<> set_layers(O& options, std::string_view value) {
  options.layers.clear();
  for (const std::string_view layer : split(value, ',')) options.layers.emplace_back(trim(layer));
  return {};
}

Result<> set_lr_step_epochs(O& options, std::string_view value) {
  options.lr_step_epochs.clear();
  for (const std::string_view part : split(value, ',')) {
    DLRUN_TRY_ASSIGN(const auto epoch, parse_whole_number(part, 1, kMostEpochs));
    if (!options.lr_step_epochs.empty() &&
        static_cast<double>(epoch) <= options.lr_step_epochs.back()) {
      return fail(Errc::kUsage, "expected ascending epochs, got {} after {:g}", epoch,
                  options.lr_step_epochs.back());
    }
    options.lr_step_epochs.push_back(static_cast<double>(epoch));
  }
  return {};
}

Result<> set_augmentation(O& options, std::string_view value) {
  DLRUN_TRY_ASSIGN(options.augmentation, parse_augmentation(value));
  return {};
}

/// Makes a flag's value: a list, separated by commas.
template <typename Field>
FlagValue<O> list(std::string_view placeholder, Field field,
                  Result<> (*set)(O&, std::string_view)) {
  return {std::string(placeholder), set,
          [=](const O& options) { return fmt::format("{}", fmt::join(field(options), ",")); }};
}

/// Flags of the network and its loss.
std::vector<Flag<O>> model_flags() {
  return {
      {"--model", one_of_texts<O>(DLRUN_FIELD(model), model_names()),
       "mlp: dense layers with ReLU; cnn: 3x3 convolutions of 32 and 64, maxpool, dropout, dense "
       "128; resnet18: for images of 25 to 32 pixels; resnet50, efficientnet-b0: for images of any "
       "size (mlp)"},
      {"--hidden", list("N[,N...]", DLRUN_FIELD(hidden_widths), set_hidden),
       "widths of mlp's hidden layers (512)"},
      {"--layers", list("LAYER[,LAYER...]", DLRUN_FIELD(layers), set_layers),
       "your own model: 'conv2d 16 5 stride 2,relu,maxpool 2,dropout 0.5,dense 10'"},
      {"--loss", one_of<O>(DLRUN_FIELD(loss), kLosses),
       "softmax: a label is one of several classes; sigmoid: 0 or 1 for each class (softmax)"},
  };
}

/// Flags of the update rule.
std::vector<Flag<O>> optimizer_flags() {
  return {
      {"--optimizer", one_of_texts<O>(DLRUN_FIELD(optimizer.name), optimizer_names()),
       "update rule (adam)"},
      {"--momentum", number<O>(DLRUN_FIELD(optimizer.momentum), 0, 1),
       "sgd, nesterov, lars: momentum (0.9); rmsprop: momentum (0)"},
      {"--weight-decay", number<O>(DLRUN_FIELD(optimizer.weight_decay), 0, kLargestNumber),
       "weight decay (0; lars 1e-4; adamw and lamb 0.01): X times the parameter is added to the "
       "gradient; with novograd, to the normalised gradient; with adamw, lamb and lion, to the "
       "step"},
      {"--beta1", number<O>(DLRUN_FIELD(optimizer.beta1), 0, kBelowOne),
       "adam, adamw, lamb, novograd, lion: decay rate of the mean gradient (0.9; novograd 0.95)"},
      {"--beta2", number<O>(DLRUN_FIELD(optimizer.beta2), 0, kBelowOne),
       "adam, adamw, lamb, novograd: decay rate of the mean square (0.999; novograd 0.98); lion: "
       "decay rate of the momentum (0.99)"},
      {"--epsilon", number<O>(DLRUN_FIELD(optimizer.epsilon), 0, 1),
       "adam, adamw, lamb, novograd, rmsprop: added to the divisor (1e-8; lamb 1e-6)"},
      {"--alpha", number<O>(DLRUN_FIELD(optimizer.alpha), 0, kBelowOne),
       "rmsprop: decay rate of the mean square (0.99)"},
      {"--trust", number<O>(DLRUN_FIELD(optimizer.trust), 0, kLargestNumber),
       "lars: trust coefficient (0.001)"},
      {"--optimizer-state", one_of<O>(DLRUN_FIELD(has_sharded_state), kOptimizerStates),
       "whole: each rank keeps the whole state; sharded: only its part (ZeRO-1) (whole)"},
  };
}

/// Flags of the exchange of gradients.
std::vector<Flag<O>> exchange_flags() {
  return {
      {"--local-steps", whole<O>(DLRUN_FIELD(local_steps), 0, kMostSamples),
       "post-local SGD: each rank uses its own gradients, and the ranks average their parameters "
       "every N steps; 0: the ranks average the gradients of each step (0)"},
      {"--local-after", number<O>(DLRUN_FIELD(epochs_before_local_steps), 0, kLargestNumber),
       "with --local-steps: number of epochs before the local steps begin (0)"},
      {"--compression", one_of<O>(DLRUN_FIELD(bucket_options.compression), kCompressions),
       "ranks send and add gradients in 16 bits (none)"},
      {"--clip-norm", number<O>(DLRUN_FIELD(clip_norm), 0, kLargestNumber),
       "largest global norm of the gradients; 0: no limit (0)"},
  };
}

/// Flags of the learning rate.
std::vector<Flag<O>> learning_rate_flags() {
  return {
      {"--lr", number<O>(DLRUN_FIELD(learning_rate), 0, kLargestNumber),
       "learning rate, before --lr-scaling (0.001)"},
      {"--lr-scaling", one_of<O>(DLRUN_FIELD(lr_scaling), kLrScalings),
       "growth of the learning rate with the number of ranks (none)"},
      {"--lr-decay", one_of<O>(DLRUN_FIELD(lr_decay), kLrDecays),
       "decay of the learning rate over the run (linear)"},
      {"--lr-steps", list("N[,N...]", DLRUN_FIELD(lr_step_epochs), set_lr_step_epochs),
       "--lr-decay step: epochs after which the learning rate falls, ascending"},
      {"--lr-step-factor", number<O>(DLRUN_FIELD(lr_step_factor), 0, 1),
       "--lr-decay step: factor of the learning rate at each of --lr-steps (0.1)"},
      {"--lr-power", number<O>(DLRUN_FIELD(lr_power), 0, 100),
       "--lr-decay polynomial: exponent X of (1 - t)^X, where t rises from 0 after the warmup to 1 "
       "at the end (2)"},
      {"--warmup-epochs", number<O>(DLRUN_FIELD(warmup_epochs), 0, kLargestNumber),
       "epochs in which the learning rate rises to its full value: from --lr if --lr-scaling is "
       "linear or sqrt, else from 0 (0)"},
  };
}

/// Flags of the loop over the data, checkpoints and traces.
std::vector<Flag<O>> loop_flags() {
  return {
      {"--batch", whole<O>(DLRUN_FIELD(batch), 1, kLargestSize),
       "samples of each rank in a step (32)"},
      {"--micro-batch", whole<O>(DLRUN_FIELD(micro_batch), 0, kLargestSize),
       "samples that a rank computes together; the step accumulates the gradients; 0: all (0)"},
      {"--epochs", whole<O>(DLRUN_FIELD(epochs), 1, kMostEpochs), "passes over the data (4)"},
      {"--augment",
       {"WORD[,WORD...]", set_augmentation,
        [](const O& options) { return to_text(options.augmentation); }},
       "random changes of training images, new ones in each epoch: flip (left and right), rotate "
       "(by 90 degrees), shift [PIXELS] (4) (none)"},
      {"--seed", whole<O>(DLRUN_FIELD(seed), 0, std::numeric_limits<std::int64_t>::max()),
       "seed of the initial values, the order of samples and the generated data (1)"},
      {"--shard", one_of<O>(DLRUN_FIELD(sharding), kShardings),
       "sample: ranks share the samples of each epoch; file: each rank reads its own partitions; "
       "epoch: the epochs are divided among the ranks (sample)"},
      {"--checkpoint-dir", path<O>("DIR", DLRUN_FIELD(checkpoint_dir)),
       "folder of the checkpoints, in the run's directory (without a run: in the working "
       "directory) (ckpt)",
       true},
      {"--checkpoint-every", whole<O>(DLRUN_FIELD(checkpoint_every), 0, kMostSamples),
       "steps between checkpoints, with one more at the end of the run; 0: one at the end of each "
       "epoch (0)"},
      {"--checkpoint-keep", whole<O>(DLRUN_FIELD(checkpoint_keep), 0, kMostEpochs),
       "number of newest checkpoints to keep; 0: save none (3)"},
      {"--resume", without_argument<O>(DLRUN_FIELD(should_resume)),
       "continue from the newest valid checkpoint (a later attempt of a run always does)"},
      {"--trace-steps", whole<O>(DLRUN_FIELD(trace_steps), 0, kMostTracedSteps),
       "writes a timeline of the first N steps into trace/ of the run's directory (without a "
       "run: of the working directory), for ui.perfetto.dev or chrome://tracing (0)"},
  };
}

}  // namespace

const std::vector<Flag<TrainOptions>>& train_flags() {
  static const std::vector<Flag<O>> kFlags = [] {
    std::vector<Flag<O>> all;
    for (auto&& part :
         {model_flags(), optimizer_flags(), exchange_flags(), learning_rate_flags(), loop_flags()})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return kFlags;
}

}  // namespace dlrun::trainer
