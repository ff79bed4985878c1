// Compares post-local SGD with steps that sum the gradients of all ranks, with a plain
// implementation in double, and with itself after resuming.

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "runtime/trainer/data/sampler.h"
#include "runtime/trainer/nn/model.h"
#include "runtime/trainer/nn/network.h"
#include "tests/ranks/trainer_on_ranks.h"
#include "tests/temporary_directory.h"

namespace dlrun::trainer {
namespace {

namespace fs = std::filesystem;

constexpr double kMomentum = 0.9;

/// Returns options for SGD with momentum at a constant rate, in batches of 28 over all ranks: 11
/// steps per epoch, the last with 20 samples.
TrainOptions sgd_options(int size) {
  TrainOptions options = small_options();
  options.layers = {"dense 24", "tanh", "dense 10"};
  options.optimizer.name = "sgd";
  options.optimizer.momentum = kMomentum;
  options.learning_rate = 0.02;
  options.lr_decay = LrDecay::kConstant;
  options.batch = 28 / static_cast<std::size_t>(size);
  return options;
}

/// A rank in the plain implementation.
struct PlainRank {
  std::unique_ptr<Kernels<double>> kernels = make_cpu_kernels<double>(1);
  std::unique_ptr<Network<double>> network;
  std::unique_ptr<Sampler> sampler;
  std::vector<double> velocity;
  double samples_since_average = 0;

