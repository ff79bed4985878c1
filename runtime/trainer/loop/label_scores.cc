#include "runtime/trainer/loop/label_scores.h"

#include <fmt/core.h>

namespace dlrun::trainer {
namespace {

double ratio(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

/// Returns F1, the harmonic mean of precision and recall. false_answers: the number of false
/// positives and false negatives.
double f1(double true_positives, double false_answers) {
  return ratio(2 * true_positives, 2 * true_positives + false_answers);
}

}  // namespace

LabelScores scores_of(std::span<const double> counts) {
  const std::size_t classes = counts.size() / 3;
  LabelScores scores;
  double all_true_positives = 0;
  double all_false_answers = 0;
  for (std::size_t k = 0; k < classes; ++k) {
    const double true_positives = counts[k];
    const double false_positives = counts[classes + k];
    const double false_negatives = counts[2 * classes + k];
    scores.classes.push_back({ratio(true_positives, true_positives + false_positives),
                              ratio(true_positives, true_positives + false_negatives),
                              f1(true_positives, false_positives + false_negatives),
                              true_positives + false_negatives});
    scores.macro_f1 += scores.classes.back().f1 / static_cast<double>(classes);
    all_true_positives += true_positives;
    all_false_answers += false_positives + false_negatives;
  }
  scores.micro_f1 = f1(all_true_positives, all_false_answers);
  return scores;
}

std::string per_class_text(const LabelScores& scores, double ClassScore::*value,
                           std::size_t max_bytes) {
  std::string text;
  for (const ClassScore& one : scores.classes)
    text += fmt::format("{}{:.3f}", text.empty() ? "" : " ", one.*value);
  return text.size() <= max_bytes ? text : "";
}

}  // namespace dlrun::trainer
