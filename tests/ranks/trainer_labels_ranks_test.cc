// Tests the training on samples with several labels: the scores depend on the number of ranks only
// by rounding.

#include <algorithm>

#include <doctest/doctest.h>

#include "runtime/trainer/data/patches.h"
#include "tests/ranks/trainer_on_ranks.h"

namespace dlrun::trainer {

TEST_CASE(
    "training on patches gives nearly the same F1 at 1, 2 and 7 ranks, equal on all ranks, and "
    "refuses softmax") {
  const Split data{generate_patches(280, 8, 1, false), generate_patches(75, 8, 1, true), "patches"};
  TrainOptions options = small_options();
  options.model = "mlp";
  options.hidden_widths = {48};
  options.loss = Loss::kSigmoid;
  options.learning_rate = 0.01;
  options.epochs = 10;
  const auto one = train(1, options, {}, "single", data);
  REQUIRE_MESSAGE(one[0].outcome.has_value(), message_of(one[0]));
  REQUIRE(one[0].outcome->label_scores.has_value());
  const LabelScores& alone = *one[0].outcome->label_scores;
  CHECK(alone.classes.size() == kPatchLabels);
  // The micro F1 is 0 if the network predicts no class, and about 0.2 if it predicts every class.
  // So the bound shows only that the network predicts some of the labels.
  CHECK(alone.micro_f1 > 0.15);
  double label_count = 0;
  for (const ClassScore& score : alone.classes) label_count += score.sample_count;
  CHECK(label_count == std::ranges::count(data.test.labels, 1));
  for (const int size : {2, 7}) {
    CAPTURE(size);
    options.batch = 28 / static_cast<std::size_t>(size);
    const auto many = train(size, options, {}, "gloo", data);
    for (const Trained& rank : many) {
      REQUIRE_MESSAGE(rank.outcome.has_value(), message_of(rank));
      const LabelScores& scores = *rank.outcome->label_scores;
      CHECK(scores.micro_f1 == many[0].outcome->label_scores->micro_f1);
      // In 100 steps, rounding may move a few of 1425 answers across 0.
      CHECK(scores.micro_f1 == doctest::Approx(alone.micro_f1).epsilon(0.05));
      for (std::size_t k = 0; k < kPatchLabels; ++k)
        CHECK(scores.classes[k].sample_count == alone.classes[k].sample_count);
    }
  }
  options.loss = Loss::kSoftmax;
  CHECK(has(message_of(train(1, options, {}, "single", data)[0]), "need --loss sigmoid"));
}

TEST_CASE("training on samples with one class gives no F1") {
  const auto one = train(1, small_options(), {}, "single");
  REQUIRE(one[0].outcome.has_value());
  CHECK_FALSE(one[0].outcome->label_scores.has_value());
}

}  // namespace dlrun::trainer
