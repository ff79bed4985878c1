#include "cli/follow.h"

#include "cli/terminal/log_output.h"
#include "cli/terminal/print.h"
#include "common/text.h"
#include "launcher/view/run_log.h"

namespace dlrun {
namespace {

class WatchPrinter final : public WatchListener {
 public:
  WatchPrinter(const Cli& cli, bool is_raw) : cli_(cli), output_(is_raw, cli.colour_out) {}
  // A failure of standard output is reported at exit.
  bool on_log(std::string_view bytes) override { return output_.print(bytes); }
  bool on_log_batch_end() override { return flush_output(); }
  void on_next_log() override { output_.finish(); }
  void on_news(const IndexEntry& run, const std::string& news) override {
    print_note(cli_, fmt::format("{}: {}", printable(run.id), printable(news)));
  }

 private:
  const Cli& cli_;
  LogOutput output_;
};

}  // namespace

Result<RunStatus> follow_run(const Cli& cli, RunInspector& inspector, const IndexEntry& run,
                             const WatchOptions& options, const Interrupt& interrupt, bool is_raw) {
  WatchPrinter printer(cli, is_raw);
  auto status = watch_run(inspector, run, options, printer, interrupt);
  if (status && status->state == RunState::kFailed) {
    if (const auto errors = error_log_with_text(run)) {
      print_note(cli, fmt::format("{}: the errors of the job are in {}", printable(run.id),
                                  printable(errors->path().string())));
    }
  }
  return status;
}

}  // namespace dlrun
