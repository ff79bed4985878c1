#pragma once
// Shows the measurements of `dlrun bench scaling` and a model's predictions on a terminal: a table
// and bars. Pure functions. Every value that is not measured is labelled as modelled.

#include <vector>

#include "cli/terminal/printed_text.h"
#include "launcher/bench/scaling_model.h"

namespace dlrun {

/// Return the table and the bars. figures: not empty, sorted by ranks. per: the unit of work that
/// the models' times are for, such as "step".
[[nodiscard]] Text scaling_table(const std::vector<ScalingFigure>& figures,
                                 const std::vector<ScalingModel>& models,
                                 const std::vector<ModelledFigure>& modelled, const char* per);
[[nodiscard]] Text scaling_bars(const std::vector<ScalingFigure>& figures,
                                const std::vector<ModelledFigure>& modelled);

}  // namespace dlrun
