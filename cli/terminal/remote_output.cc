#include "cli/terminal/remote_output.h"

#include <cstdio>

#include "cli/terminal/print.h"
#include "cli/terminal/stream.h"

namespace dlrun {

RemoteOutput::RemoteOutput(const Cli& cli)
    : cli_(cli),
      out_filter_(cli.colour_out),
      err_filter_(cli.colour_err),
      filters_stdout_(is_output_terminal()),
      filters_stderr_(is_error_terminal()) {}

bool RemoteOutput::out(std::string_view bytes) {
  const bool is_written =
      filters_stdout_ ? write_to(stdout, out_filter_.pass(bytes)) : write_to(stdout, bytes);
  return flush(stdout) && is_written;
}

bool RemoteOutput::err(std::string_view bytes) {
  flush(stdout);
  static_cast<void>(filters_stderr_ ? write_to(stderr, err_filter_.pass(bytes))
                                    : write_to(stderr, bytes));
  flush(stderr);
  return true;  // text that standard error does not accept is lost, as in print.h
}

void RemoteOutput::finish() {
  if (filters_stdout_) write_to(stdout, out_filter_.finish());
  if (filters_stderr_) write_to(stderr, err_filter_.finish());
  flush(stdout);
  flush(stderr);
}

bool RemoteOutput::has_lost_reader() const {
  return is_reader_gone();
}

void RemoteOutput::on_written(const std::filesystem::path& file) {
  print(cli_, "{}\n", file.string());
}

}  // namespace dlrun
