#pragma once
// Parts of pages: HTML for text and numbers. These functions escape text from a run with
// escape_html(), except the cells of table_html(): the calling code must escape these.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/report/run_report.h"

namespace dlrun::page {

using Pairs = std::vector<std::pair<std::string, std::string>>;

/// Returns a readable name for a result: "samples per second" for samples_per_s. Leaves out a unit
/// at the name's end that readable_value() shows: "step" for step_ms.
[[nodiscard]] std::string readable_name(std::string_view name);

/// Returns a result's value: a number with at most four digits, and with the unit that the name
/// states: "0.9781", "84.3k", "12.5 ms". Returns a value that is no number unchanged. The name
/// "seconds" states a unit. A name also states a unit if it ends in _s (but not in _per_s),
/// _seconds, _ms, _bytes, _percent or _watts.
[[nodiscard]] std::string readable_value(std::string_view name, const std::string& value);

/// Returns the class of the style sheet for a state: good, bad or warn.
[[nodiscard]] std::string_view css_class_of(RunState state);

/// Returns the start of a page, up to its first heading.
[[nodiscard]] std::string head_html(std::string_view title);
/// Returns the end of a page, with dlrun's version. made_at: the present time, in UTC.
[[nodiscard]] std::string foot_html(const std::string& made_at);
/// Returns a tile: a box that shows a value above its name. Returns an empty text if `value` is
/// empty.
[[nodiscard]] std::string tile_html(std::string_view name, std::string_view value);
/// Returns a list of names and values.
[[nodiscard]] std::string list_html(const Pairs& pairs);
/// Returns a text of several lines that is hidden until the title is clicked; empty if `text` is
/// empty.
[[nodiscard]] std::string folded_html(std::string_view title, const std::string& text);
/// Returns the last lines that the program printed; empty if there are none.
[[nodiscard]] std::string last_words_html(const RunReport& report);

struct Column {
  std::string title;
  std::string_view kind;  ///< class of its cells: n number, t short text, w text that wraps
};
/// Returns a table. The cells in `rows` must be HTML.
[[nodiscard]] std::string table_html(const std::vector<Column>& columns,
                                     const std::vector<std::vector<std::string>>& rows);

/// Returns the time at which the first attempt began, else the time of the first line of
/// metrics.jsonl, in seconds since 1970; 0 if there is neither.
[[nodiscard]] double begin_of(const RunReport& report);
/// Returns the time of the run's last event, progress report or sample, in seconds since 1970;
/// begin_of() if the run has none of these.
[[nodiscard]] double end_of(const RunReport& report);
/// Returns the nodes of the run's ranks, else the nodes that the executor reports.
[[nodiscard]] std::string nodes_of(const RunReport& report);
/// Returns the value of a name; empty if there is none.
[[nodiscard]] std::string value_of(const Pairs& pairs, std::string_view name);

/// Returns the names of the results, the most interesting first, beginning with the result by which
/// runs are compared. Leaves out the hash of the parameters.
[[nodiscard]] std::vector<std::string> names_of_results(const Pairs& result);

}  // namespace dlrun::page
