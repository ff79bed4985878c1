#pragma once
// All that a run has left behind, read once, and the page that is made of it.

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/runs/history.h"
#include "launcher/runs/index.h"
#include "launcher/runs/ranks.h"
#include "launcher/runs/status.h"

namespace dlrun {

struct RunReport {
  IndexEntry run;
  RunStatus status;
  std::string label;  ///< what it is called among others
  std::string place;  ///< the same, short, where what it sets stands beside it; empty: label
  RunHistory history;
  std::vector<MetricsPoint> metrics;
  std::optional<RankSnapshot> ranks;
  std::vector<std::pair<std::string, std::string>>
      facts;  ///< where it came from, what it found; name and value
  std::vector<std::pair<std::string, std::string>>
      keys;  ///< of the effective spec, flat: "train.batch", "32"
  std::vector<std::pair<std::string, std::string>>
      result;                           ///< what the program reported at its end
  std::vector<std::string> last_words;  ///< of a run that failed
  std::string spec, script;
  std::vector<std::string> problems;  ///< what could not be read, or is damaged: sentences
};

/// Reads what there is; what there is not is left out, what cannot be read is among the problems.
[[nodiscard]] RunReport read_report(IndexEntry run, RunStatus status);

/// The effective spec's lines as paths and values, without the comments that say where they came
/// from.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> flat_keys(
    const std::string& resolved_yaml);

/// By the result that people judge such runs by, as `dlrun sweep` does; those without one keep
/// their order behind.
void sort_best_first(std::vector<RunReport>& reports);

/// One self-contained page: no script, nothing from elsewhere. Of one run all that is known, of
/// several a comparison, title above it. made: when, as UTC. Whatever a run says is text.
[[nodiscard]] std::string report_page(const RunReport& report, const std::string& made);
[[nodiscard]] std::string comparison_page(const std::vector<RunReport>& reports,
                                          const std::string& title, const std::string& made);

}  // namespace dlrun
