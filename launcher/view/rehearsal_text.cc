#include "launcher/view/rehearsal_text.h"

#include <fmt/format.h>

#include "common/units.h"

namespace dlrun {
namespace {

constexpr double kMebi = 1 << 20;

std::string state_text(const RehearsalFigures& figures) {
  switch (figures.state) {
    case RehearsalState::kNotStarted:
      return "it has not started";
    case RehearsalState::kRunning:
      return "it runs";
    case RehearsalState::kPassed:
      return "passed";
    case RehearsalState::kEndedByItself:
      return "passed; the program ended by itself";
    case RehearsalState::kFailed:
      break;
  }
  return "failed: " + figures.failure;
}

std::string memory_sentence(const RehearsalNote& note, double rss_bytes) {
  std::string text = fmt::format("at most {} for a rank", fine_memory_text(rss_bytes));
  if (!note.ranks_per_node) return text;
  const double node_bytes = rss_bytes * static_cast<double>(*note.ranks_per_node);
  text += fmt::format(", so about {} for the {} rank{} of a node", fine_memory_text(node_bytes),
                      *note.ranks_per_node, *note.ranks_per_node == 1 ? "" : "s");
  if (!note.mem_mib) return text;
  const double requested_bytes = static_cast<double>(*note.mem_mib) * kMebi;
  return text + fmt::format("; the job requests {}{}", fine_memory_text(requested_bytes),
                            node_bytes > requested_bytes ? ", which is too little" : "");
}

std::string time_sentence(const RehearsalNote& note, const RehearsalFigures& figures) {
  if (!figures.seconds_per_step)
    return "unknown: the program made fewer than three reports with a new step (docs/restarts.md)";
  std::string text = fmt::format("{} for a step", precise_duration_text(*figures.seconds_per_step));
  if (!figures.total_steps) return text + "; the program does not report how many steps it will do";
  const double needed_s = *figures.seconds_per_step * static_cast<double>(*figures.total_steps);
  text +=
      fmt::format(", so at least {} for {} steps", duration_text(needed_s), *figures.total_steps);
  if (!note.time_s) return text;
  const auto limit_s = static_cast<double>(*note.time_s);
  return text + fmt::format("; the time limit is {}{}", duration_text(limit_s),
                            needed_s > limit_s ? ", which is too short for one job" : "");
}

std::string gpu_sentence(double used_bytes, std::optional<double> total_bytes) {
  return fmt::format("memory at most {}{} for a rank", fine_memory_text(used_bytes),
                     total_bytes ? " of " + fine_memory_text(*total_bytes) : std::string());
}

}  // namespace

Predictions predictions(const Rehearsal& rehearsal) {
  const RehearsalNote& note = rehearsal.note;
  const RehearsalFigures& figures = rehearsal.figures;
  Predictions texts;
  texts.rehearsal = fmt::format("{}: {}", note.id, state_text(figures));
  if (figures.rss_bytes) texts.memory = memory_sentence(note, *figures.rss_bytes);
  if (figures.gpu_used_bytes)
    texts.gpu = gpu_sentence(*figures.gpu_used_bytes, figures.gpu_total_bytes);
  if (figures.rss_bytes || figures.seconds_per_step) texts.time = time_sentence(note, figures);
  return texts;
}

std::optional<Predictions> predictions_for(const std::filesystem::path& run) {
  const auto rehearsal = read_rehearsal(run);
  if (!rehearsal) return Predictions{rehearsal.error().message, "", "", ""};
  if (!*rehearsal) return std::nullopt;
  return predictions(**rehearsal);
}

}  // namespace dlrun
