#pragma once
// Separates the text of the ranks from the messages of Slurm on srun's standard error, to which
// srun, slurmstepd and all ranks print. Lead acts on messages of srun and slurmstepd, but a program
// can print the same text. So each agent marks the text of its program, and lead removes the marks.
// A line without a mark does not come from a program.
//
// Form of a marked line: HEAD text TAIL "\n". HEAD and TAIL are derived from the attempt's secret,
// which programs do not know.
//
// slurmstepd passes on a whole line of less than 1,024 bytes in one piece, and srun writes a piece
// with one call, so lines of several ranks never mix. One marked line may contain several lines of
// the program, or a part of one; newlines in it are encoded. When a rank ends, slurmstepd may split
// the rank's last lines and put lines of other ranks in between. The second part of a split line
// has no HEAD, but its TAIL still shows that a rank wrote it.

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "common/env.h"
#include "runtime/agent/line_holder.h"
#include "runtime/agent/protocol.h"

namespace dlrun::agent {

struct TextMarks {
  std::string head;
  std::string tail;
};
/// Returns the marks of the attempt with this secret. They do not reveal the secret.
[[nodiscard]] TextMarks marks_of(const Key& secret);

/// An agent's side: marks text. Holds the open line, which is the beginning of a line that has not
/// ended yet, as LineHolder does.
class TextMarker {
 public:
  using Clock = LineHolder::Clock;
  static constexpr std::size_t kMarkedLineLimitBytes = 1000;  ///< with the newline
  static constexpr std::chrono::milliseconds kOpenLimit = LineHolder::kOpenLimit;

  explicit TextMarker(TextMarks marks) : marks_(std::move(marks)) {}

  /// Adds text of the program. Returns the lines that this text completes, marked. Also returns the
  /// open line if it has reached kMarkedLineLimitBytes.
  [[nodiscard]] std::string add(std::string_view bytes, Clock::time_point now) {
    return mark(lines_.add(bytes, now));
  }
  /// Returns the open line, marked, if it is older than kOpenLimit; otherwise an empty text.
  [[nodiscard]] std::string take_late(Clock::time_point now) { return mark(lines_.take_late(now)); }
  /// Returns the open line, marked.
  [[nodiscard]] std::string take_rest() { return mark(lines_.take_rest()); }
  /// Marks a whole line of the agent itself. This line appears before the program's open line.
  [[nodiscard]] std::string mark_own_line(std::string_view line) const { return mark(line); }

  [[nodiscard]] std::size_t held_bytes() const { return lines_.held_bytes(); }
  /// Returns the time at which take_late() returns the open line; nullopt without an open line.
  [[nodiscard]] std::optional<Clock::time_point> deadline() const { return lines_.deadline(); }

 private:
  [[nodiscard]] std::string mark(std::string_view text) const;

  TextMarks marks_;
  LineHolder lines_{kMarkedLineLimitBytes};
};

/// Lead's side: removes the marks and finds the lines that do not come from ranks.
class MarkedTextReader {
 public:
  /// The largest number of bytes that are held of a line whose end has not been read. A longer
  /// beginning is passed on to the user immediately. A line with more bytes goes to the user only,
  /// not to on_unmarked_line, even if it is read in one piece.
  static constexpr std::size_t kLineLimitBytes = 4096;

  /// on_unmarked_line gets each line of at most kLineLimitBytes that has no mark, without its
  /// newline.
  MarkedTextReader(TextMarks marks, std::function<void(std::string_view)> on_unmarked_line)
      : marks_(std::move(marks)), on_unmarked_line_(std::move(on_unmarked_line)) {}

  /// Handles bytes, which may begin and end anywhere in a line. Returns the text for the user.
  [[nodiscard]] std::string read(std::string_view bytes);
  /// Returns the text of a last line without a newline.
  [[nodiscard]] std::string take_rest();

 private:
  void handle_line(std::string_view line, std::string& out);
  /// Decodes the text of a rank and appends it to out. label: the label of `srun --label`, or
  /// empty.
  void put(std::string_view label, std::string_view encoded, std::string& out);

  TextMarks marks_;
  std::function<void(std::string_view)> on_unmarked_line_;
  std::string line_;          ///< the beginning of a line whose end has not arrived
  bool is_long_ = false;      ///< the beginning of the line was passed on already
  bool is_mid_line_ = false;  ///< the text that was passed on last ended without a newline
  std::string open_label_;    ///< label of the line that has not ended, if there is one
};

/// Returns true if srun's options (argv up to the agent) or env send the ranks' standard error to
/// files. In that case the agents must not mark this text, and srun's own standard error has only
/// Slurm's messages.
[[nodiscard]] bool rank_stderr_goes_to_files(const std::vector<std::string>& argv, const Env& env);
/// Removes the options that make slurmstepd split lines (`--unbuffered`) from argv and env. These
/// options are not needed, because agents pass on each line as soon as it is complete.
void keep_lines_whole(std::vector<std::string>& argv, Env& env);

}  // namespace dlrun::agent
