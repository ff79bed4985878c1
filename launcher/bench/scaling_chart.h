#pragma once
// Shows the measurements of `dlrun bench scaling` and a model's predictions: tables and bars. Pure
// functions. Every value that is not measured is labelled as modelled.

#include <string>
#include <vector>

#include "common/shown_data.h"
#include "launcher/bench/scaling_model.h"

namespace dlrun {

struct ScalingTables {
  TableRows measured;
  std::string models_text;  ///< the models as a line of text; empty if nothing is modelled
  TableRows modelled;       ///< empty if nothing is modelled
};

/// Return the tables and the bars. measurements: not empty, sorted by ranks. modelled_work: as in
/// ScalingPrediction.
[[nodiscard]] ScalingTables scaling_tables(const std::vector<ScalingMeasurement>& measurements,
                                           const std::vector<ScalingModel>& models,
                                           const std::vector<ModelledRate>& modelled,
                                           const char* modelled_work);
[[nodiscard]] BarChart scaling_bars(const std::vector<ScalingMeasurement>& measurements,
                                    const std::vector<ModelledRate>& modelled);

}  // namespace dlrun
