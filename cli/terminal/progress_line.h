#pragma once
// One line at the bottom of a terminal, on standard error, which is overwritten until it
// is cleared.

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
  [[nodiscard]] bool is_shown() const { return is_shown_; }
  /// Shows both texts, escaped. On a narrow terminal `what` is cut before `figures`.
  void show(const std::string& what, const std::string& figures);
  void clear();

 private:
  bool is_shown_, is_drawn_ = false;
};

}  // namespace dlrun
