#include "runtime/trainer/loop/label_scores.h"

#include <fmt/core.h>

namespace dlrun::trainer {
namespace {

double ratio(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

/// Returns 2 right / (2 right + wrong), which equals the harmonic mean of precision and recall.
double f1(double right, double wrong) {
  return ratio(2 * right, 2 * right + wrong);
}

}  // namespace

LabelScores scores_of(std::span<const double> counts) {
  const std::size_t classes = counts.size() / 3;
  LabelScores scores;
  double all_right = 0;
  double all_wrong = 0;
  for (std::size_t k = 0; k < classes; ++k) {
    const double right = counts[k];
    const double given_wrongly = counts[classes + k];
    const double missed = counts[2 * classes + k];
    scores.classes.push_back({ratio(right, right + given_wrongly), ratio(right, right + missed),
                              f1(right, given_wrongly + missed), right + missed});
    scores.macro_f1 += scores.classes.back().f1 / static_cast<double>(classes);
    all_right += right;
    all_wrong += given_wrongly + missed;
  }
  scores.micro_f1 = f1(all_right, all_wrong);
  return scores;
}

std::string per_class_text(const LabelScores& scores, double ClassScore::*value, std::size_t most) {
  std::string text;
  for (const ClassScore& one : scores.classes)
    text += fmt::format("{}{:.3f}", text.empty() ? "" : " ", one.*value);
  return text.size() <= most ? text : "";
}

}  // namespace dlrun::trainer
