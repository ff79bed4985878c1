#pragma once
// Prints the output of a host. On a terminal, control sequences other than colours and styles are
// escaped or dropped (LogFilter). Files and pipes get every byte.

#include <string>
#include <string_view>

#include "cli/cli.h"
#include "cli/terminal/log_output.h"
#include "launcher/remote/host_command.h"

namespace dlrun {

class RemoteOutput final : public HostOutput {
 public:
  explicit RemoteOutput(const Cli& cli);
  ~RemoteOutput() override { RemoteOutput::finish(); }

  bool out(std::string_view bytes) override;
  bool err(std::string_view bytes) override;
  void finish() override;
  [[nodiscard]] bool has_lost_reader() const override;
  void on_written(const std::filesystem::path& file) override;

 private:
  const Cli& cli_;
  LogFilter out_filter_, err_filter_;
  bool filters_stdout_, filters_stderr_;
};

}  // namespace dlrun
