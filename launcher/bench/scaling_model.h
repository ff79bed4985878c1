#pragma once
// Models how the rate of an experiment grows with its ranks, from measurements at several sizes.
// Pure functions.

#include <string>
#include <vector>

namespace dlrun {

/// The measurement of one run.
struct ScalingFigure {
  int nodes = 0;  ///< 1 for a run on this machine
  int ranks = 0;
  double samples_per_s = 0;  ///< of all ranks together
  std::string run;           ///< the run's id
};

/// Models the seconds of a step in which n ranks take one batch each: compute + 2(n-1) latency +
/// 2(n-1)/n transfer. The last two terms are the cost of a ring all-reduce (Thakur, Rabenseifner,
/// Gropp 2005, section 4.5: reduce-scatter and all-gather in n-1 messages each). latency is the
/// paper's alpha; transfer is S/B for S bytes of gradients at B bytes per second. The model assumes
/// that no communication overlaps with computation.
struct ScalingModel {
  double compute_s = 0, latency_s = 0, transfer_s = 0;
  /// Returns the seconds of a step on this number of ranks.
  [[nodiscard]] double step_s(int ranks) const;
  /// Returns the samples per second of all ranks. batch: samples per step on each rank.
  [[nodiscard]] double samples_per_s(int ranks, double batch) const;
};

/// Fits the models by least squares of the relative errors, with non-negative costs. With three or
/// more different numbers of ranks, latency and transfer can be separated: returns one model. With
/// two numbers they cannot be separated: returns two models. The first one counts the whole cost of
/// communication as latency, and the second one counts it as transfer; the real costs are between
/// them. Leaves out a model with a negative cost. If no model is left, returns a model without
/// communication. With one number of ranks, returns none. batch must be > 0.
[[nodiscard]] std::vector<ScalingModel> fit_scaling(const std::vector<ScalingFigure>& figures,
                                                    double batch);

/// The predicted rates at a number of ranks beyond the measured ones: the lowest and the highest of
/// all models.
struct ModelledFigure {
  int ranks = 0;
  double low = 0, high = 0;  ///< samples per second
};
inline constexpr int kMostModelledRanks = 1024;
/// Predicts the rates at twice the largest measured number of ranks, four times, and so on; the
/// last prediction is at kMostModelledRanks. Returns none without models, or if the largest
/// measured number is kMostModelledRanks or more.
[[nodiscard]] std::vector<ModelledFigure> predict_scaling(const std::vector<ScalingFigure>& figures,
                                                          const std::vector<ScalingModel>& models,
                                                          double batch);

/// speed_up() returns the rate relative to the measurement with the fewest ranks. efficiency()
/// returns the rate per rank relative to that measurement's rate per rank.
[[nodiscard]] double speed_up(const std::vector<ScalingFigure>& figures, double samples_per_s);
[[nodiscard]] double efficiency(const std::vector<ScalingFigure>& figures, int ranks,
                                double samples_per_s);

/// Returns a self-contained SVG with logarithmic axes: measured rates, modelled rates (dashed), and
/// ideal scaling. figures: not empty, sorted by ranks. Escapes `title`.
[[nodiscard]] std::string scaling_svg(const std::vector<ScalingFigure>& figures,
                                      const std::vector<ModelledFigure>& modelled,
                                      const std::string& title);

}  // namespace dlrun
