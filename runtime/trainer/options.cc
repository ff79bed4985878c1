// Parses the command line with tables of flags. A table also gives the text of --help, so
// each flag is described once.

#include "runtime/trainer/options.h"

#include <functional>
#include <limits>
#include <string_view>
#include <vector>

#include "common/text.h"

namespace dlrun::trainer {
namespace {

constexpr std::int64_t kMostSamples = std::numeric_limits<std::uint32_t>::max();
constexpr std::int64_t kMostEpochs = 1'000'000;
constexpr std::int64_t kMostTraced = 100'000;  // steps; a step takes about a kilobyte
constexpr std::int64_t kWidest = 1 << 20;

/// A command-line flag: its line in --help, and how it changes the options O. A flag without a
/// placeholder ignores its value.
template <typename O>
struct Flag {
  std::string_view name;
  std::string_view placeholder;
  std::string_view help;
  std::function<Result<>(O&, std::string_view)> set;
};

Result<std::int64_t> whole_number(std::string_view value, std::int64_t low, std::int64_t high) {
  const auto number = parse_int(value);
  if (!number || *number < low || *number > high) {
    return fail(Errc::kUsage, "expected a whole number from {} to {}, got '{}'", low, high,
                printable(value));
  }
  return *number;
}

/// Returns a setter that stores a whole number in [low, high].
template <typename O, typename Get>
auto number(Get field, std::int64_t low, std::int64_t high) {
  return [=](O& options, std::string_view value) -> Result<> {
    const auto parsed = whole_number(value, low, high);
    if (!parsed) return tl::unexpected(parsed.error());
    auto& target = field(options);
    target = static_cast<std::remove_reference_t<decltype(target)>>(*parsed);
    return {};
  };
}

template <typename Get>
auto real(Get field, double low, double high) {
  return [=](Options& options, std::string_view value) -> Result<> {
    const auto parsed = parse_double(value);
    if (!parsed || *parsed < low || *parsed > high) {
      return fail(Errc::kUsage, "expected a number from {:g} to {:g}, got '{}'", low, high,
                  printable(value));
    }
    field(options) = *parsed;
    return {};
  };
}

/// Returns a setter for one of a few words. parse() returns the value of a word, or nothing.
template <typename Get, typename Parse>
auto one_of(Get field, Parse parse, std::string_view words) {
  return [=](Options& options, std::string_view value) -> Result<> {
    const auto parsed = parse(value);
    if (!parsed) return fail(Errc::kUsage, "expected one of {}, got '{}'", words, printable(value));
    field(options) = *parsed;
    return {};
  };
}

auto word_in(std::string_view words) {
  return [=](std::string_view value) -> std::optional<std::string> {
    for (const std::string_view word : split(words, '|')) {
      if (word == value) return std::string(value);
    }
    return std::nullopt;
  };
}

std::optional<Sharding> parse_sharding(std::string_view value) {
  if (value == "sample") return Sharding::kSample;
  if (value == "file") return Sharding::kFile;
  if (value == "epoch") return Sharding::kEpoch;
  return std::nullopt;
}

std::optional<GradientReducer::Compression> parse_compression(std::string_view value) {
  if (value == "none") return GradientReducer::Compression::kNone;
  if (value == "bf16") return GradientReducer::Compression::kBfloat16;
  if (value == "fp16") return GradientReducer::Compression::kFloat16;
  return std::nullopt;
}

/// Parses whether the optimizer's state is sharded.
std::optional<bool> parse_state(std::string_view value) {
  if (value == "whole") return false;
  if (value == "sharded") return true;
  return std::nullopt;
}

std::optional<Precision> parse_precision(std::string_view value) {
  for (const Precision precision : {Precision::kFloat32, Precision::kBfloat16}) {
    if (name_of(precision) == value) return precision;
  }
  return std::nullopt;
}

std::optional<bool> parse_truth(std::string_view value) {
  if (value == "true") return true;
  if (value == "false") return false;
  return std::nullopt;
}

std::optional<Loss> parse_loss(std::string_view value) {
  if (value == "softmax") return Loss::kSoftmax;
  if (value == "sigmoid") return Loss::kSigmoid;
  return std::nullopt;
}

Result<> set_hidden(Options& options, std::string_view value) {
  options.train.hidden.clear();
  for (const std::string_view part : split(value, ',')) {
    const auto width = whole_number(part, 1, kWidest);
    if (!width) return tl::unexpected(width.error());
    options.train.hidden.push_back(static_cast<std::size_t>(*width));
  }
  return {};
}

Result<> set_lr_steps(Options& options, std::string_view value) {
  options.train.lr_steps.clear();
  for (const std::string_view part : split(value, ',')) {
    const auto epoch = whole_number(part, 1, kMostEpochs);
    if (!epoch) return tl::unexpected(epoch.error());
    if (!options.train.lr_steps.empty() &&
        static_cast<double>(*epoch) <= options.train.lr_steps.back()) {
      return fail(Errc::kUsage, "expected ascending epochs, got {} after {:g}", *epoch,
                  options.train.lr_steps.back());
    }
    options.train.lr_steps.push_back(static_cast<double>(*epoch));
  }
  return {};
}

template <typename O>
auto path(std::filesystem::path O::*member) {
  return [=](O& options, std::string_view value) -> Result<> {
    if (value.empty()) return fail(Errc::kUsage, "expected a path");
    options.*member = value;
    return {};
  };
}

const std::vector<Flag<Options>>& flags() {
  using O = Options;
  static constexpr double kLargest = 1e9;
  static constexpr double kBelowOne = 0.999999999;
  static const std::vector<Flag<O>> kFlags{
      {"--dataset", "idx|mnist|cifar10|arrays|digits",
       "what --data holds; digits are drawn in memory when there is no --data (digits)",
       one_of(
           [](O & o) -> auto& { return o.data.dataset; },
           word_in("idx|mnist|cifar10|arrays|digits"), "idx|mnist|cifar10|arrays|digits")},
      {"--data", "DIR",
       "folder with train-images-idx3-ubyte[.gz] and its three companions; data_batch_1.bin and "
       "its five; or "
       "test.safetensors and train.safetensors, in whole or in partitions",
       [](O& o, std::string_view value) -> Result<> {
         o.data.path = value;
         return {};
       }},
      {"--train-samples", "N", "train on the first N samples only; 0: all (0)",
       number<O>(
           [](O & o) -> auto& { return o.data.train_samples; }, 0, kMostSamples)},
      {"--test-samples", "N", "test on the first N samples only; 0: all (0)",
       number<O>(
           [](O & o) -> auto& { return o.data.test_samples; }, 0, kMostSamples)},
      {"--model", "mlp|cnn|resnet18",
       "dense layers with ReLU; 3x3 convolutions of 32 and 64, maxpool, dropout, dense 128; "
       "ResNet-18 for images of 25 "
       "to 32 pixels (mlp)",
       one_of(
           [](O & o) -> auto& { return o.train.model; }, word_in("mlp|cnn|resnet18"),
           "mlp|cnn|resnet18")},
      {"--hidden", "N[,N...]", "widths of mlp's hidden layers (512)", set_hidden},
      {"--layers", "LAYER[,LAYER...]",
       "any other model: 'conv2d 16 5 stride 2,relu,maxpool 2,dropout 0.5,dense 10'",
       [](O& o, std::string_view value) -> Result<> {
         o.train.layers.clear();
         for (const std::string_view layer : split(value, ','))
           o.train.layers.emplace_back(trim(layer));
         return {};
       }},
      {"--loss", "softmax|sigmoid",
       "labels are one class of several, or 0 or 1 for each class (softmax)",
       one_of(
           [](O & o) -> auto& { return o.train.loss; }, parse_loss, "softmax|sigmoid")},
      {"--optimizer", optimizer_names(), "update rule (adam)",
       one_of(
           [](O & o) -> auto& { return o.train.optimizer.name; }, word_in(optimizer_names()),
           optimizer_names())},
      {"--momentum", "X", "of sgd, nesterov and lars (0.9), and rmsprop (0)",
       real(
           [](O & o) -> auto& { return o.train.optimizer.momentum; }, 0, 1)},
      {"--weight-decay", "X",
       "X times the parameter, added to the gradient (0; lars 1e-4); adamw and lamb: to the step "
       "(0.01)",
       real(
           [](O & o) -> auto& { return o.train.optimizer.weight_decay; }, 0, kLargest)},
      {"--beta1", "X", "of adam, adamw and lamb: what the mean gradient keeps of itself (0.9)",
       real(
           [](O & o) -> auto& { return o.train.optimizer.beta1; }, 0, kBelowOne)},
      {"--beta2", "X", "what their mean square keeps (0.999)",
       real(
           [](O & o) -> auto& { return o.train.optimizer.beta2; }, 0, kBelowOne)},
      {"--epsilon", "X", "added where they and rmsprop divide (1e-8; lamb 1e-6)",
       real(
           [](O & o) -> auto& { return o.train.optimizer.epsilon; }, 0, 1)},
      {"--alpha", "X", "of rmsprop: what the mean square keeps (0.99)",
       real(
           [](O & o) -> auto& { return o.train.optimizer.alpha; }, 0, kBelowOne)},
      {"--trust", "X", "of lars: its coefficient (0.001)",
       real(
           [](O & o) -> auto& { return o.train.optimizer.trust; }, 0, kLargest)},
      {"--optimizer-state", "whole|sharded",
       "each rank keeps all of its arrays, or its part of them only: ZeRO-1 (whole)",
       one_of(
           [](O & o) -> auto& { return o.train.has_sharded_state; }, parse_state, "whole|sharded")},
      {"--local-steps", "N",
       "post-local SGD: ranks step by their own gradients and average their parameters every N "
       "steps; 0: the gradients "
       "of each step are averaged (0)",
       number<O>(
           [](O & o) -> auto& { return o.train.local_steps; }, 0, kMostSamples)},
      {"--local-after", "X", "with --local-steps: after X epochs of common steps (0)",
       real(
           [](O & o) -> auto& { return o.train.local_after; }, 0, kLargest)},
      {"--compression", "none|bf16|fp16", "gradients travel and are added in 16 bits (none)",
       one_of(
           [](O & o) -> auto& { return o.train.buckets.compression; }, parse_compression,
           "none|bf16|fp16")},
      {"--clip-norm", "X", "hold the gradients' global norm to X; 0: leave it (0)",
       real(
           [](O & o) -> auto& { return o.train.clip_norm; }, 0, kLargest)},
      {"--lr", "X", "learning rate of one rank (0.001)",
       real(
           [](O & o) -> auto& { return o.train.learning_rate; }, 0, kLargest)},
      {"--lr-scaling", "none|linear|sqrt", "how it grows with the number of ranks (none)",
       one_of(
           [](O & o) -> auto& { return o.train.lr_scaling; }, parse_lr_scaling,
           "none|linear|sqrt")},
      {"--lr-decay", "WORD",
       "how it falls over the run: constant|linear|cosine|step|polynomial (linear)",
       one_of(
           [](O & o) -> auto& { return o.train.lr_decay; }, parse_lr_decay,
           "constant|linear|cosine|step|polynomial")},
      {"--lr-steps", "N[,N...]", "step: the epochs after which it falls, ascending", set_lr_steps},
      {"--lr-step-factor", "X", "step: by what it is multiplied there (0.1)",
       real(
           [](O & o) -> auto& { return o.train.lr_step_factor; }, 0, 1)},
      {"--lr-power", "X", "polynomial: the power of the part of the run that is left (2)",
       real(
           [](O & o) -> auto& { return o.train.lr_power; }, 0, 100)},
      {"--warmup-epochs", "X",
       "it first rises over X epochs: from --lr to the scaled rate, unscaled from 0 (0)",
       real(
           [](O & o) -> auto& { return o.train.warmup_epochs; }, 0, kLargest)},
      {"--batch", "N", "samples of a step on each rank (32)",
       number<O>(
           [](O & o) -> auto& { return o.train.batch; }, 1, kWidest)},
      {"--micro-batch", "N",
       "at most so many of them at once; gradients are accumulated; 0: all (0)",
       number<O>(
           [](O & o) -> auto& { return o.train.micro_batch; }, 0, kWidest)},
      {"--epochs", "N", "passes over the data (4)",
       number<O>(
           [](O & o) -> auto& { return o.train.epochs; }, 1, kMostEpochs)},
      {"--seed", "N", "of first values, order of samples and drawn digits (1)",
       [](O& o, std::string_view value) -> Result<> {
         const auto seed = whole_number(value, 0, std::numeric_limits<std::int64_t>::max());
         if (!seed) return tl::unexpected(seed.error());
         o.train.seed = o.data.seed = static_cast<std::uint64_t>(*seed);
         return {};
       }},
      {"--shard", "sample|file|epoch",
       "ranks share each epoch's samples; each reads partitions of its own; or they share the "
       "epochs (sample)",
       one_of(
           [](O & o) -> auto& { return o.train.sharding; }, parse_sharding, "sample|file|epoch")},
      {"--backend", "auto|mpi|gloo|shm|nccl|single", "how ranks communicate (auto)",
       one_of(
           [](O & o) -> auto& { return o.backend; }, word_in("auto|mpi|gloo|shm|nccl|single"),
           "auto|mpi|gloo|shm|nccl|single")},
      {"--device", "cpu|cuda", "where the model lies (cpu)",
       one_of(
           [](O & o) -> auto& { return o.device; }, word_in("cpu|cuda"), "cpu|cuda")},
      {"--precision", "float32|bf16",
       "with --device cuda: what the inputs of products and convolutions are rounded to; all else "
       "is float32 (float32)",
       one_of(
           [](O & o) -> auto& { return o.precision; }, parse_precision, "float32|bf16")},
      {"--cuda-graphs", "true|false",
       "with --device cuda and one rank: a step's operations go to the GPU as one; the same bits "
       "(false)",
       one_of(
           [](O & o) -> auto& { return o.has_cuda_graphs; }, parse_truth, "true|false")},
      {"--threads", "N", "of each rank on the CPU (1)",
       number<O>(
           [](O & o) -> auto& { return o.threads; }, 1, 1024)},
      {"--checkpoint-dir", "DIR",
       "below the run's directory, else the working directory, or absolute (ckpt)",
       [](O& o, std::string_view value) -> Result<> {
         if (value.empty()) return fail(Errc::kUsage, "expected a path");
         o.train.checkpoint_dir = value;
         return {};
       }},
      {"--checkpoint-every", "N", "steps between checkpoints; 0: one at the end of each epoch (0)",
       number<O>(
           [](O & o) -> auto& { return o.train.checkpoint_every; }, 0, kMostSamples)},
      {"--checkpoint-keep", "N", "how many of the newest stay; 0: save none (3)",
       number<O>(
           [](O & o) -> auto& { return o.train.checkpoint_keep; }, 0, kMostEpochs)},
      {"--resume", "",
       "go on from the newest valid checkpoint (a later attempt of a run does so by itself)",
       [](O& o, std::string_view) -> Result<> {
         o.train.resume = true;
         return {};
       }},
      {"--metrics", "PATH",
       "append metrics here, one JSON object a line (metrics.jsonl in the run's directory, else "
       "none)",
       [](O& o, std::string_view value) -> Result<> {
         if (value.empty()) return fail(Errc::kUsage, "expected a path");
         o.metrics = value;
         return {};
       }},
      {"--trace-steps", "N",
       "a timeline of the first N steps in trace/ of the run's directory, else of the working "
       "directory, for "
       "ui.perfetto.dev or chrome://tracing (0)",
       number<O>(
           [](O & o) -> auto& { return o.train.trace_steps; }, 0, kMostTraced)},
      {"--help", "", "this text",
       [](O& o, std::string_view) -> Result<> {
         o.wants_help = true;
         return {};
       }},
  };
  return kFlags;
}

const std::vector<Flag<DigitsOptions>>& digits_flags() {
  using O = DigitsOptions;
  static const std::vector<Flag<O>> kFlags{
      {"--out", "DIR", "folder for the four files; made if missing", path(&O::out)},
      {"--train", "N", "training images (8000)",
       number<O>(
           [](O & o) -> auto& { return o.train_samples; }, 1, kMostSamples)},
      {"--test", "N", "test images (2000)",
       number<O>(
           [](O & o) -> auto& { return o.test_samples; }, 1, kMostSamples)},
      {"--partitions", "N",
       "safetensors arrays instead of IDX, the training images in N files; 0: IDX (0)",
       number<O>(
           [](O & o) -> auto& { return o.partitions; }, 0, 100'000)},
      {"--seed", "N", "other images for another seed (1)",
       number<O>(
           [](O & o) -> auto& { return o.seed; }, 0, std::numeric_limits<std::int64_t>::max())},
      {"--help", "", "this text",
       [](O& o, std::string_view) -> Result<> {
         o.wants_help = true;
         return {};
       }},
  };
  return kFlags;
}

/// Sets the options from args: "--name value" or "--name=value".
template <typename O>
Result<> parse_into(O& options, std::span<const std::string> args,
                    const std::vector<Flag<O>>& table) {
  for (std::size_t i = 0; i < args.size(); ++i) {
    std::string_view word = args[i];
    std::optional<std::string_view> value;
    if (const std::size_t equals = word.find('=');
        word.starts_with("--") && equals != std::string_view::npos) {
      value = word.substr(equals + 1);
      word = word.substr(0, equals);
    }
    if (word == "-h") word = "--help";
    const Flag<O>* found = nullptr;
    std::vector<std::string_view> names;
    for (const Flag<O>& flag : table) {
      if (flag.name == word) found = &flag;
      names.push_back(flag.name);
    }
    if (found == nullptr) {
      const auto near = nearest(word, names);
      return fail(Errc::kUsage, "unknown option '{}'{}; --help lists all", printable(word),
                  near ? fmt::format("; did you mean '{}'?", *near) : "");
    }
    if (found->placeholder.empty() && value) return fail(Errc::kUsage, "{} takes no value", word);
    if (!found->placeholder.empty() && !value) {
      if (++i == args.size())
        return fail(Errc::kUsage, "{} needs a value: {}", word, found->placeholder);
      value = args[i];
    }
    if (auto set = found->set(options, value.value_or("")); !set) return within(word, set.error());
  }
  return {};
}

template <typename O>
std::string describe(const std::vector<Flag<O>>& table) {
  std::string text;
  for (const Flag<O>& flag : table) {
    text += fmt::format(
        "  {:<42} {}\n",
        fmt::format("{}{}{}", flag.name, flag.placeholder.empty() ? "" : " ", flag.placeholder),
        flag.help);
  }
  return text;
}

}  // namespace

Result<Options> parse_options(std::span<const std::string> args, const Env& env) {
  Options options;
  const std::string run = env.get_or("DLRUN_RUN", "");
  options.train.checkpoint_dir = "ckpt";
  if (!run.empty()) options.metrics = std::filesystem::path(run) / "metrics.jsonl";
  const std::int64_t attempt = parse_int(env.get_or("DLRUN_ATTEMPT", "0")).value_or(0);
  options.train.resume = attempt > 0;
  options.train.trace_prefix =
      std::filesystem::path(run) / "trace" / fmt::format("attempt-{}", attempt);
  DLRUN_TRY(parse_into(options, args, flags()));
  // An absolute path replaces the run directory.
  options.train.checkpoint_dir = std::filesystem::path(run) / options.train.checkpoint_dir;
  if (options.device == "cpu" && options.backend == "nccl") {
    return fail(Errc::kUsage,
                "--backend nccl needs --device cuda: NCCL reads the memory of GPUs only");
  }
  if (options.device == "cpu" && options.precision != Precision::kFloat32) {
    return fail(Errc::kUsage,
                "--precision {} needs --device cuda: products on the CPU are in float32",
                name_of(options.precision));
  }
  if (options.device == "cpu" && options.has_cuda_graphs) {
    return fail(Errc::kUsage, "--cuda-graphs true needs --device cuda");
  }
  options.data.is_by_file = options.train.sharding == Sharding::kFile;
  if (options.data.is_by_file &&
      (options.data.dataset != "arrays" || options.data.train_samples > 0)) {
    return fail(Errc::kUsage,
                "--shard file needs --dataset arrays, and takes whole files: no --train-samples");
  }
  if (!options.train.layers.empty() &&
      (options.train.model != "mlp" || options.train.hidden != TrainOptions().hidden)) {
    return fail(Errc::kUsage,
                "--layers is the whole model: --model and --hidden have no part in it");
  }
  if ((options.train.lr_decay == LrDecay::kStep) == options.train.lr_steps.empty()) {
    return fail(Errc::kUsage, "--lr-decay step and --lr-steps EPOCHS go together");
  }
  if (options.train.local_after > 0 && options.train.local_steps == 0) {
    return fail(Errc::kUsage, "--local-after needs --local-steps, the steps between averages");
  }
  return options;
}

Result<DigitsOptions> parse_digits_options(std::span<const std::string> args) {
  DigitsOptions options;
  DLRUN_TRY(parse_into(options, args, digits_flags()));
  if (!options.wants_help && options.out.empty()) return fail(Errc::kUsage, "--out DIR is needed");
  if (options.partitions > options.train_samples) {
    return fail(Errc::kUsage, "--partitions {}: more than the {} training images",
                options.partitions, options.train_samples);
  }
  return options;
}

std::string help_text() {
  return "usage: dlrun-trainer [OPTIONS]            train, as one rank of a job or alone\n"
         "       dlrun-trainer digits --out DIR     write generated digits as IDX files or arrays\n"
         "       dlrun-trainer collectives          measure all-reduce and its companions\n"
         "       dlrun-trainer preflight            check that all ranks find each other, as "
         "before a job\n\n"
         "Defaults in parentheses. Ranks find each other as runtime/ENVIRONMENT.md says; SIGUSR1 "
         "saves a "
         "checkpoint.\n\n" +
         describe(flags());
}

std::string digits_help_text() {
  return "usage: dlrun-trainer digits --out DIR [OPTIONS]\n\nDefaults in parentheses.\n\n" +
         describe(digits_flags());
}

}  // namespace dlrun::trainer
