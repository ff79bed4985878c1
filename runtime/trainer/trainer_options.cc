// The tables of flags, which the parser and the text of --help read, and the checks of combinations
// of flags.

#include "runtime/trainer/trainer_options.h"

#include <array>
#include <limits>
#include <string_view>
#include <vector>

#include "common/text.h"
#include "runtime/trainer/flags.h"
#include "runtime/trainer/train_flags.h"

namespace dlrun::trainer {
namespace {

constexpr std::array<FlagChoice<Precision>, 2> kPrecisions{
    {{name_of(Precision::kFloat32), Precision::kFloat32},
     {name_of(Precision::kBfloat16), Precision::kBfloat16}}};
constexpr std::array<FlagChoice<bool>, 2> kBooleans{{{"true", true}, {"false", false}}};

/// Converts a flag of TrainOptions to a flag of Options, which contains TrainOptions.
Flag<Options> flag_of_options(const Flag<TrainOptions>& flag) {
  return {flag.name,
          {flag.value.placeholder,
           [set = flag.value.set](Options& options, std::string_view value) {
             return set(options.train, value);
           },
           {}},
          flag.help};
}

std::vector<Flag<Options>> make_flags() {
  using O = Options;
  std::vector<Flag<O>> flags{
      {"--dataset",
       one_of_texts<O>(DLRUN_FIELD(data.dataset), "idx|mnist|cifar10|arrays|digits|patches"),
       "format of the files in --data; patches are always generated; digits are generated if "
       "--data is missing (digits)"},
      {"--data",
       {"DIR",
        [](O& o, std::string_view value) -> Result<> {
          o.data.path = value;
          return {};
        },
        {}},
       "folder of the files: idx, mnist, digits: train-images-idx3-ubyte[.gz] and three more; "
       "cifar10: data_batch_1.bin and five more; arrays: test.safetensors and train.safetensors, "
       "whole or in partitions"},
      {"--patch-size", whole<O>(DLRUN_FIELD(data.patch_size), 8, 1024),
       "height and width of generated patches in pixels (120)"},
      {"--train-samples", whole<O>(DLRUN_FIELD(data.train_samples), 0, kMostSamples),
       "train on the first N samples; 0: on all, or on 8000 generated digits or 2000 patches (0)"},
      {"--test-samples", whole<O>(DLRUN_FIELD(data.test_samples), 0, kMostSamples),
       "test on the first N samples; 0: on all, or on 2000 generated digits or 500 patches (0)"},
  };
  for (const Flag<TrainOptions>& flag : train_flags()) flags.push_back(flag_of_options(flag));
  const Flag<O> others[] = {
      {"--backend", one_of_texts<O>(DLRUN_FIELD(backend), "auto|mpi|gloo|shm|nccl|single"),
       "library by which ranks communicate (auto)"},
      {"--device", one_of_texts<O>(DLRUN_FIELD(device), "cpu|cuda"),
       "device that trains the model (cpu)"},
      {"--precision", one_of<O>(DLRUN_FIELD(precision), kPrecisions),
       "with --device cuda: type to which the inputs of products and convolutions are rounded; the "
       "rest is float32 (float32)"},
      {"--cuda-graphs", one_of<O>(DLRUN_FIELD(uses_cuda_graphs), kBooleans),
       "with --device cuda and one rank: sends each step to the GPU as one CUDA graph; the results "
       "are bit for bit the same (false)"},
      {"--threads", whole<O>(DLRUN_FIELD(threads), 1, 1024), "CPU threads of each rank (1)"},
      {"--metrics", path<O>("PATH", DLRUN_FIELD(metrics)),
       "file to which metrics are appended, one JSON object per line (metrics.jsonl in the run's "
       "directory; none without a run)"},
      {"--help", without_argument<O>(DLRUN_FIELD(wants_help)), "print this text"},
  };
  flags.insert(flags.end(), std::begin(others), std::end(others));
  return flags;
}

const std::vector<Flag<Options>>& flags() {
  static const std::vector<Flag<Options>> kFlags = make_flags();
  return kFlags;
}

const std::vector<Flag<DigitsOptions>>& digits_flags() {
  using O = DigitsOptions;
  static const std::vector<Flag<O>> kFlags{
      {"--out", path<O>("DIR", DLRUN_FIELD(out)), "folder for the files; created if it is missing"},
      {"--train", whole<O>(DLRUN_FIELD(train_samples), 1, kMostSamples), "training images (8000)"},
      {"--test", whole<O>(DLRUN_FIELD(test_samples), 1, kMostSamples), "test images (2000)"},
      {"--partitions", whole<O>(DLRUN_FIELD(partitions), 0, 100'000),
       "writes safetensors arrays, the training images in N files; 0: writes IDX files (0)"},
      {"--seed", whole<O>(DLRUN_FIELD(seed), 0, std::numeric_limits<std::int64_t>::max()),
       "seed of the generated images (1)"},
      {"--help", without_argument<O>(DLRUN_FIELD(wants_help)), "print this text"},
  };
  return kFlags;
}

}  // namespace

Result<Options> parse_options(std::span<const std::string> args, const Env& env) {
  Options options;
  const std::string run_dir = env.get_or("DLRUN_RUN", "");
  options.train.checkpoint_dir = "ckpt";
  if (!run_dir.empty()) options.metrics = std::filesystem::path(run_dir) / "metrics.jsonl";
  const std::int64_t attempt = parse_int(env.get_or("DLRUN_ATTEMPT", "0")).value_or(0);
  options.train.should_resume = attempt > 0;
  options.train.trace_prefix =
      std::filesystem::path(run_dir) / "trace" / fmt::format("attempt-{}", attempt);
  DLRUN_TRY(parse_into(options, args, flags()));
  options.data.seed = options.train.seed;
  // An absolute path replaces the run directory.
  options.train.checkpoint_dir = std::filesystem::path(run_dir) / options.train.checkpoint_dir;
  if (options.device == "cpu" && options.backend == "nccl") {
    return fail(Errc::kUsage,
                "--backend nccl needs --device cuda: NCCL reads the memory of GPUs only");
  }
  if (options.device == "cpu" && options.precision != Precision::kFloat32) {
    return fail(Errc::kUsage,
                "--precision {} needs --device cuda: products on the CPU are in float32",
                name_of(options.precision));
  }
  if (options.device == "cpu" && options.uses_cuda_graphs) {
    return fail(Errc::kUsage, "--cuda-graphs true needs --device cuda");
  }
  options.data.reads_own_partitions = options.train.sharding == Sharding::kFile;
  if (options.data.reads_own_partitions && options.data.dataset != "arrays") {
    return fail(Errc::kUsage, "--shard file needs --dataset arrays, but the dataset is {}",
                options.data.dataset);
  }
  if (options.data.reads_own_partitions && options.data.train_samples > 0) {
    return fail(Errc::kUsage, "--shard file reads whole files: remove --train-samples");
  }
  if (!options.train.layers.empty() &&
      (options.train.model != "mlp" ||
       options.train.hidden_widths != TrainOptions().hidden_widths)) {
    return fail(Errc::kUsage, "--layers describes the whole model; remove --model and --hidden");
  }
  if ((options.train.lr_decay == LrDecay::kStep) == options.train.lr_step_epochs.empty()) {
    return fail(Errc::kUsage, "--lr-decay step and --lr-steps N[,N...] need each other");
  }
  if (options.train.epochs_before_local_steps > 0 && options.train.local_steps == 0) {
    return fail(Errc::kUsage,
                "--local-after needs --local-steps N with N > 0; N is the number of steps between "
                "averages");
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
         "       dlrun-trainer collectives          measure all-reduce or another collective\n"
         "       dlrun-trainer preflight            check that the ranks' collectives work\n\n"
         "Defaults in parentheses. Ranks find each other as runtime/ENVIRONMENT.md says; SIGUSR1 "
         "saves a checkpoint.\n\n" +
         help_lines(flags());
}

std::string digits_help_text() {
  return "usage: dlrun-trainer digits --out DIR [OPTIONS]\n\nDefaults in parentheses.\n\n" +
         help_lines(digits_flags());
}

}  // namespace dlrun::trainer
