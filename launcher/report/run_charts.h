#pragma once
// Draws the curves of runs: loss, accuracy, throughput, and the ranks' use of resources.

#include <string>
#include <vector>

#include "launcher/report/run_report.h"

namespace dlrun {

/// Returns the charts of one run, or of several runs in common charts: the first run has the first
/// colour of the charts, and so on. Lines do not join attempts, because nothing was computed
/// between them. Returns an empty text if there is nothing to draw. names: the name of each run for
/// the legends.
[[nodiscard]] std::string charts_html(const std::vector<const RunReport*>& reports,
                                      const std::vector<std::string>& names);

}  // namespace dlrun
