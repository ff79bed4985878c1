#pragma once
// Precision, recall and F1 of samples that may have several labels.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace dlrun::trainer {

/// The three scores of one class, each from 0 to 1. If the divisor of a score is 0, the score is 0,
/// as in scikit-learn. For example, all three are 0 for a class that no sample has and that is
/// predicted for no sample.
struct ClassScore {
  double precision = 0;  ///< share of right answers among the samples predicted to have the class
  double recall = 0;     ///< share of right answers among the samples that have the class
  double f1 = 0;         ///< harmonic mean of precision and recall
  double sample_count = 0;  ///< number of samples that have the class
};

struct LabelScores {
  double micro_f1 = 0;  ///< F1 of all classes' answers together
  double macro_f1 = 0;  ///< mean of the classes' F1
  std::vector<ClassScore> classes;
};

/// Computes the scores from the counts of LayerKernels::count_confusions, [3 x classes], summed
/// over all ranks. The counts are whole numbers, so the scores do not depend on the number of
/// ranks.
[[nodiscard]] LabelScores scores_of(std::span<const double> counts);

/// Formats one value per class, such as "0.912 0.875". Returns an empty string if the text is
/// longer than max_bytes.
[[nodiscard]] std::string per_class_text(const LabelScores& scores, double ClassScore::*value,
                                         std::size_t max_bytes);

}  // namespace dlrun::trainer
