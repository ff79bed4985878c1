#pragma once
// Models how the rate of an experiment grows with its ranks, from measurements at several sizes.
// Pure functions.

#include <string>
#include <vector>

namespace dlrun {

/// The measured rate of one run.
struct ScalingMeasurement {
  int nodes = 0;  ///< 1 for a run on this machine
  int ranks = 0;
  double samples_per_s = 0;  ///< of all ranks together
  std::string run;           ///< the run's id
};

/// The costs of a step in which each of n ranks takes one batch. The step takes compute +
/// 2(n-1) latency + 2(n-1)/n transfer. The last two terms are the cost of a ring all-reduce
/// (Thakur, Rabenseifner, Gropp 2005, section 4.5: reduce-scatter and all-gather in n-1 messages
/// each). latency is the paper's alpha; transfer is S/B for S bytes of gradients at B bytes per
/// second. The model assumes that no communication overlaps with computation.
struct ScalingModel {
  double compute_s = 0, latency_s = 0, transfer_s = 0;
  /// Returns the seconds of a step on this number of ranks.
  [[nodiscard]] double step_s(int ranks) const;
  /// Returns the samples per second of all ranks. batch: samples per step on each rank.
  [[nodiscard]] double samples_per_s(int ranks, double batch) const;
};

/// Fits by least squares of the relative errors. A fit with a negative cost is dropped.
/// - One number of ranks: returns no model.
/// - Two numbers: latency and transfer cannot be separated. Returns two models. The first counts
///   the whole cost of communication as latency, and the second counts it as transfer; the real
///   costs are between them. If both fits are dropped, returns a fit without communication.
/// - Three or more numbers: latency and transfer can be separated. Fits models with both, with one
///   and with neither of the two costs, and returns the model with the smallest error.
/// batch: samples per step on each rank, > 0.
[[nodiscard]] std::vector<ScalingModel> fit_scaling(
    const std::vector<ScalingMeasurement>& measurements, double batch);

/// The predicted rates at a number of ranks beyond the measured ones: the lowest and the highest of
/// all models.
struct ModelledRate {
  int ranks = 0;
  double low = 0, high = 0;  ///< samples per second
};
inline constexpr int kMostModelledRanks = 1024;
/// Predicts the rates at twice the largest measured number of ranks, four times, and so on; the
/// last prediction is at kMostModelledRanks. Returns an empty list if `models` is empty, or if
/// the largest measured number is kMostModelledRanks or more.
[[nodiscard]] std::vector<ModelledRate> predict_scaling(
    const std::vector<ScalingMeasurement>& measurements, const std::vector<ScalingModel>& models,
    double batch);

/// speed_up() returns the rate relative to the measurement with the fewest ranks. efficiency()
/// returns the rate per rank relative to that measurement's rate per rank.
[[nodiscard]] double speed_up(const std::vector<ScalingMeasurement>& measurements,
                              double samples_per_s);
[[nodiscard]] double efficiency(const std::vector<ScalingMeasurement>& measurements, int ranks,
                                double samples_per_s);

/// Returns a self-contained SVG with logarithmic axes: measured rates, modelled rates (dashed), and
/// ideal scaling. measurements: not empty, sorted by ranks. Escapes `title`.
[[nodiscard]] std::string scaling_svg(const std::vector<ScalingMeasurement>& measurements,
                                      const std::vector<ModelledRate>& modelled,
                                      const std::string& title);

}  // namespace dlrun
