#pragma once
// Standard output of `logs` and `--watch`: what somebody's program printed, which may hold
// anything.

#include <string>
#include <string_view>

namespace dlrun {

/// Makes a log safe for a terminal, piece by piece. Colours stay (SGR sequences without "conceal";
/// dropped where colour is false). A carriage return starts its line anew and clears it, so that
/// progress bars look as their program meant; where colour is false it is a newline. Sequences that
/// clear a line are dropped. Everything else that printable() escapes is escaped, but for newlines
/// and tabs.
class LogFilter {
 public:
  explicit LogFilter(bool colour) : colour_(colour) {}
  /// Returns the text that can be shown now. A character or sequence whose end is missing waits for
  /// the next call.
  [[nodiscard]] std::string pass(std::string_view bytes);
  /// Returns the bytes that waited, escaped, and ends the log's colours.
  [[nodiscard]] std::string finish();

 private:
  [[nodiscard]] std::string filtered(std::string_view bytes, bool is_last);

  bool colour_;
  bool is_coloured_ = false;
  std::string waiting_;  ///< shorter than the longest sequence
};

/// Prints a log: through a LogFilter on a terminal, byte by byte into a file or a pipe, or where
/// is_raw.
class LogOutput {
 public:
  LogOutput(bool is_raw, bool colour);
  LogOutput(const LogOutput&) = delete;
  LogOutput& operator=(const LogOutput&) = delete;
  ~LogOutput() { finish(); }

  /// False where standard output takes no more.
  [[nodiscard]] bool print(std::string_view bytes);
  /// Between two logs: prints what waits for its end.
  void finish();

 private:
  bool is_filtered_;
  LogFilter filter_;
};

}  // namespace dlrun
