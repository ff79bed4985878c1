#pragma once
// Prints logs to standard output for `logs` and `--watch`. A log may hold any bytes.

#include <string>
#include <string_view>

namespace dlrun {

/// Makes a log safe for a terminal, piece by piece.
///
/// - SGR sequences that only set colours and other styles of visible text stay. They are dropped if
///   `colour` is false.
/// - A carriage return clears the line and starts it again, so that progress bars look as intended.
///   It becomes a newline if `colour` is false. A carriage return before a newline is dropped.
/// - Sequences that clear a line are dropped.
/// - Newlines, tabs and the variation selectors of emoji stay. The other characters appear as
///   printable() returns them.
class LogFilter {
 public:
  explicit LogFilter(bool colour) : colour_(colour) {}
  /// Returns the text that can be shown now. Keeps an incomplete character or sequence, and a
  /// carriage return at the end, for the next call.
  [[nodiscard]] std::string pass(std::string_view bytes);
  /// Returns the bytes that pass() has kept, escaped, and the sequence that resets the colours if
  /// the log has set some.
  [[nodiscard]] std::string finish();

 private:
  /// Returns the text to show for the bytes. Keeps incomplete bytes at the end in waiting_, unless
  /// `is_last`: no bytes follow.
  [[nodiscard]] std::string filter_bytes(std::string_view bytes, bool is_last);

  bool colour_;
  bool is_coloured_ = false;  ///< the log has set a style, which finish() resets
  std::string waiting_;       ///< the bytes that pass() has kept
};

/// Prints a log. On a terminal the bytes pass a LogFilter, except with `is_raw`. A file or a pipe
/// gets the bytes unchanged.
class LogOutput {
 public:
  LogOutput(bool is_raw, bool colour);
  LogOutput(const LogOutput&) = delete;
  LogOutput& operator=(const LogOutput&) = delete;
  ~LogOutput() { finish(); }

  /// Returns false if standard output accepts no more.
  [[nodiscard]] bool print(std::string_view bytes);
  /// Ends one log before the next one begins: prints the bytes that the filter has kept.
  void finish();

 private:
  bool is_filtered_;
  LogFilter filter_;
};

}  // namespace dlrun