  /// Sets network->gradients() to the derivative of the summed loss of the chosen samples, divided
  /// by `divisor`.
  void backward(const Dataset& data, std::span<const std::uint32_t> chosen, std::size_t divisor) {
    std::vector<std::uint8_t> labels(chosen.size());
    double totals[2]{};
    kernels->gather(kernels->upload(data), chosen, 1.0F / 255, network->input(), labels.data());
    network->forward(chosen.size());
    kernels->softmax_cross_entropy(network->output(), labels.data(), chosen.size(), 10,
                                   1.0 / static_cast<double>(divisor), network->output_gradient(),
                                   totals);
    network->backward(chosen.size(), [](std::size_t) {});
  }
  /// Takes one step of SGD with momentum.
  void descend(double rate) {
    for (std::size_t i = 0; i < velocity.size(); ++i) {
      velocity[i] = kMomentum * velocity[i] + network->gradients()[i];
      network->parameters()[i] -= rate * velocity[i];
    }
  }
};

/// Replaces every rank's array by the mean of all ranks, weighted by their
/// samples_since_average.
template <typename Get>
void average(std::vector<PlainRank>& ranks, const Get& array_of) {
  double samples = 0;  // of all ranks
  for (const PlainRank& rank : ranks) samples += rank.samples_since_average;
  for (std::size_t i = 0; i < array_of(ranks[0]).size(); ++i) {
    double mean = 0;
    for (PlainRank& rank : ranks) mean += rank.samples_since_average / samples * array_of(rank)[i];
    for (PlainRank& rank : ranks) array_of(rank)[i] = mean;
  }
}

/// Returns the final parameters of post-local SGD, computed one rank after the other.
std::vector<float> plain_post_local(int size, const TrainOptions& options, const Dataset& data) {
  std::vector<PlainRank> ranks(static_cast<std::size_t>(size));
  for (int r = 0; r < size; ++r) {
    PlainRank& rank = ranks[static_cast<std::size_t>(r)];
    auto layers = make_layers<double>(options.layers, {data.height, data.width, 1}, 10);
    rank.network = std::make_unique<Network<double>>(*rank.kernels, std::move(*layers),
                                                     data.features, options.batch, 0);
    rank.network->initialise(options.seed);
    rank.sampler = std::make_unique<Sampler>(
        Sampler::Options{data.size(), options.batch, r, size, options.sharding, options.seed});
    rank.velocity.resize(rank.network->parameters().size());
  }
  std::size_t steps_since_average = 0;
  for (std::size_t epoch = 0; epoch < options.epochs; ++epoch) {
    for (std::size_t offset = 0; offset < data.size();) {
      const bool is_local = static_cast<double>(epoch) +
                                static_cast<double>(offset) / static_cast<double>(data.size()) >=
                            options.epochs_before_local_steps;
      std::size_t advance = 0;
      for (PlainRank& rank : ranks) {
        const Batch batch = rank.sampler->batch(epoch, offset);
        advance = batch.advance;
        rank.backward(
            data, batch.samples,
            is_local ? std::max<std::size_t>(batch.samples.size(), 1) : batch.global_samples);
        rank.samples_since_average += static_cast<double>(batch.samples.size());
        if (is_local && !batch.samples.empty()) rank.descend(options.learning_rate);
      }
      offset += advance;
      if (is_local && ++steps_since_average < options.local_steps && offset < data.size()) continue;
      if (is_local) {
        average(ranks, [](PlainRank& rank) { return rank.network->parameters(); });
        average(ranks, [](PlainRank& rank) { return std::span(rank.velocity); });
      } else {
        std::vector<double> sum(ranks[0].velocity.size());
        for (PlainRank& rank : ranks) {
          for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += rank.network->gradients()[i];
        }
        for (PlainRank& rank : ranks) {
          std::copy(sum.begin(), sum.end(), rank.network->gradients().begin());
          rank.descend(options.learning_rate);
        }
      }
      steps_since_average = 0;
      for (PlainRank& rank : ranks) rank.samples_since_average = 0;
    }
  }
  const auto parameters = ranks[0].network->parameters();
  return {parameters.begin(), parameters.end()};
}

}  // namespace

TEST_CASE("ranks that average parameters after each step train like ranks that sum gradients") {
  for (const auto& [size, optimizer, sharding] : {std::tuple(1, "sgd", Sharding::kSample),
                                                  {2, "sgd", Sharding::kEpoch},
                                                  {4, "nesterov", Sharding::kSample},
                                                  {7, "sgd", Sharding::kSample}}) {
    CAPTURE(size);
    TrainOptions options = sgd_options(size);
    options.optimizer.name = optimizer;
    options.optimizer.weight_decay = 0.01;
    options.sharding = sharding;
    const auto with_summed_gradients = train(size, options, {}, "shm");
    options.local_steps = 1;
    const auto local = train(size, options, {}, "shm");
    for (const Trained& rank : local) {
      REQUIRE_MESSAGE(rank.outcome.has_value(), message_of(rank));
      CHECK(rank.parameters == local[0].parameters);
    }
    // The tolerance is for rounding: the ranks add the same numbers in another order, and each of
    // 22 averages rounds the parameters up to 7 times.
    CHECK(largest_difference(local[0].parameters, with_summed_gradients[0].parameters) < 4e-6);
    CHECK(local[0].outcome->test_loss ==
          doctest::Approx(with_summed_gradients[0].outcome->test_loss).epsilon(1e-4));
  }
}

TEST_CASE(
    "post-local SGD equals a plain implementation of the published algorithm at 2, 4 and 7 ranks") {
  for (const auto& [size, local_steps, epochs_before] :
       {std::tuple(2, 3, 0.0), {4, 4, 0.6}, {7, 100, 1.0}}) {
    CAPTURE(size);
    TrainOptions options = sgd_options(size);
    const auto with_summed_gradients = train(size, options, {}, "shm");
    options.local_steps = static_cast<std::size_t>(local_steps);
    options.epochs_before_local_steps = epochs_before;
    const auto got = train(size, options, {}, size == 2 ? "gloo" : "shm");
    for (const Trained& rank : got) {
      REQUIRE_MESSAGE(rank.outcome.has_value(), message_of(rank));
      CHECK(rank.parameters == got[0].parameters);
    }
    const auto want = plain_post_local(size, options, small_data().train);
    CHECK(largest_difference(got[0].parameters, want) < 2e-6);  // float against double
    // An equal result would mean that no step was local.
    CHECK(largest_difference(got[0].parameters, with_summed_gradients[0].parameters) > 1e-4);
  }
}

/// Checks at which steps two ranks with local steps save checkpoints, and that they resume from
/// three of these checkpoints to the same bits.
void check_that_local_steps_resume(const char* optimizer) {
  CAPTURE(optimizer);
  const TemporaryDirectory folder;
  TrainOptions options = small_options();
  options.optimizer.name = optimizer;
  options.layers = {"dense 24", "batchnorm", "relu", "dense 10"};
  options.batch = 14;
  options.local_steps = 3;
  // An epoch has 11 steps. In the first 6 steps the ranks sum their gradients. The averages follow
  // steps 9, 11, 14, 17, 20 and 22.
  options.epochs_before_local_steps = 0.5;
  options.checkpoint_every = 4;
  options.checkpoint_keep = 100;
  options.checkpoint_dir = folder / "whole";
  const auto whole = train(2, options);
  REQUIRE_MESSAGE(whole[0].outcome.has_value(), message_of(whole[0]));
  CHECK(whole[0].outcome->steps == 22);
  std::vector<std::string> saved;
  for (const auto& entry : fs::directory_iterator(folder / "whole")) {
    if (entry.is_directory()) saved.push_back(entry.path().filename());
  }
  std::ranges::sort(saved);
  CHECK(saved == std::vector<std::string>{"step-00000004", "step-00000009", "step-00000014",
                                          "step-00000017", "step-00000020", "step-00000022"});
  for (const char* step : {"step-00000004", "step-00000009", "step-00000017"}) {
    CAPTURE(step);
    options.checkpoint_dir = folder / step;
    fs::create_directories(options.checkpoint_dir);
    fs::copy(folder / "whole" / step, options.checkpoint_dir / step, fs::copy_options::recursive);
    options.should_resume = true;
    for (const Trained& rank : train(2, options)) {
      REQUIRE_MESSAGE(rank.outcome.has_value(), message_of(rank));
      CHECK(rank.parameters == whole[0].parameters);
      // The hash includes the running statistics.
      CHECK(rank.outcome->parameters_hash == whole[0].outcome->parameters_hash);
    }
  }
}

TEST_CASE(
    "with local steps, a checkpoint waits for the next average, and the run resumes to the same "
    "bits") {
  // novograd has a state array with one number for each tensor.
  for (const char* optimizer : {"adam", "novograd"}) check_that_local_steps_resume(optimizer);
}

TEST_CASE(
    "a signal saves a checkpoint at the next average with local steps, and at the next step "
    "without") {
  const TemporaryDirectory folder;
  TrainOptions options = small_options();
  options.checkpoint_keep = 100;
  options.checkpoint_every = 1000;
  for (const auto& [batch, local_steps, step] :
       {std::tuple(7, 4, "step-00000004"), {150, 0, "step-00000001"}, {150, 5, "step-00000001"}}) {
    options.checkpoint_dir = folder / fmt::format("{}-{}", batch, local_steps);
    options.batch = static_cast<std::size_t>(batch);
    options.local_steps = static_cast<std::size_t>(local_steps);
    std::atomic<bool> requested{true};
    const auto ranks = train(2, options, [&](int rank, TrainOptions&, Session& session) {
      if (rank == 1) session.save_requested = &requested;
    });
    REQUIRE_MESSAGE(ranks[0].outcome.has_value(), message_of(ranks[0]));
    CHECK(fs::exists(options.checkpoint_dir / step / "manifest.json"));
  }
}

TEST_CASE("a loss that is not finite in a local step ends all ranks at the next average") {
  TrainOptions options = small_options();
  options.optimizer.name = "sgd";
  options.local_steps = 3;
  options.learning_rate = 1e30;
  for (const Trained& rank : train(4, options)) {
    REQUIRE_FALSE(rank.outcome.has_value());
    CHECK(rank.outcome.error().code == Errc::kInvalid);
    CHECK(has(message_of(rank), "the loss is "));
    CHECK(has(message_of(rank), " at step 3 "));
  }
}

TEST_CASE("the error names the one rank whose loss is not finite") {
  on_ranks(3, [](Communicator& communicator) {
    Split data = generated_data();
    const bool is_black = communicator.rank() != 1;  // on black images only the biases grow
    for (std::uint8_t& pixel : data.train.images) pixel = is_black ? 0 : 255;
    TrainOptions options = sgd_options(3);
    options.layers = {"dense 24", "dense 10"};
    options.local_steps = 2;
    options.learning_rate = 1e30;
    auto kernels = make_cpu_kernels<float>(1);
    TrainingReporter::Options silent;
    silent.is_main = false;
    auto reporter = TrainingReporter::open(silent);
    if (!reporter) return;
    Session session{communicator, *kernels, *reporter,
                    "host" + std::to_string(communicator.rank())};
    const auto outcome = Trainer(options, data, session).run();
    const std::string message = outcome ? "succeeded" : outcome.error().message;
    CHECK_MESSAGE(has(message, "rank 1 on host1: generated digits: the loss is "), message);
    CHECK(has(message, " at step 2 (epoch 1)"));
  });
}

TEST_CASE(
    "options that exclude local steps are refused, and so are different values on the ranks") {
  TrainOptions options = small_options();
  options.local_steps = 4;
  options.has_sharded_state = true;
  CHECK(has(message_of(train(1, options)[0]), "--local-steps needs the optimizer's whole state"));
  options.has_sharded_state = false;
  options.layers = {"dense 8", "batchnorm sync", "dense 10"};
  CHECK(has(message_of(train(2, options)[1]),
            "--local-steps: batchnorm sync normalises the batches of all ranks"));
  const auto ranks = train(4, small_options(), [](int rank, TrainOptions& mine, Session&) {
    if (rank == 1) mine.local_steps = 2;
  });
  for (const Trained& rank : ranks)
    CHECK(has(message_of(rank),
              "rank 1 on host1: options or data differ: --local-steps is 2 here and 0 on rank 0"));
}

}  // namespace dlrun::trainer
