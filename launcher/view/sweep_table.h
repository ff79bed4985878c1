#pragma once
// Lists the points of a sweep with their values and their results, for `dlrun sweep`. The strings
// in the rows are texts to display.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/env.h"
#include "common/result.h"
#include "common/shown_data.h"
#include "launcher/runs/index.h"
#include "launcher/runs/status.h"
#include "launcher/spec/known_servers.h"

namespace dlrun {

struct SweepTableRequest {
  std::string run_argument;  ///< the run as the user typed it, for a message
  /// The result or the key by which the points are sorted, or "point". Empty: the first of
  /// kComparedResults that a point has, else "point".
  std::string sort;
  bool is_ascending = false, is_descending = false;  ///< neither: the best point comes first
  std::optional<std::size_t> limit;                  ///< the most rows; nullopt: all
  bool wants_json = false;                           ///< returns the points as JSON instead of rows
};

/// A point in the table.
struct SweepTableRow {
  std::size_t number = 0;
  std::vector<std::string> values;  ///< one for each of SweepTable::keys
  std::string state;
  std::string compared_value;  ///< the point's value by which the points are sorted; may be empty
  /// The reason if the point has failed, the progress if it is running, or its other results if it
  /// has completed or if the row shows the result of an earlier run.
  std::string remark;
};

struct SweepTable {
  std::vector<std::string> keys;  ///< the keys that the points set
  /// The name of the result by which the points are sorted; empty if they are sorted by a key or
  /// their number.
  std::string compared_result;
  std::vector<SweepTableRow> rows;
  /// The points for `dlrun sweep --json`.
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  std::size_t hidden_count = 0;  ///< number of points beyond the limit
  /// Points have started, and none has a result, a loss or an accuracy to show.
  bool lacks_results = false;
  RunStatus overall;  ///< the state and the counts of all points together
  /// Why the controller did not answer; a state with '?' is then the last known one. Empty if all
  /// states are current.
  std::string unreachable_reason;
};

/// Returns the rows with their titles.
[[nodiscard]] TableRows sweep_rows(const SweepTable& sweep);

/// Makes the table of a sweep. Fails with kUsage if the run is no sweep, or if no point has a
/// numeric value for `request.sort`.
[[nodiscard]] Result<SweepTable> sweep_table(const Env& env, const KnownServers& servers,
                                             const IndexEntry& run,
                                             const SweepTableRequest& request);

}  // namespace dlrun
