#pragma once
// A line on standard error that shows progress. show() overwrites it, and clear() removes it.

#include "cli/cli.h"

namespace dlrun {

class ProgressLine {
 public:
  explicit ProgressLine(const Cli& cli);
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine() { clear(); }

  /// Returns true if standard error is a terminal that can show the line; otherwise show()
  /// does nothing.
  [[nodiscard]] bool can_show() const { return can_show_; }
  /// Shows `what` and `figures`, escaped. On a narrow terminal, first cuts `what`, then `figures`.
  void show(const std::string& what, const std::string& figures);
  void clear();

 private:
  bool can_show_, is_drawn_ = false;
};

}  // namespace dlrun
