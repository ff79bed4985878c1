#pragma once
// The curves of runs: loss, accuracy, throughput, and what the ranks used.

#include <string>
#include <vector>

#include "launcher/report/run_report.h"

namespace dlrun {

/// Figures of one run, or of several over each other, in the colours of their order. No line goes
/// from one attempt to the next: between them nothing was computed. Empty where there is nothing to
/// draw.
[[nodiscard]] std::string charts_html(const std::vector<const RunReport*>& reports);

}  // namespace dlrun
