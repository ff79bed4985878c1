// Tests precision, recall and F1 against scikit-learn's numbers for a small table of answers.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/trainer/loop/label_scores.h"
#include "runtime/trainer/nn/kernels.h"
#include "runtime/trainer/nn/layer_kernels.h"

namespace dlrun::trainer {
namespace {

constexpr std::size_t kLabelClasses = 4;
// Six samples. No sample has class 3, and no answer contains it.
const std::vector<std::uint8_t> kTrueLabels{1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0,
                                            0, 0, 1, 0, 1, 0, 1, 0, 0, 0, 1, 0};
const std::vector<float> kAnswerLogits{2, -1, -3, -1,    1,  1, -2,   -9, -1, -0.5F, 3, -1,
                                       0, -1, 5,  -0.1F, -2, 4, 0.5F, -1, 7,  -1,    0, -2};

/// Counts the answers of n samples, the first of which has index `from`. Returns the true positives
/// of each class, then the false positives, then the false negatives.
std::vector<double> counts_of(std::size_t from, std::size_t n) {
  const auto kernels = make_cpu_kernels<float>(1);
  std::vector<std::uint32_t> counts(3 * kLabelClasses);
  kernels->layer_kernels().count_confusions(kAnswerLogits.data() + from * kLabelClasses,
                                            kTrueLabels.data() + from * kLabelClasses, n,
                                            kLabelClasses, counts.data());
  return {counts.begin(), counts.end()};
}

}  // namespace

TEST_CASE(
    "true positives, false positives and false negatives are counted per class, and a logit of 0 "
    "means label 0") {
  CHECK(counts_of(0, 6) == std::vector<double>{2, 1, 2, 0, 1, 1, 1, 0, 1, 1, 1, 0});
}

TEST_CASE("scores equal sklearn's precision_recall_fscore_support") {
  const LabelScores scores = scores_of(counts_of(0, 6));
  REQUIRE(scores.classes.size() == kLabelClasses);
  CHECK(scores.classes[0].precision == doctest::Approx(2.0 / 3));
  CHECK(scores.classes[0].recall == doctest::Approx(2.0 / 3));
  CHECK(scores.classes[0].sample_count == 3);
  CHECK(scores.classes[1].precision == doctest::Approx(0.5));
  CHECK(scores.classes[1].f1 == doctest::Approx(0.5));
  CHECK(scores.classes[2].f1 == doctest::Approx(2.0 / 3));
  CHECK(scores.classes[3].f1 == 0);
  CHECK(scores.classes[3].sample_count == 0);
  CHECK(scores.micro_f1 == doctest::Approx(10.0 / 16));
  CHECK(scores.macro_f1 == doctest::Approx((2.0 / 3 + 0.5 + 2.0 / 3 + 0) / 4));
}

TEST_CASE(
    "per_class_text() lists the score of each class, or nothing if the text exceeds its limit") {
  const LabelScores scores = scores_of(counts_of(0, 6));
  CHECK(per_class_text(scores, &ClassScore::f1, 256) == "0.667 0.500 0.667 0.000");
  CHECK(per_class_text(scores, &ClassScore::f1, 22).empty());  // one byte too few
}

TEST_CASE("the counts of parts of the samples add up to the counts of all samples") {
  const std::vector<double> all = counts_of(0, 6);
  for (std::size_t ranks = 2; ranks <= 6; ++ranks) {
    std::vector<double> sum(all.size());
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const std::size_t from = 6 * rank / ranks;
      const std::vector<double> part = counts_of(from, 6 * (rank + 1) / ranks - from);
      std::transform(sum.begin(), sum.end(), part.begin(), sum.begin(), std::plus<>());
    }
    CHECK(sum == all);
  }
}

}  // namespace dlrun::trainer
