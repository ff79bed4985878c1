#include "cli/terminal/status_text.h"

#include <nlohmann/json.hpp>

#include "cli/terminal/print.h"
#include "cli/terminal/state_style.h"
#include "launcher/view/run_text.h"
#include "launcher/view/status_json.h"
#include "launcher/view/status_lines.h"
#include "launcher/view/waiting_lines.h"

namespace dlrun {

Text status_text(const IndexEntry& run, const RunStatus& status,
                 const std::vector<std::string>& wait_lines) {
  const char* const prefix = !status.may_be_outdated  ? ""
                             : is_unreachable(status) ? "controller unreachable; last known: "
                                                      : "last known: ";
  Text all = text("{}\n  {:<10}{}{}", styled(Style::kBold, run.id), "state", prefix,
                  styled(style_of(status.state), word(status.state)));
  if (!status.job.id.empty()) all.add("  ({})", job_text(status.job));
  constexpr std::size_t kLabelWidth = 10;
  return all.add("\n").add(labelled(status_lines(run, status, wait_lines), kLabelWidth));
}

int print_end(const Cli& cli, const IndexEntry& run, const RunStatus& status, bool json) {
  if (json) print_json(status_json(run, status));
  const int code = exit_code_of_state(status);
  if (code == kExitOk) {
    print_note(cli, end_text_with_runs(cli.env, run, status));
  } else {
    print_error(cli, end_text_with_runs(cli.env, run, status));
  }
  return code;
}

}  // namespace dlrun
