#pragma once
// Reads all files of a run once, and makes pages from them.

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/report/run_use.h"
#include "launcher/runs/history.h"
#include "launcher/runs/index.h"
#include "launcher/runs/ranks.h"
#include "launcher/runs/status.h"

namespace dlrun {

/// All data of one run that the pages show.
struct RunReport {
  IndexEntry run;
  RunStatus status;
  std::string label;        ///< the name that tells this run from the others on the page
  std::string short_label;  ///< a shorter name for a point of a sweep; empty: `label` is used
  RunHistory history;
  std::vector<MetricsPoint> metrics;
  std::optional<RankSnapshot> ranks;
  /// The run's origin and environment, and what its rehearsal predicts, as name and value.
  std::vector<std::pair<std::string, std::string>> background;
  /// The keys of the effective spec: "train.batch", "32".
  std::vector<std::pair<std::string, std::string>> keys;
  /// The fields of the program's final report.
  std::vector<std::pair<std::string, std::string>> result;
  std::vector<std::string> last_words;          ///< last lines of output of a failed run
  std::optional<RequestedResources> requested;  ///< nullopt: the run asked Slurm for nothing
  RunUse use;                                   ///< the use of all attempts together
  std::optional<double> slurm_joules;  ///< energy of the nodes, as Slurm's accounting has it
  std::string spec, script;            ///< texts of resolved.yaml and job.sh, cut after 256 KiB
  std::vector<std::string> problems;   ///< sentences about files that are damaged or cannot be read
};

/// Reads the run's files. Skips missing files. Adds a message to `problems` for each file that is
/// damaged or cannot be read.
[[nodiscard]] RunReport read_report(IndexEntry run, RunStatus status);

/// If the run has no result, sets the result to the loss and the accuracy of the last progress
/// report. `dlrun sweep` shows these values, too.
void set_result_from_progress(RunReport& report);

/// Inserts the program parameters and their values before the keys of a point's spec. Removes
/// launch.command, because it contains the same values.
void insert_parameters(RunReport& report,
                       const std::vector<std::pair<std::string, std::string>>& parameters);

/// Returns the keys of the effective spec ("train.batch") with their values, at most 4096. Fails
/// with kInvalid and line and column if the text is not YAML, has more than 16 levels, or has
/// anchors, which dlrun does not write.
[[nodiscard]] Result<std::vector<std::pair<std::string, std::string>>> flat_keys(
    std::string_view resolved_yaml);

/// Sorts the runs by the first of kComparedResults that any of them has, as `dlrun sweep` does.
/// Runs without this result come last and keep their order.
void sort_best_first(std::vector<RunReport>& reports);

/// Returns a self-contained page about one run, without scripts and external resources. made_at is
/// the present time, in UTC. Escapes all text from the run.
[[nodiscard]] std::string report_page(const RunReport& report, const std::string& made_at);
/// Returns a page like that of report_page(), but with the given title and a comparison of several
/// runs.
[[nodiscard]] std::string comparison_page(const std::vector<RunReport>& reports,
                                          const std::string& title, const std::string& made_at);

}  // namespace dlrun
