#pragma once
// What `dlrun bench scaling` measured, and what a model makes of it, for people: a table, bars on a
// terminal, a drawing. Pure. Whatever is not measured is called modelled.

#include <string>
#include <vector>

#include "cli/terminal/text.h"

namespace dlrun {

/// One run.
struct ScalingFigure {
  int nodes = 0;
  int ranks = 0;
  double samples_per_s = 0;
  std::string run;
};

/// A step of n ranks that each take one batch: compute + 2(n-1) latency + 2(n-1)/n transfer, in
/// seconds. The last two are what a ring all-reduce costs (Thakur, Rabenseifner, Gropp 2005,
/// section 4.5: reduce-scatter and all-gather in n-1 messages each): alpha, and S/B for S bytes of
/// gradients over B bytes a second. Nothing overlaps.
struct ScalingModel {
  double compute_s = 0, latency_s = 0, transfer_s = 0;
  [[nodiscard]] double step_s(int ranks) const;
  /// batch: samples of a step on each rank
  [[nodiscard]] double samples_per_s(int ranks, double batch) const;
};

/// The least-squares fits without negative costs, by relative error. Three numbers of ranks or more
/// tell latency and transfer apart: one model. Two do not: one model with all of the cost in
/// latency, one with all of it in transfer, and what is between them is possible. Fewer: none.
/// batch > 0.
[[nodiscard]] std::vector<ScalingModel> fit_scaling(const std::vector<ScalingFigure>& figures,
                                                    double batch);

/// What the models expect of a number of ranks beyond the measured ones, between the least and the
/// most of them.
struct ModelledFigure {
  int ranks = 0;
  double low = 0, high = 0;  ///< samples a second
};
inline constexpr int kMostModelledRanks = 1024;
/// Twice the most ranks that were measured, and so on to kMostModelledRanks, which is the last.
[[nodiscard]] std::vector<ModelledFigure> continue_scaling(
    const std::vector<ScalingFigure>& figures, const std::vector<ScalingModel>& models,
    double batch);

/// How much faster than the figure with the fewest ranks, and which part of that figure's rate for
/// each rank is left.
[[nodiscard]] double speed_up(const std::vector<ScalingFigure>& figures, double samples_per_s);
[[nodiscard]] double efficiency(const std::vector<ScalingFigure>& figures, int ranks,
                                double samples_per_s);

/// The three below: figures not empty, by their ranks. per: what the models' times are of, "step".
[[nodiscard]] Text scaling_table(const std::vector<ScalingFigure>& figures,
                                 const std::vector<ScalingModel>& models,
                                 const std::vector<ModelledFigure>& modelled, const char* per);
[[nodiscard]] Text scaling_bars(const std::vector<ScalingFigure>& figures,
                                const std::vector<ModelledFigure>& modelled);
/// A self-contained SVG, both axes logarithmic: measured, modelled (dashed), and what no cost at
/// all would give.
[[nodiscard]] std::string scaling_svg(const std::vector<ScalingFigure>& figures,
                                      const std::vector<ModelledFigure>& modelled,
                                      const std::string& title);

}  // namespace dlrun
