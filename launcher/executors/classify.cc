#include "launcher/executors/classify.h"

#include <algorithm>
#include <array>
#include <vector>

#include "common/text.h"

namespace dlrun {
namespace {

bool contains_any(std::string_view text, std::initializer_list<std::string_view> phrases) {
  return std::any_of(phrases.begin(), phrases.end(), [&](std::string_view phrase) {
    return text.find(phrase) != std::string_view::npos;
  });
}

/// Removes all prefixes such as "sbatch: error: " and "squeue: fatal: ".
std::string_view without_prefixes(std::string_view line) {
  constexpr std::array<std::string_view, 11> kPrefixes = {"sbatch: ",
                                                          "salloc: ",
                                                          "srun: ",
                                                          "squeue: ",
                                                          "sacct: ",
                                                          "scancel: ",
                                                          "scontrol: ",
                                                          "error: ",
                                                          "fatal: ",
                                                          "warning: ",
                                                          "allocation failure: "};
  for (bool again = true; again;) {
    again = false;
    for (const auto prefix : kPrefixes) {
      if (line.starts_with(prefix)) {
        line.remove_prefix(prefix.size());
        again = true;
      }
    }
  }
  return line;
}

/// Returns the daemon that did not answer: the one that the messages name, else the controller.
/// Without munge, no other daemon can be asked, so munge has precedence.
std::string_view unreachable_daemon(std::string_view err) {
  if (contains_any(err, {"Munge encode failed", "munge.socket"})) return "munge on this machine";
  if (contains_any(err, {"Unable to contact slurm controller"})) return "Slurm's controller";
  if (contains_any(err, {"slurmdbd", "Problem talking to the database", "slurm_persist_conn_open",
                         "Sending PersistInit msg"}))
    return "Slurm's database (slurmdbd)";
  return "Slurm's controller";
}

}  // namespace

std::string slurm_message(std::string_view err) {
  std::vector<std::string> lines;
  for (const auto line : split(err, '\n')) {
    const auto message = trim(without_prefixes(trim(line)));
    if (message.empty()) continue;
    std::string text = printable(message);
    if (std::find(lines.begin(), lines.end(), text) == lines.end())
      lines.push_back(std::move(text));
  }
  return join(lines, "; ");
}

bool says_unreachable(std::string_view err) {
  return contains_any(err, {"Unable to contact slurm controller",
                            "Unable to contact slurmdbd",
                            "Connection refused",
                            "Socket timed out",
                            "Communication connection failure",
                            "Could not establish a configuration source",
                            "Unable to establish configuration source",
                            "Zero Bytes were transmitted",
                            "Transport endpoint is not connected",
                            "Slurm backup controller in standby mode",
                            "Munge encode failed",
                            "munge.socket",
                            "Unexpected missing socket",
                            "Connection timed out",
                            "No route to host",
                            "Network is unreachable",
                            "Insane message length",
                            "Problem talking to the database",
                            "slurm_persist_conn_open",
                            "Sending PersistInit msg"});
}

bool says_busy(std::string_view err) {
  return contains_any(err, {"Rate limit exceeded"});
}

bool says_unknown_job(std::string_view err) {
  return contains_any(err, {"Invalid job id specified", "Invalid job id"});
}

SlurmRefusal refusal_in(std::string_view err) {
  // sbatch says "Invalid account or account/partition combination specified". The message "Invalid
  // accounting frequency requested" is not about the account.
  if (contains_any(err, {"nvalid account"}) && !contains_any(err, {"nvalid accounting"}))
    return SlurmRefusal::kAccount;
  if (contains_any(err, {"nvalid partition"})) return SlurmRefusal::kPartition;
  if (contains_any(err, {"nvalid qos"})) return SlurmRefusal::kQos;
  if (contains_any(err, {"Requested node configuration is not available",
                         "Requested nodes are busy", "Required node not available",
                         "Requested partition configuration not available now"}))
    return SlurmRefusal::kNodesUnavailable;
  return SlurmRefusal::kOther;
}

Error slurm_error(std::string_view program, std::string_view err, int exit_code) {
  std::string message = slurm_message(err);
  if (message.empty())
    message = fmt::format("{} ended with code {} and printed no error message", program, exit_code);
  if (says_unreachable(err))
    return {Errc::kUnavailable,
            fmt::format("{} is unreachable: {}", unreachable_daemon(err), message)};
  if (says_busy(err))
    return {Errc::kUnavailable, fmt::format("Slurm's controller is busy: {}", message)};
  return {.code = Errc::kRefused,
          .message = fmt::format("Slurm refused ({}): {}", program, message),
          .refusal = refusal_in(err)};
}

}  // namespace dlrun
