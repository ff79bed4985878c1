#pragma once
// Copies the output of a rank's program into the rank's log and to the agent's own output.

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/files.h"
#include "common/result.h"
#include "runtime/agent/background_file.h"
#include "runtime/agent/event_loop.h"
#include "runtime/agent/line_holder.h"
#include "runtime/agent/pump.h"
#include "runtime/agent/sink.h"
#include "runtime/agent/text_marks.h"

namespace dlrun::agent {

/// Used by one thread, on the event loop, which must outlive this object. A log that cannot be
/// written never stops the program.
class ProgramOutput {
 public:
  /// warn is called with a message, once for each kind of loss in the log.
  ProgramOutput(EventLoop& loop, std::function<void(const std::string&)> warn);

  /// Writes a log at path from now on. Creates its folder if necessary.
  void open_log(const std::filesystem::path& path);

  /// Creates the pipes that become the program's standard output and error. Fails with kIo.
  [[nodiscard]] Result<> open_pipes();
  [[nodiscard]] int program_out() const { return out_pipe_.write_end.get(); }
  [[nodiscard]] int program_err() const { return err_pipe_.write_end.get(); }
  /// Closes this process's copies of the write ends and begins to read. Call it once the program
  /// has started.
  void begin();

  /// Puts marks into all text on standard error (text_marks.h). Must be called before begin().
  void mark_stderr(const TextMarks& marks) { marker_.emplace(marks); }

  /// Passes on whole lines, because other ranks print to the same pipe (`dlrun run`). Must be
  /// called before begin().
  void keep_lines_whole();

  /// Prints a line of the agent itself on standard error.
  void say(std::string_view line) {
    marker_ ? err_.push(marker_->mark_own_line(line)) : err_.push(line);
  }

  /// Call it after each round of the loop.
  void tick();

  /// Returns true if something was printed since the last call.
  [[nodiscard]] bool take_has_printed() { return std::exchange(has_printed_, false); }

  /// Returns true once every process that could print has closed its output. Also returns true
  /// before begin().
  [[nodiscard]] bool is_at_end() const;
  /// Returns the number of bytes that are not written to the agent's own output yet.
  [[nodiscard]] std::size_t held_bytes() const {
    return out_.held_bytes() + err_.held_bytes() + (marker_ ? marker_->held_bytes() : 0) +
           (out_lines_ ? out_lines_->held_bytes() : 0) +
           (err_lines_ ? err_lines_->held_bytes() : 0);
  }
  /// Returns the time at which tick() will pass on a line that has not ended yet; nullopt if no
  /// such line is held.
  [[nodiscard]] std::optional<LineHolder::Clock::time_point> next_deadline() const;
  [[nodiscard]] bool log_is_drained() const { return !log_ || log_->is_drained(); }

 private:
  void add_to_log(std::string_view bytes);

  EventLoop& loop_;
  std::function<void(const std::string&)> warn_;
  Sink out_;
  Sink err_;
  std::optional<TextMarker> marker_;
  std::optional<LineHolder> out_lines_, err_lines_;  ///< set by keep_lines_whole()
  std::unique_ptr<BackgroundFile> log_;
  bool log_has_gaps_ = false;
  bool has_printed_ = false;
  Pipe out_pipe_;
  Pipe err_pipe_;
  std::unique_ptr<Pump> out_pump_;
  std::unique_ptr<Pump> err_pump_;
};

}  // namespace dlrun::agent
