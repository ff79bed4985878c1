#pragma once
// The one printer: everything that dlrun says to people or gives to programs goes out here.
//
// Text for people is escaped (text.h). Nothing here throws or ends the process because of its
// stream: a closed one, a full disk and a pipe that nobody reads any more are remembered, and
// is_all_printed() tells of them. Standard error is never waited for, and what it does not take is
// lost.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/cli.h"
#include "cli/terminal/text.h"
#include "launcher/spec/diagnostic.h"

namespace dlrun {

/// To standard output, in colour where cli.colour_out says so.
void print(const Cli& cli, const Text& text);
template <typename... Args>
void print(const Cli& cli, std::type_identity_t<TextFormat<Args...>> format, const Args&... args) {
  print(cli, text<Args...>(format, args...));
}

/// Prints a text that programs read (a script, a page, a schema) to standard output. A file or a
/// pipe gets its bytes; on a terminal everything but newlines and tabs is escaped.
void print_document(std::string_view bytes);

/// Indented JSON and a newline, to standard output. Control, hidden and direction-turning
/// characters are \uXXXX, bytes that are not UTF-8 are U+FFFD.
void print_json(const nlohmann::ordered_json& json);

/// To standard error, what was printed before first: "dlrun: error: MESSAGE". A message may have
/// several lines.
void print_error(const Cli& cli, std::string_view message);
void print_warning(const Cli& cli, std::string_view message);
/// A remark for people: never part of what a script reads.
void print_note(const Cli& cli, std::string_view message);
void print_diagnostics(const Cli& cli, const std::vector<Diagnostic>& diagnostics);
/// Text alone, such as a question.
void print_aside(const Cli& cli, const Text& text);

/// Hands what was printed to the stream; false as soon as standard output has failed once.
bool flush_output();
/// flush_output(); what failed is dropped, so that the end of the process does not try again.
[[nodiscard]] bool is_all_printed();
/// Whether standard output is a pipe whose reader has gone, as in `dlrun ls | head -1`: no error to
/// tell of.
[[nodiscard]] bool has_reader_left();

/// Prints; where that fails, kIo with instead: what the user must not miss, such as the job that is
/// queued.
[[nodiscard]] Result<> print_or_say(const std::function<void()>& print, const std::string& instead);

/// Whether standard output, standard error, or standard input is a terminal.
[[nodiscard]] bool is_output_terminal();
[[nodiscard]] bool is_error_terminal();
[[nodiscard]] bool is_input_terminal();

}  // namespace dlrun
