#include "cli/terminal/print.h"

#include <poll.h>
#include <unistd.h>

#include <cstdio>

#include <nlohmann/json.hpp>
#include <stdio_ext.h>

#include "cli/terminal/stream.h"
#include "common/quoting.h"

namespace dlrun {
namespace {

/// Prints "dlrun: KIND MESSAGE" to standard error. kind: "error:" or "warning:", or empty.
void print_message(const Cli& cli, const Styled& kind, std::string_view message) {
  Text line;
  line.add("dlrun: ");
  if (!kind.text.empty()) line.add("{} ", kind);
  // In a message of several lines, a line from another program must not look like a message of
  // dlrun. Therefore a line that starts with "dlrun:" is indented.
  for (std::size_t at = message.find("\ndlrun:"); at != std::string_view::npos;
       at = message.find("\ndlrun:")) {
    line.add(Text::of_lines(message.substr(0, at))).add("\n  ");
    message.remove_prefix(at + 1);
  }
  print_aside(cli, line.add(Text::of_lines(message)).add("\n"));
}

}  // namespace

void print(const Cli& cli, const Text& text) {
  write_to(stdout, text.render(cli.colour_out));
}

void print_document(std::string_view bytes) {
  if (is_output_terminal()) {
    write_to(stdout, Text::of_lines(bytes).plain());
  } else {
    write_to(stdout, bytes);
  }
}

void print_planned_call(const Cli& cli, const std::string& script,
                        const std::vector<std::string>& argv) {
  print_document(script);
  print_note(cli, fmt::format("would call {}", shell_quote_all(argv)));
}

void print_json(const nlohmann::ordered_json& json) {
  write_to(stdout, printable_json(
                       json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace)) +
                       "\n");
}

void print_error(const Cli& cli, std::string_view message) {
  print_message(cli, styled(Style::kRed, "error:"), message);
}

void print_warning(const Cli& cli, std::string_view message) {
  print_message(cli, styled(Style::kYellow, "warning:"), message);
}

void print_note(const Cli& cli, std::string_view message) {
  print_message(cli, {}, message);
}

void print_diagnostics(const Cli& cli, const std::vector<Diagnostic>& diagnostics) {
  print_aside(cli, Text::of_lines(format_diagnostics(diagnostics)));
}

void print_failure(const Cli& cli, const Error& error) {
  if (!error.diagnostics.empty()) print_diagnostics(cli, error.diagnostics.all());
  if (!error.message.empty()) print_error(cli, error.message);
}

void print_aside(const Cli& cli, const Text& text) {
  flush_output();
  write_to(stderr, text.render(cli.colour_err));
  flush(stderr);
}

bool flush_output() {
  return flush(stdout);
}

bool finish_output() {
  if (flush_output()) return true;
  ::__fpurge(stdout);
  return false;
}

bool is_reader_gone() {
  pollfd output{STDOUT_FILENO, 0, 0};
  return ::poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
}

Result<> print_or_fail(const std::function<void()>& print, const std::string& facts) {
  print();
  if (!finish_output())
    return fail(Errc::kIo, "standard output could not be written whole, but {}", facts);
  return {};
}

bool is_output_terminal() {
  return ::isatty(STDOUT_FILENO) == 1;
}

bool is_error_terminal() {
  return ::isatty(STDERR_FILENO) == 1;
}

bool is_input_terminal() {
  return ::isatty(STDIN_FILENO) == 1;
}

}  // namespace dlrun
