#pragma once
// One line at the bottom of a terminal, on standard error, that is written over until it is
// cleared.

#include "cli/cli.h"

namespace dlrun {

class ProgressLine {
 public:
  explicit ProgressLine(const Cli& cli);
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine() { clear(); }

  /// Whether standard error is a terminal that takes it; otherwise show() does nothing.
  [[nodiscard]] bool is_shown() const { return is_shown_; }
  /// what gives way to figures where the line is too narrow for both. Both are values: escaped.
  void show(const std::string& what, const std::string& figures);
  void clear();

 private:
  bool is_shown_, is_drawn_ = false;
};

}  // namespace dlrun
