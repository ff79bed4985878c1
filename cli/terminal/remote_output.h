#pragma once
// Prints the output of a host. On a terminal only text and the colours of visible text pass; files
// and pipes get every byte.

#include <string>
#include <string_view>

#include "cli/cli.h"
#include "cli/terminal/log_output.h"

namespace dlrun {

class RemoteOutput {
 public:
  explicit RemoteOutput(const Cli& cli);
  RemoteOutput(const RemoteOutput&) = delete;
  RemoteOutput& operator=(const RemoteOutput&) = delete;
  ~RemoteOutput() { finish(); }

  /// Print bytes of the host's standard output and standard error. Return false if the stream
  /// accepts no more.
  bool out(std::string_view bytes);
  bool err(std::string_view bytes);
  /// Prints what is left of incomplete characters.
  void finish();

 private:
  LogFilter out_, err_;
  bool filters_out_, filters_err_;
};

}  // namespace dlrun
