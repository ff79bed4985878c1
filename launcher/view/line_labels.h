#pragma once
// Puts a label before the lines of a log, so that the lines of several ranks can be told apart.

#include <string>
#include <string_view>

namespace dlrun {

/// Labels the lines of one log, which arrives in pieces.
class LineLabeler {
 public:
  /// label: "rank 3: ". With an empty label, label_lines() returns its bytes unchanged.
  explicit LineLabeler(std::string label) : label_(std::move(label)) {}

  /// Returns the complete lines, each with the label. A carriage return, as in progress bars, also
  /// ends a line. Divides a line that is longer than 64 KiB. Stores an incomplete last line until
  /// the next call, so that the lines of two logs never mix.
  [[nodiscard]] std::string label_lines(std::string_view bytes);
  /// Returns the incomplete last line as a line; "" if there is none.
  [[nodiscard]] std::string finish();

 private:
  std::string label_;
  std::string incomplete_line_;            ///< the last line until its end arrives
  bool is_after_carriage_return_ = false;  ///< a carriage return has just ended a line
};

}  // namespace dlrun
