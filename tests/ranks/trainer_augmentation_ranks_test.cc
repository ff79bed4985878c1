// Tests that augmentation, like the order of samples, depends neither on the number of ranks nor on
// a restart.

#include <doctest/doctest.h>

#include "tests/ranks/trainer_on_ranks.h"

namespace dlrun::trainer {
namespace {

TrainOptions augmented_options() {
  TrainOptions options = small_options();
  options.augmentation = {true, true, 2};
  return options;
}

}  // namespace

TEST_CASE(
    "augmented training on N ranks equals training on one, and differs from training without "
    "augmentation") {
  // The tolerance is for rounding: the ranks add the same numbers in another order, in 22 steps.
  check_that_ranks_train_as_one(augmented_options(), 1e-4);
  const auto without_augmentation = train(1, small_options(), {}, "single");
  const auto with_augmentation = train(1, augmented_options(), {}, "single");
  CHECK(largest_difference(without_augmentation[0].parameters, with_augmentation[0].parameters) >
        1e-3);
}

TEST_CASE("augmented training that resumes ends with the bits of an uninterrupted training") {
  TrainOptions options = augmented_options();
  options.batch = 14;
  check_that_training_resumes(options);
}

TEST_CASE("the samples of micro-batches get the same augmentation as in the whole batch") {
  TrainOptions options = augmented_options();
  const auto whole = train(1, options, {}, "single");
  options.micro_batch = 5;
  const auto parts = train(1, options, {}, "single");
  CHECK(largest_difference(whole[0].parameters, parts[0].parameters) < 1e-4);
}

TEST_CASE("images that are not square cannot be rotated, but can be mirrored and shifted") {
  Split data = generated_data(60);
  for (Dataset* part : {&data.train, &data.test}) {
    part->height = 14;
    part->width = 56;
  }
  TrainOptions options = augmented_options();
  CHECK(
      has(message_of(train(1, options, {}, "single", data)[0]), "are not square: 14 x 56 pixels"));
  options.augmentation.rotates = false;
  CHECK(train(1, options, {}, "single", data)[0].outcome.has_value());
}

}  // namespace dlrun::trainer
