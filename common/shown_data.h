#pragma once
// The types in which functions return what a command shows: lines with labels, tables and charts of
// bars. The types hold plain text; cli/terminal/ escapes, aligns and colours it.

#include <string>
#include <utility>
#include <vector>

namespace dlrun {

/// A value with a label before it. A line without a label continues the line above.
struct LabelledLine {
  std::string label, value;
  bool is_bad = false;  ///< the value is the reason for a failure
};
using LabelledLines = std::vector<LabelledLine>;

/// Adds a line. Does nothing if the value is empty.
inline void add_line(LabelledLines& lines, std::string label, std::string value) {
  if (!value.empty()) lines.push_back({std::move(label), std::move(value)});
}

/// Adds the values under one label, which stands before the first value. Leaves out empty values.
/// If the first value is empty, no line has the label.
inline void add_lines(LabelledLines& lines, const std::string& label,
                      const std::vector<std::string>& values) {
  for (const std::string& value : values)
    add_line(lines, &value == values.data() ? label : std::string(), value);
}

/// The rows of a table. The first row holds the titles.
using TableRows = std::vector<std::vector<std::string>>;

/// A bar with a text on each side of it.
struct ChartBar {
  std::string label;
  double length = 0;  ///< the longest measured bar has length 1
  std::string value;
  bool is_modelled = false;  ///< the value was computed, not measured
};
struct BarChart {
  std::string title;
  std::vector<ChartBar> bars;
};

}  // namespace dlrun
