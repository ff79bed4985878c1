#include "runtime/trainer/trainer_options.h"

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "common/text.h"
#include "launcher/spec/spec_keys.h"

namespace dlrun::trainer {
namespace {

using Words = std::vector<std::string>;

std::string message_of(const Words& words) {
  const auto options = parse_options(words, Env());
  return options ? "" : options.error().message;
}

/// Returns the values that --help lists for a flag: {"sgd", "adam"} of "--optimizer sgd|adam",
/// {"N"} of "--batch N". Returns an empty set if --help does not list the flag.
std::set<std::string> values_of_flag(std::string_view flag) {
  const std::string help = help_text();
  const auto at = help.find(fmt::format("  {} ", flag));
  if (at == std::string::npos) return {};
  const auto rest = trim(std::string_view(help).substr(at + 2 + flag.size()));
  std::set<std::string> values;
  for (const auto word : split(rest.substr(0, rest.find_first_of(" \n")), '|'))
    values.emplace(word);
  return values;
}

}  // namespace

TEST_CASE(
    "the trainer has the flag and the choices of every spec key that is passed to it as a flag") {
  int choice_key_count = 0;
  for (const KeyRow& row : spec_keys()) {
    if (!row.path.starts_with("train.") || row.option.name.empty()) continue;
    CAPTURE(row.path);
    const auto values = values_of_flag(row.option.name);
    CHECK_FALSE(values.empty());
    if (row.format != Format::kChoice) continue;
    std::set<std::string> choices;
    for (const auto word : split(row.choices, ' ')) choices.emplace(word);
    CHECK(choices == values);
    ++choice_key_count;
  }
  CHECK(choice_key_count > 10);
}

TEST_CASE("--cuda-graphs true needs --device cuda") {
  CHECK(parse_options(Words{"--device", "cuda", "--cuda-graphs", "true"}, Env())->uses_cuda_graphs);
  CHECK_FALSE(parse_options(Words{"--device", "cuda"}, Env())->uses_cuda_graphs);
  CHECK(parse_options(Words{"--cuda-graphs", "false"}, Env()).has_value());
  CHECK(message_of({"--cuda-graphs", "true"}) == "--cuda-graphs true needs --device cuda");
  CHECK(message_of({"--cuda-graphs", "yes"}) ==
        "--cuda-graphs: expected one of true|false, got 'yes'");
}

TEST_CASE("--precision bf16 needs --device cuda") {
  const Words words{"--device", "cuda", "--precision", "bf16"};
  REQUIRE(parse_options(words, Env()).has_value());
  CHECK(parse_options(words, Env())->precision == Precision::kBfloat16);
  CHECK(parse_options(Words{"--device", "cuda"}, Env())->precision == Precision::kFloat32);
  CHECK(parse_options(Words{"--precision", "float32"}, Env()).has_value());
  CHECK(message_of({"--precision", "bf16"}) ==
        "--precision bf16 needs --device cuda: products on the CPU are in float32");
  CHECK(message_of({"--precision", "fp16"}) ==
        "--precision: expected one of float32|bf16, got 'fp16'");
}

TEST_CASE("the flags of the trainer are parsed, with the value as the next word or after '='") {
  const Words words{"--dataset", "mnist",
                    "--data=/d", "--train-samples",
                    "10",        "--test-samples",
                    "5",         "--model",
                    "mlp",       "--hidden",
                    "64,32",     "--optimizer",
                    "sgd",       "--momentum",
                    "0.5",       "--weight-decay",
                    "1e-4",      "--lr",
                    "0.05",      "--lr-scaling",
                    "sqrt",      "--lr-decay",
                    "cosine",    "--warmup-epochs",
                    "0.5",       "--batch",
                    "16",        "--epochs",
                    "3",         "--seed",
                    "9",         "--shard",
                    "epoch",     "--backend",
                    "gloo",      "--device",
                    "cpu",       "--threads",
                    "2",         "--checkpoint-dir",
                    "/c",        "--checkpoint-every",
                    "100",       "--checkpoint-keep",
                    "2",         "--resume",
                    "--metrics", "/m"};
  const auto options = parse_options(words, Env());
  REQUIRE(options.has_value());
  CHECK(options->data.dataset == "mnist");
  CHECK(options->data.path == "/d");
  CHECK(options->data.train_samples == 10);
  CHECK(options->data.test_samples == 5);
  CHECK(options->data.seed == 9);
  CHECK(options->train.seed == 9);
  CHECK(options->train.hidden_widths == std::vector<std::size_t>{64, 32});
  CHECK(options->train.optimizer.name == "sgd");
  CHECK(options->train.optimizer.momentum == 0.5);
  CHECK(options->train.optimizer.weight_decay == 1e-4);
  CHECK(options->train.learning_rate == 0.05);
  CHECK(options->train.lr_scaling == LrScaling::kSqrt);
  CHECK(options->train.lr_decay == LrDecay::kCosine);
  CHECK(options->train.warmup_epochs == 0.5);
  CHECK(options->train.batch == 16);
  CHECK(options->train.epochs == 3);
  CHECK(options->train.sharding == Sharding::kEpoch);
  CHECK(options->train.checkpoint_dir == "/c");
  CHECK(options->train.checkpoint_every == 100);
  CHECK(options->train.checkpoint_keep == 2);
  CHECK(options->train.should_resume);
  CHECK(options->backend == "gloo");
  CHECK(options->threads == 2);
  CHECK(options->metrics == "/m");
  for (const std::string& word : words) {
    if (word.starts_with("--"))
      CHECK(help_text().find(word.substr(0, word.find('='))) != std::string::npos);
  }
}

TEST_CASE("--layers excludes --model, and further flags of training are parsed") {
  const auto options = parse_options(Words{"--layers", "conv2d 4 3, relu,dense 10"}, Env());
  REQUIRE(options.has_value());
  CHECK(options->train.layers == Words{"conv2d 4 3", "relu", "dense 10"});
  CHECK(message_of({"--layers", "dense 10", "--model", "cnn"}) ==
        "--layers describes the whole model; remove --model and --hidden");
  CHECK(parse_options(Words{"--model=cnn"}, Env())->train.model == "cnn");
  CHECK(parse_options(Words{"--micro-batch=8"}, Env())->train.micro_batch == 8);
  CHECK(parse_options(Words{"--compression=fp16"}, Env())->train.bucket_options.compression ==
        GradientReducer::Compression::kFloat16);
  CHECK(parse_options(Words{"--compression=bf16"}, Env())->train.bucket_options.compression ==
        GradientReducer::Compression::kBfloat16);
  CHECK(parse_options(Words{"--optimizer-state=sharded"}, Env())->train.has_sharded_state);
  CHECK(parse_options(Words{"--local-steps=8", "--local-after=2.5"}, Env())
            ->train.epochs_before_local_steps == 2.5);
  CHECK(parse_options(Words{"--local-steps=8"}, Env())->train.local_steps == 8);
  CHECK(
      message_of({"--local-after=2"}) ==
      "--local-after needs --local-steps N with N > 0; N is the number of steps between averages");
  CHECK(message_of({"--local-after=2", "--local-steps=0"}).find("with N > 0") != std::string::npos);
  CHECK(parse_options(Words{"--trace-steps=20"}, Env())->train.trace_steps == 20);
  CHECK(parse_options(Words{}, Env())->train.trace_prefix == "trace/attempt-0");
  CHECK(parse_options(Words{"--loss=sigmoid"}, Env())->train.loss == Loss::kSigmoid);
  const auto by_file = parse_options(Words{"--shard=file", "--dataset=arrays", "--data=/d"}, Env());
  REQUIRE(by_file.has_value());
  CHECK(by_file->train.sharding == Sharding::kFile);
  CHECK(by_file->data.reads_own_partitions);
}

TEST_CASE("the flags of optimizer and learning rate schedule are parsed") {
  const Words words{"--optimizer=lamb", "--beta1=0.8",         "--beta2=0.9",     "--epsilon=1e-5",
                    "--alpha=0.7",      "--trust=0.02",        "--clip-norm=1.5", "--lr-decay=step",
                    "--lr-steps=3,6",   "--lr-step-factor=.2", "--lr-power=3"};
  const auto options = parse_options(words, Env());
  REQUIRE(options.has_value());
  const OptimizerOptions& optimizer = options->train.optimizer;
  CHECK(optimizer.name == "lamb");
  CHECK_FALSE(optimizer.momentum.has_value());
  CHECK(optimizer.beta1 == 0.8);
  CHECK(optimizer.beta2 == 0.9);
  CHECK(optimizer.epsilon == 1e-5);
  CHECK(optimizer.alpha == 0.7);
  CHECK(optimizer.trust == 0.02);
  CHECK(options->train.clip_norm == 1.5);
  CHECK(options->train.lr_decay == LrDecay::kStep);
  CHECK(options->train.lr_step_epochs == std::vector<double>{3, 6});
  CHECK(options->train.lr_step_factor == 0.2);
  CHECK(options->train.lr_power == 3);
  CHECK(message_of({"--lr-steps", "3,3"}) ==
        "--lr-steps: expected ascending epochs, got 3 after 3");
  CHECK(message_of({"--lr-decay", "step"}) ==
        "--lr-decay step and --lr-steps N[,N...] need each other");
  CHECK(message_of({"--lr-steps", "3"}) ==
        "--lr-decay step and --lr-steps N[,N...] need each other");
  const auto message = message_of({"--optimizer", "adamm"});
  for (const char* part : {"expected one of adam|", "|adamw|", "|sgd|", "|novograd"})
    CHECK(message.find(part) != std::string::npos);
}

TEST_CASE("the error for a wrong flag or value states what is accepted") {
  CHECK(message_of({"--bacth", "3"}) ==
        "unknown option '--bacth'; did you mean '--batch'?; --help lists all");
  CHECK(message_of({"--batch"}) == "--batch needs a value: N");
  CHECK(message_of({"--batch", "0"}) ==
        "--batch: expected a whole number from 1 to 1048576, got '0'");
  CHECK(message_of({"--batch", "12x"}).find("got '12x'") != std::string::npos);
  CHECK(message_of({"--lr", "nan"}).find("expected a number") != std::string::npos);
  CHECK(message_of({"--lr", "-1"}).find("expected a number") != std::string::npos);
  CHECK(message_of({"--shard", "files"}) ==
        "--shard: expected one of sample|file|epoch, got 'files'");
  CHECK(message_of({"--beta1", "1"}) ==
        "--beta1: expected a number from 0 to 0.999999999, got '1'");
  CHECK(message_of({"--shard", "file"}) ==
        "--shard file needs --dataset arrays, but the dataset is digits");
  CHECK(message_of({"--shard=file", "--dataset=arrays", "--train-samples=5"}) ==
        "--shard file reads whole files: remove --train-samples");
  CHECK(message_of({"--resume=yes"}) == "--resume takes no value");
  CHECK(message_of({"--hidden", "512,"}).find("--hidden: expected a whole number") !=
        std::string::npos);
  CHECK(message_of({"--backend", "nccl"}).find("--device cuda") != std::string::npos);
  CHECK(message_of({"train"}).find("unknown option 'train'") != std::string::npos);
}

TEST_CASE(
    "inside a run, checkpoints and metrics are in its directory, and a later attempt resumes") {
  Env env;
  auto options = parse_options({}, env);
  CHECK(options->train.checkpoint_dir == "ckpt");
  CHECK_FALSE(options->metrics.has_value());
  CHECK_FALSE(options->train.should_resume);
  env.set("DLRUN_RUN", "/runs/r1");
  env.set("DLRUN_ATTEMPT", "0");
  options = parse_options({}, env);
  CHECK(options->train.checkpoint_dir == "/runs/r1/ckpt");
  CHECK(options->metrics == "/runs/r1/metrics.jsonl");
  CHECK(parse_options(Words{"--checkpoint-dir", "mine"}, env)->train.checkpoint_dir ==
        "/runs/r1/mine");
  CHECK(parse_options(Words{"--checkpoint-dir", "/elsewhere"}, env)->train.checkpoint_dir ==
        "/elsewhere");
  CHECK_FALSE(options->train.should_resume);
  env.set("DLRUN_ATTEMPT", "2");
  CHECK(parse_options({}, env)->train.should_resume);
}

TEST_CASE("the digits command needs --out, and refuses more partitions than training images") {
  CHECK(parse_digits_options(Words{}).error().message == "--out DIR is needed");
  const auto options =
      parse_digits_options(Words{"--out", "d", "--train", "5", "--test=6", "--seed", "7"});
  REQUIRE(options.has_value());
  CHECK(options->train_samples == 5);
  CHECK(options->test_samples == 6);
  CHECK(options->seed == 7);
  CHECK(options->partitions == 0);
  CHECK(parse_digits_options(Words{"--out", "d", "--partitions", "9", "--train", "8"})
            .error()
            .message == "--partitions 9: more than the 8 training images");
}

}  // namespace dlrun::trainer
