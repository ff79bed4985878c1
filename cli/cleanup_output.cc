#include "cli/cleanup_output.h"

#include <iostream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/terminal/print.h"
#include "cli/terminal/questions.h"
#include "common/units.h"

namespace dlrun {
namespace {

std::string runs_text(std::size_t count) {
  return fmt::format("{} run{}", count, count == 1 ? "" : "s");
}

std::string size_text(const TreeSize& size) {
  return fmt::format("{} file{}, {}", size.files, size.files == 1 ? "" : "s",
                     bytes_text(static_cast<double>(size.bytes)));
}

Text plan_text(const CleanupPlan& plan) {
  std::vector<std::vector<std::string>> rows = {{"RUN", "STATE", "FILES", "SIZE"}};
  for (const DoomedRun& doomed : plan.runs) {
    rows.push_back({doomed.run.id, doomed.is_gone ? "gone" : std::string(word(doomed.state)),
                    std::to_string(doomed.examined.size.files),
                    bytes_text(static_cast<double>(doomed.examined.size.bytes))});
  }
  return table(rows);
}

/// Returns what the plan deletes: "3 runs", or "the logs, traces and profiles of 3 runs".
std::string planned_text(const CleanupPlan& plan) {
  return (plan.parts == RunParts::kAll ? "" : "the logs, traces and profiles of ") +
         runs_text(plan.runs.size());
}

/// Asks whether the runs may be deleted. Fails if they may not.
Result<> ask(const Cli& cli, const CleanupPlan& plan) {
  if (!is_input_terminal() || !is_error_terminal()) {
    return fail(Errc::kUsage,
                "nothing was deleted: dlrun asks first, and there is no terminal to ask on. --yes "
                "deletes without a question");
  }
  const std::string question =
      fmt::format("Delete {} ({})?", planned_text(plan), size_text(plan.size()));
  const bool is_yes =
      ask_yes_or_no(question, std::cin, [&](const Text& line) { print_aside(cli, line); });
  return is_yes ? Result<>() : fail(Errc::kInterrupted, "nothing was deleted");
}

/// Deletes the runs of a plan one after another, and collects the result.
class CleanupWork {
 public:
  CleanupWork(const Cli& cli, RunInspector& inspector, const CleanupPlan& plan, bool is_json)
      : cli_(cli), inspector_(inspector), plan_(plan), is_json_(is_json) {}

  void run() {
    for (const DoomedRun& doomed : plan_.runs) {
      const auto done = delete_planned(cli_.env, inspector_, doomed, plan_.parts);
      auto json = doomed_json(doomed);
      json["deleted"] = done && done->left == 0;
      json_.push_back(std::move(json));
      if (!done) {
        refuse(done.error());
        continue;
      }
      freed_ += done->freed;
      report_left(doomed.run.id, *done);
      if (is_json_ || done->left > 0) continue;
      if (doomed.is_gone) {
        print(cli_, "{}: was gone, and is no longer listed\n", doomed.run.id);
      } else {
        print(cli_, "{} {} ({})\n",
              plan_.parts == RunParts::kAll ? "deleted" : "deleted the output of", doomed.run.id,
              size_text(done->freed));
      }
    }
    const TreeDeletion earlier = finish_deletions_beside(plan_);
    if (earlier.freed.files > 0)
      print_note(cli_, fmt::format("finished an earlier, interrupted deletion ({})",
                                   size_text(earlier.freed)));
    freed_ += earlier.freed;
    if (!is_json_ && plan_.runs.size() > 1) print(cli_, "freed {}\n", size_text(freed_));
  }

  void refuse(const Error& error) {
    print_error(cli_, error.message);
    if (code_ == kExitOk) code_ = exit_code_of(error.code);
  }

  [[nodiscard]] int code() const { return code_; }
  [[nodiscard]] const nlohmann::ordered_json& json() const { return json_; }
  [[nodiscard]] const TreeSize& freed() const { return freed_; }

 private:
  void report_left(const std::string& id, const TreeDeletion& done) {
    if (done.left == 0) return;
    refuse({Errc::kIo,
            fmt::format("{}: {} file{} could not be deleted: {}. The next `dlrun rm` or `dlrun "
                        "prune` of a run in the same folder tries again",
                        id, done.left, done.left == 1 ? "" : "s", done.why_left)});
  }

  const Cli& cli_;
  RunInspector& inspector_;
  const CleanupPlan& plan_;
  bool is_json_;
  int code_ = kExitOk;
  TreeSize freed_;
  nlohmann::ordered_json json_ = nlohmann::ordered_json::array();
};

/// Returns the JSON of a finished cleanup, or of a dry run.
nlohmann::ordered_json result_json(const CleanupPlan& plan, nlohmann::ordered_json runs,
                                   const TreeSize& freed) {
  nlohmann::ordered_json json;
  json["runs"] = std::move(runs);
  json["kept"] = nlohmann::ordered_json::array();
  for (const KeptRun& kept : plan.kept) json["kept"].push_back(kept_json(kept));
  json["freed_bytes"] = freed.bytes;
  return json;
}

}  // namespace

Result<int> carry_out(const Cli& cli, RunInspector& inspector, const CleanupPlan& plan,
                      const CleanupOptions& options) {
  CleanupWork work(cli, inspector, plan, options.is_json);
  const bool shows = !options.is_json && !plan.runs.empty();
  if (shows && (options.is_dry_run || !options.is_yes)) {
    print(cli, plan_text(plan));
    flush_output();
  }
  if (options.is_dry_run) {
    nlohmann::ordered_json runs = nlohmann::ordered_json::array();
    for (const DoomedRun& doomed : plan.runs) {
      runs.push_back(doomed_json(doomed));
      runs.back()["deleted"] = false;
    }
    if (options.is_json) print_json(result_json(plan, std::move(runs), {}));
    print_note(cli, fmt::format("would delete {} ({}); nothing was deleted (--dry-run)",
                                planned_text(plan), size_text(plan.size())));
    return kExitOk;
  }
  if (!plan.runs.empty() && !options.is_yes) DLRUN_TRY(ask(cli, plan));
  work.run();
  if (options.is_json) print_json(result_json(plan, work.json(), work.freed()));
  return work.code();
}

}  // namespace dlrun
