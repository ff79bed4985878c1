#pragma once
// Prints the ordinary output of commands, for people and for programs. Other files print the full
// screen of `top`, the logs of runs, the output of hosts (-H), the progress line and dlrun's own
// log (-v).
//
// Text for people is escaped (printed_text.h). No function here throws or ends the process because
// of its stream. finish_output() reports whether standard output has failed: it may be closed, on
// a full disk, or a pipe without a reader. Text that standard error does not accept is lost.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/cli.h"
#include "cli/terminal/printed_text.h"
#include "launcher/spec/diagnostic_text.h"

namespace dlrun {

/// Prints to standard output, in colour if cli.colour_out.
void print(const Cli& cli, const Text& text);
template <typename... Args>
void print(const Cli& cli, std::type_identity_t<TextFormat<Args...>> format, const Args&... args) {
  print(cli, text<Args...>(format, args...));
}

/// Prints a text for programs (a script, a page, a schema) to standard output. A file or a pipe
/// gets the exact bytes. On a terminal the text is escaped, but newlines and tabs stay.
void print_document(std::string_view bytes);

/// Prints a script and the command that would run it (--dry-run).
void print_planned_call(const Cli& cli, const std::string& script,
                        const std::vector<std::string>& argv);

/// Prints indented JSON and a newline to standard output. Control characters, hidden characters and
/// characters that change the direction of text become \uXXXX; bytes that are not UTF-8 become
/// U+FFFD.
void print_json(const nlohmann::ordered_json& json);

/// Prints "dlrun: error: MESSAGE" to standard error, after flushing standard output. A message may
/// have several lines.
void print_error(const Cli& cli, std::string_view message);
void print_warning(const Cli& cli, std::string_view message);
/// Prints a remark for people, which scripts do not read, to standard error.
void print_note(const Cli& cli, std::string_view message);
void print_diagnostics(const Cli& cli, const std::vector<Diagnostic>& diagnostics);
/// Prints an error: first its diagnostics, then its message.
void print_failure(const Cli& cli, const Error& error);
/// Prints text without a prefix, such as a question, to standard error.
void print_aside(const Cli& cli, const Text& text);

/// Flushes standard output. Returns false if standard output has ever failed.
bool flush_output();
/// Calls flush_output() and returns its result. If the flush fails, discards the buffered output,
/// so that the process does not try to write this output again when it exits.
[[nodiscard]] bool finish_output();
/// Returns true if standard output is a pipe whose reader has gone, as in `dlrun ls | head -1`. The
/// caller then reports no error.
[[nodiscard]] bool is_reader_gone();

/// Calls `print`. If standard output fails, fails with kIo and a message that contains `facts`: a
/// sentence that the user needs in any case, such as "the run ID is submitted, as job 42".
[[nodiscard]] Result<> print_or_fail(const std::function<void()>& print, const std::string& facts);

/// Each function returns true if its stream is a terminal.
[[nodiscard]] bool is_output_terminal();
[[nodiscard]] bool is_error_terminal();
[[nodiscard]] bool is_input_terminal();

}  // namespace dlrun
