#include "launcher/runs/carried_spec.h"

#include <algorithm>
#include <array>

#include "common/json_read.h"
#include "common/sha256.h"
#include "common/text.h"

namespace dlrun {
namespace {

constexpr std::string_view kTitle =
    "# The spec that this was rendered from, for `dlrun diff` and for the run's record.";
constexpr std::string_view kFactsPrefix = "#: ";
constexpr std::string_view kSpecLinePrefix = "#| ";

[[nodiscard]] bool is_carried_line(std::string_view line) {
  return line == kTitle || line.starts_with(kFactsPrefix) || line.starts_with(kSpecLinePrefix);
}

}  // namespace

std::string with_carried_spec(std::string_view script, CarriedSpec carried) {
  nlohmann::ordered_json facts;
  facts["dlrun"] = carried.version;
  facts["folder"] = carried.folder;
  facts["runs"] = carried.runs_dir;
  facts["agent"] = carried.agent;
  facts["sha256"] = sha256_of_text(script);
  std::string text(script);
  text += fmt::format("{}\n{}{}\n", kTitle, kFactsPrefix, json_read::dump(facts));
  std::string_view yaml = carried.yaml;
  while (yaml.ends_with('\n')) yaml.remove_suffix(1);
  for (const auto line : split(yaml, '\n')) text += fmt::format("{}{}\n", kSpecLinePrefix, line);
  return text;
}

std::optional<CarriedSpec> carried_spec(std::string_view script) {
  CarriedSpec carried;
  bool has_facts = false;
  for (const auto line : split(script, '\n')) {
    if (line.starts_with(kFactsPrefix)) {
      const auto facts = json_read::object_of(line.substr(kFactsPrefix.size()));
      if (!facts) return std::nullopt;
      has_facts = true;
      carried.version = json_read::text(*facts, "dlrun");
      carried.folder = json_read::text(*facts, "folder");
      carried.runs_dir = json_read::text(*facts, "runs");
      carried.agent = json_read::text(*facts, "agent");
      carried.sha256 = json_read::text(*facts, "sha256");
    } else if (line.starts_with(kSpecLinePrefix)) {
      carried.yaml += line.substr(kSpecLinePrefix.size());
      carried.yaml += '\n';
    }
  }
  const bool is_whole =
      has_facts && !carried.yaml.empty() && !carried.folder.empty() && !carried.runs_dir.empty();
  if (!is_whole) return std::nullopt;
  return carried;
}

std::optional<CarriedFault> fault_of_carried_spec(std::string_view script) {
  if (carried_spec(script)) return std::nullopt;
  // Line numbers from 1; 0: there is none.
  std::size_t number = 0, title_line = 0, facts_line = 0, spec_line = 0;
  std::optional<CarriedFault> facts_fault;
  bool is_from_dlrun = false;
  std::string_view previous;
  for (const auto line : split(script, '\n')) {
    ++number;
    if (line == kTitle) title_line = number;
    if (line.starts_with(kFactsPrefix)) {
      facts_line = number;
      if (!facts_fault && !json_read::object_of(line.substr(kFactsPrefix.size())))
        facts_fault = {number, "the text after '#: ' is no JSON object"};
    }
    if (line.starts_with(kSpecLinePrefix) && spec_line == 0) {
      spec_line = number;
      is_from_dlrun = previous.starts_with(kFactsPrefix);
    }
    previous = line;
  }
  is_from_dlrun = is_from_dlrun || (title_line != 0 && (facts_line != 0 || spec_line != 0));
  if (!is_from_dlrun) return std::nullopt;
  if (facts_fault) return facts_fault;
  if (facts_line == 0)
    return CarriedFault{title_line, "the line that starts with '#: ' is missing after this one"};
  if (spec_line == 0)
    return CarriedFault{facts_line,
                        "the spec's lines, which start with '#| ', are missing after this one"};
  return CarriedFault{facts_line, "the JSON object after '#: ' lacks 'folder' or 'runs'"};
}

namespace {

/// Returns the lines that carry the spec if are_carried is true, otherwise all other lines.
std::string select_lines(std::string_view script, bool are_carried) {
  std::string text;
  for (const auto line : split(script, '\n')) {
    if (is_carried_line(line) == are_carried) text += fmt::format("{}\n", line);
  }
  return text;
}

}  // namespace

bool is_unedited(std::string_view script) {
  const auto carried = carried_spec(script);
  const std::size_t title = script.rfind(fmt::format("\n{}\n", kTitle));
  if (!carried || title == std::string_view::npos) return false;
  const auto rest = split(script.substr(title + 1), '\n');
  const bool has_more = std::any_of(rest.begin(), rest.end(), [](std::string_view line) {
    return !line.empty() && !is_carried_line(line);
  });
  return !has_more && sha256_of_text(script.substr(0, title + 1)) == carried->sha256;
}

std::string carried_lines(std::string_view script) {
  return select_lines(script, true);
}

std::string without_carried_spec(std::string_view script) {
  return select_lines(script, false);
}

}  // namespace dlrun
