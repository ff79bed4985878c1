#pragma once
// Which text on srun's standard error is the ranks' and which is Slurm's, by construction. srun
// sends three kinds of text there: its own, slurmstepd's, and all that the ranks print. Lead obeys
// the first two, and a program can print any line of theirs. So each agent marks what its program
// prints, and lead takes the marks off. Lines without a mark are not a program's.
//
//   HEAD text TAIL "\n"      HEAD and TAIL are words of the attempt's secret, which programs do not
//   know
//
// slurmstepd passes whole lines of less than 1,024 bytes on in one piece, and srun writes a piece
// at once, so that one rank's line never breaks another's. The text of a line may be several lines
// of the program, or a part of one: line ends in it are encoded. When a rank ends slurmstepd may
// tear its last lines, between which another rank's appear: the rest of such a line has no HEAD,
// but TAIL still says whose it is.

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "common/env.h"
#include "runtime/agent/protocol.h"

namespace dlrun::agent {

struct TextMarks {
  std::string head;
  std::string tail;
};
/// The marks of the attempt with this secret. The secret cannot be found from them.
[[nodiscard]] TextMarks marks_of(const Key& secret);

/// An agent's side. Keeps the beginning of a line until the line ends, as slurmstepd does for
/// programs of its own, so that lines of several ranks do not mix. A carriage return ends a line,
/// too. A line that stays open is passed on after kOpenLimit: a prompt, or a progress bar.
class TextMarker {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kLineBytes = 1000;  ///< of a marked line, with its newline
  static constexpr std::chrono::milliseconds kOpenLimit{300};

  explicit TextMarker(TextMarks marks) : marks_(std::move(marks)) {}

  /// The marked lines that bytes complete.
  [[nodiscard]] std::string add(std::string_view bytes, Clock::time_point now);
  /// The open line if it is older than kOpenLimit; else nothing.
  [[nodiscard]] std::string take_late(Clock::time_point now);
  /// The open line.
  [[nodiscard]] std::string take_rest();
  /// A whole line of the agent's own, which comes before the program's open one.
  [[nodiscard]] std::string whole(std::string_view line) const { return mark(line); }

  [[nodiscard]] std::size_t held_bytes() const { return open_.size(); }

 private:
  [[nodiscard]] std::string mark(std::string_view text) const;

  TextMarks marks_;
  std::string open_;
  Clock::time_point open_since_{};
};

/// Lead's side: takes the marks off and finds the lines that are not the ranks'.
class MarkedTextReader {
 public:
  static constexpr std::size_t kLineLimitBytes =
      4096;  ///< longer lines without a mark are passed on unread

  /// on_line gets each line without a mark, without its newline.
  MarkedTextReader(TextMarks marks, std::function<void(std::string_view)> on_line)
      : marks_(std::move(marks)), on_line_(std::move(on_line)) {}

  /// The text for people in bytes, which may begin and end anywhere.
  [[nodiscard]] std::string read(std::string_view bytes);
  /// The text of a last line that has no end.
  [[nodiscard]] std::string take_rest();

 private:
  void take_line(std::string_view line, std::string& out);
  /// A rank's text, encoded; label: `srun --label`'s words in front of it, or empty.
  void put(std::string_view label, std::string_view encoded, std::string& out);

  TextMarks marks_;
  std::function<void(std::string_view)> on_line_;
  std::string line_;          ///< its end has not come yet
  bool is_long_ = false;      ///< the line's beginning was passed on already
  bool is_mid_line_ = false;  ///< the last text did not end its line
  std::string open_label_;    ///< of that line
};

/// True where srun's words (argv, up to the ranks' program) or env send the ranks' standard error
/// to a file of its own: it must not be marked then, and what srun prints itself is Slurm's alone.
[[nodiscard]] bool ranks_errors_go_elsewhere(const std::vector<std::string>& argv, const Env& env);
/// argv and env without what makes slurmstepd tear lines (`--unbuffered`): agents pass text on at
/// once by themselves.
void keep_lines_whole(std::vector<std::string>& argv, Env& env);

}  // namespace dlrun::agent
