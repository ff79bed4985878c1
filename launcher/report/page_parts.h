#pragma once
// The parts that pages are made of: HTML around words and numbers. What a run says goes through
// escape_html() here, or before a table's cells.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/report/run_report.h"

namespace dlrun::page {

using Pairs = std::vector<std::pair<std::string, std::string>>;

[[nodiscard]] std::string html(std::string_view text);
/// "7.5 s", "3 min 20 s", "2 d 4 h"
[[nodiscard]] std::string duration(double seconds);
/// "2 MiB"
[[nodiscard]] std::string memory(double bytes);
/// "samples per second" of samples_per_s
[[nodiscard]] std::string words_of_name(std::string_view name);

/// good, bad or warn: a class of the style.
[[nodiscard]] std::string_view class_of(RunState state);

[[nodiscard]] std::string head(std::string_view title);
[[nodiscard]] std::string foot(const std::string& made);
/// Nothing where value is empty.
[[nodiscard]] std::string tile(std::string_view name, std::string_view value);
[[nodiscard]] std::string list_html(const Pairs& pairs);
/// A text of several lines behind its title, shut; nothing where there is none.
[[nodiscard]] std::string folded(std::string_view title, const std::string& text);
/// What the program said at last; nothing where it said nothing.
[[nodiscard]] std::string last_words_html(const RunReport& report);

struct Column {
  std::string title;
  std::string_view kind;  ///< class of its cells: n number, t short text, w text that wraps
};
/// rows: HTML already.
[[nodiscard]] std::string table_html(const std::vector<Column>& columns,
                                     const std::vector<std::vector<std::string>>& rows);

/// When the run began, and its last word: seconds since 1970.
[[nodiscard]] double begin_of(const RunReport& report);
[[nodiscard]] double end_of(const RunReport& report);
[[nodiscard]] std::string nodes_of(const RunReport& report);
/// Empty where there is none.
[[nodiscard]] std::string value_of(const Pairs& pairs, std::string_view name);

/// The results in the order of what people look for, the one that runs are judged by first; a hash
/// is none.
[[nodiscard]] std::vector<std::string> names_of_results(const Pairs& result);

}  // namespace dlrun::page
