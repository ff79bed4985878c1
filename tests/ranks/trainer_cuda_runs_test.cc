// Compares whole trainings on the GPU with trainings on the CPU, and trainings on the GPU with each
// other where different algorithms must give the same numbers. Also tests an allocation that fails,
// and copies to the GPU.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/comm/make_communicator.h"
#include "runtime/trainer/data/dataset.h"
#include "runtime/trainer/loop/trainer.h"
#include "runtime/trainer/nn/kernels.h"
#include "runtime/trainer/nn/model.h"
#include "tests/ranks/on_gpu.h"

namespace dlrun::trainer {
namespace {

/// Returns options for two epochs of ten steps. An epoch's last step has fewer samples.
TrainOptions short_run_options() {
  TrainOptions options;
  options.hidden_widths = {24};
  options.epochs = 2;
  options.optimizer.name = "sgd";
  options.learning_rate = 0.05;
  options.checkpoint_keep = 0;
  return options;
}

const Split& digits() {
  static const Split kDigits{generate_digits(300, 1, false), generate_digits(50, 1, true),
                             "generated digits"};
  return kDigits;
}

/// The result of a training with one rank.
struct Training {
  Outcome outcome;
  std::vector<float> parameters;
};

Training run_training(Kernels<float>& kernels, const TrainOptions& options, const Split& data) {
  auto communicator = make_communicator("single", {});
  REQUIRE(communicator.has_value());
  (*communicator)->set_compute_stream(kernels.stream());
  TrainingReporter::Options silent;
  silent.is_main = false;
  auto reporter = TrainingReporter::open(silent);
  Trainer trainer(options, data, Session{**communicator, kernels, *reporter, "host"});
  const auto outcome = trainer.run();
  REQUIRE_MESSAGE(outcome.has_value(), outcome.error().message);
  return {*outcome, trainer.parameters()};
}

/// Returns the parameters after a training on digits().
std::vector<float> parameters_after(Kernels<float>& kernels, const TrainOptions& options) {
  return run_training(kernels, options, digits()).parameters;
}

}  // namespace

TEST_CASE("training on the GPU gives the CPU's parameters, or the error names the missing GPU") {
  const auto device = gpu_kernels();  // checks the error if there is no GPU
  if (device == nullptr) return;
  // The tolerance is for the rounding of 20 steps.
  const auto host = make_cpu_kernels<float>(1);
  check_close(parameters_after(*device, short_run_options()),
              parameters_after(*host, short_run_options()), 1e-4, 1);
}

TEST_CASE("the test accuracy after a training in bf16 is at most 0.02 below that of float32") {
  const auto device = gpu_kernels();
  if (device == nullptr) return;
  const auto bf16_device = gpu_kernels({.precision = Precision::kBfloat16});
  const Split data{generate_digits(2000, 1, false), generate_digits(500, 1, true),
                   "generated digits"};
  TrainOptions options;
  options.layers = *layer_texts_of("cnn", {}, 10);
  options.epochs = 3;
  options.checkpoint_keep = 0;
  const Training in_float32 = run_training(*device, options, data);
  const Training in_bf16 = run_training(*bf16_device, options, data);
  CHECK(in_float32.outcome.test_accuracy > 0.95);
  // Two trainings in float32 with different seeds differ by up to 0.01, too.
  CHECK(in_bf16.outcome.test_accuracy > in_float32.outcome.test_accuracy - 0.02);
  CHECK(in_bf16.parameters != in_float32.parameters);
}

TEST_CASE("training with data in host memory gives the same bits as with data on the GPU") {
  const auto device = gpu_kernels();
  if (device == nullptr) return;
  const auto streaming = gpu_kernels({.max_data_bytes = 1000});
  REQUIRE(streaming->upload(digits().train).is_streamed);
  REQUIRE_FALSE(device->upload(digits().train).is_streamed);
  CHECK(parameters_after(*streaming, short_run_options()) ==
        parameters_after(*device, short_run_options()));
}

TEST_CASE("captured steps (CUDA graphs) give the same bits as separate operations") {
  if (gpu_kernels() == nullptr) return;
  std::vector<TrainOptions> options_of_runs;
  for (const char* optimizer :
       {"sgd", "adam", "lars"}) {  // lars copies norms to the host, which ends its capture early
    options_of_runs.push_back(short_run_options());
    options_of_runs.back().optimizer.name = optimizer;
  }
  options_of_runs.push_back(short_run_options());
  options_of_runs.back().layers = {"conv2d 8 3",  "batchnorm", "relu", "maxpool 2",
                                   "dropout 0.3", "dense 32",  "relu", "dense 10"};
  options_of_runs.push_back(options_of_runs.back());
  options_of_runs.back().micro_batch = 5;
  options_of_runs.push_back(short_run_options());
  options_of_runs.back().clip_norm = 0.5;
  for (const TrainOptions& options : options_of_runs) {
    CAPTURE(options.optimizer.name);
    CAPTURE(options.layers.size());
    CAPTURE(options.micro_batch);
    CAPTURE(options.clip_norm);
    for (const std::size_t max_data_bytes : {std::size_t{1000}, std::size_t{1} << 30U}) {
      for (const Precision precision : {Precision::kFloat32, Precision::kBfloat16}) {
        CAPTURE(max_data_bytes);
        CAPTURE(name_of(precision));
        GpuOptions separate{
            .precision = precision, .captures_steps = false, .max_data_bytes = max_data_bytes};
        GpuOptions captured = separate;
        captured.captures_steps = true;
        CHECK(parameters_after(*gpu_kernels(captured), options) ==
              parameters_after(*gpu_kernels(separate), options));
      }
    }
  }
}

TEST_CASE(
    "an array that does not fit into the GPU's memory is an error with the sizes and a remedy") {
  const auto device = gpu_kernels();
  if (device == nullptr) return;
  CHECK(device->allocate(std::size_t{1} << 50U) == nullptr);
  const auto synchronised = device->synchronise();
  REQUIRE_FALSE(synchronised.has_value());
  CHECK(synchronised.error().message.find("an array of 1073741824 MiB does not fit") !=
        std::string::npos);
  CHECK(synchronised.error().message.find("smaller --batch") != std::string::npos);
}

TEST_CASE("a host array may change as soon as its copy to a real GPU is queued") {
  const auto device = gpu_kernels();
  if (device == nullptr) return;
  std::vector<std::vector<float>> sent;
  std::vector<Array<float>> on_device;
  for (std::uint64_t i = 0; i < 40; ++i) {
    std::vector<float> values = random_numbers(i % 4 == 3 ? 3'000'001 : 10 + i, i);
    sent.push_back(values);
    on_device.emplace_back(*device, values.size());
    device->copy_from_host(on_device.back().data(), values.data(), values.size() * sizeof(float));
    std::fill(values.begin(), values.end(), -7.0F);
  }
  for (std::size_t i = 0; i < sent.size(); ++i) {
    CAPTURE(i);
    std::vector<float> got(sent[i].size());
    device->copy_to_host(got.data(), on_device[i].data(), got.size() * sizeof(float));
    CHECK(got == sent[i]);
  }
}

}  // namespace dlrun::trainer
