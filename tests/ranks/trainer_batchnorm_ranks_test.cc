// Tests batch normalisation on several ranks: with "sync" they share the statistics of each batch;
// without it, each rank normalises its own samples, and only the running statistics are shared.

#include <doctest/doctest.h>

#include "tests/ranks/trainer_on_ranks.h"

namespace dlrun::trainer {
namespace {

TrainOptions options_with(const std::string& batchnorm) {
  TrainOptions options = small_options();
  options.layers = {
      "conv2d 4 5 stride 2",
      batchnorm,
      "relu",
      "residual: conv2d 6 3 stride 2 same; " + batchnorm + "; shortcut; conv2d 6 1 stride 2",
      "relu",
      "avgpool 2",
      "dense 10"};
  options.optimizer.name = "sgd";
  options.learning_rate = 0.05;
  return options;
}

}  // namespace

TEST_CASE(
    "synchronised batchnorm on N ranks trains as on one, even if some ranks have no samples in a "
    "step") {
  // The tolerance is for rounding: the ranks add the same numbers in another order, in 22 steps,
  // and each sum is divided by its channel's standard deviation.
  check_that_ranks_train_as_one(options_with("batchnorm sync"), 1e-4);
  // 283 = 10 x 28 + 3: in an epoch's last step four of seven ranks have no samples, but must still
  // take part.
  check_that_ranks_train_as_one(options_with("batchnorm sync"), 1e-4, generated_data(283));
}

TEST_CASE(
    "local batchnorm trains several ranks differently from one, with the same running statistics "
    "on all ranks") {
  const TrainOptions options = options_with("batchnorm");
  const auto one = train(1, options);
  TrainOptions options_of_each = options;
  options_of_each.batch = 7;
  const auto four = train(4, options_of_each);
  for (const Trained& rank : four) {
    REQUIRE_MESSAGE(rank.outcome.has_value(), message_of(rank));
    CHECK(rank.outcome->parameters_hash == four[0].outcome->parameters_hash);
    CHECK(rank.outcome->test_loss < 2.29);
  }
  // An equal result would mean that the ranks shared the statistics of each batch.
  CHECK(largest_difference(four[0].parameters, one[0].parameters) > 1e-3);
}

TEST_CASE("training with batchnorm resumes to the same parameters and running statistics") {
  for (const char* batchnorm : {"batchnorm", "batchnorm sync"}) {
    TrainOptions options = options_with(batchnorm);
    options.batch = 14;
    check_that_training_resumes(options);
  }
}

TEST_CASE("synchronised batchnorm and micro-batches exclude each other") {
  TrainOptions options = options_with("batchnorm sync");
  options.micro_batch = 7;
  CHECK(has(message_of(train(1, options)[0]),
            "--micro-batch 7 of a batch of 28: batchnorm sync normalises whole"));
}

}  // namespace dlrun::trainer
