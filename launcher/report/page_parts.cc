#include "launcher/report/page_parts.h"

#include <algorithm>
#include <array>

#include <fmt/core.h>

#include "common/text.h"
#include "common/units.h"
#include "launcher/drawing/escape.h"
#include "launcher/report/style.h"
#include "launcher/runs/sweep_record.h"

namespace dlrun::page {
namespace {

/// Allows line breaks after the dots of a title, because a key's path can be wider than its values.
std::string breakable(std::string_view title) {
  std::string text;
  for (const char c : escape_html(title)) {
    text += c;
    if (c == '.') text += "<wbr>";
  }
  return text;
}

/// A unit that the end of a result's name states.
struct NamedUnit {
  std::string_view ending, unit;
};
constexpr std::array<NamedUnit, 6> kNamedUnits{{{"_seconds", "s"},
                                                {"_s", "s"},
                                                {"_ms", "ms"},
                                                {"_bytes", "bytes"},
                                                {"_percent", "%"},
                                                {"_watts", "W"}}};
constexpr std::string_view kPerSecond = "_per_s";

/// Returns the unit of a result; nullptr if its name states none.
const NamedUnit* unit_of(std::string_view name) {
  if (name.ends_with(kPerSecond)) return nullptr;
  for (const NamedUnit& one : kNamedUnits) {
    if (name.ends_with(one.ending) && name.size() > one.ending.size()) return &one;
  }
  return nullptr;
}

}  // namespace

std::string_view css_class_of(RunState state) {
  switch (state) {
    case RunState::kCompleted:
      return "good";
    case RunState::kFailed:
    case RunState::kRefused:
    case RunState::kTimeout:
      return "bad";
    default:
      return "warn";
  }
}

std::string readable_name(std::string_view name) {
  std::string readable(name);
  if (const NamedUnit* unit = unit_of(name)) readable.resize(name.size() - unit->ending.size());
  if (name.ends_with(kPerSecond)) readable.replace(name.size() - 1, 1, "second");
  std::replace(readable.begin(), readable.end(), '_', ' ');
  return readable;
}

std::string readable_value(std::string_view name, const std::string& value) {
  const auto number = parse_double(value);
  if (!number) return value;
  const NamedUnit* unit = unit_of(name);
  if (unit != nullptr && unit->unit == "bytes" && *number >= 0) return fine_memory_text(*number);
  const std::string text = short_value_text(*number);
  if (unit != nullptr) return fmt::format("{} {}", text, unit->unit);
  return name == "seconds" ? text + " s" : text;
}

std::string head_html(std::string_view title) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'\">\n"
      "<meta name=\"color-scheme\" content=\"light "
      "dark\">\n<title>{}</title>\n<style>{}</style></head>\n<body><main>\n",
      escape_html(title), page_style());
}

std::string foot_html(const std::string& made_at) {
  return fmt::format(
      "<footer>made by dlrun {} at {}; times are UTC</footer>\n</main></body></html>\n",
      DLRUN_VERSION, escape_html(made_at));
}

std::string tile_html(std::string_view name, std::string_view value) {
  return value.empty() ? std::string()
                       : fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>\n",
                                     escape_html(value), escape_html(name));
}

std::string list_html(const Pairs& pairs) {
  std::string text = "<dl>\n";
  for (const auto& [name, value] : pairs)
    text += fmt::format("<dt>{}</dt><dd>{}</dd>\n", escape_html(name), escape_html(value));
  return text + "</dl>\n";
}

std::string table_html(const std::vector<Column>& columns,
                       const std::vector<std::vector<std::string>>& rows) {
  std::string text = "<div class=\"scroll\"><table><thead><tr>";
  for (const Column& column : columns)
    text += fmt::format("<th class=\"{}\">{}</th>", column.kind, breakable(column.title));
  text += "</tr></thead><tbody>\n";
  for (const auto& row : rows) {
    text += "<tr>";
    for (std::size_t at = 0; at < row.size(); ++at)
      text += fmt::format("<td class=\"{}\">{}</td>", columns[at].kind, row[at]);
    text += "</tr>\n";
  }
  return text + "</tbody></table></div>\n";
}

std::string folded_html(std::string_view title, const std::string& text) {
  return text.empty() ? std::string()
                      : fmt::format("<details><summary>{}</summary><pre>{}</pre></details>\n",
                                    escape_html(title), escape_html_lines(text));
}

std::string last_words_html(const RunReport& report) {
  if (report.last_words.empty()) return {};
  const auto& failed = report.status.facts.record.first_failed;
  return fmt::format("<p class=\"soft\">last output{}:</p>\n<pre class=\"output\">{}</pre>\n",
                     failed && failed->rank >= 0 ? fmt::format(" of rank {}", failed->rank) : "",
                     escape_html_lines(join(report.last_words, "\n")));
}

double begin_of(const RunReport& report) {
  if (!report.history.attempts().empty()) return report.history.attempts().front().begun;
  return report.metrics.empty() ? 0 : report.metrics.front().t;
}
double end_of(const RunReport& report) {
  double end = begin_of(report);
  const RunHistory& history = report.history;
  if (!history.events().empty()) end = std::max(end, history.events().back().t);
  if (!history.progress().empty()) end = std::max(end, history.progress().back().t);
  if (!history.samples().empty()) end = std::max(end, history.samples().back().t);
  return end;
}

std::string nodes_of(const RunReport& report) {
  const RunRecord& record = report.status.facts.record;
  return record.hosts.empty() && report.status.facts.report ? report.status.facts.report->nodes
                                                            : record.hosts;
}

std::string value_of(const Pairs& pairs, std::string_view name) {
  const auto found = std::find_if(pairs.begin(), pairs.end(),
                                  [&](const auto& pair) { return pair.first == name; });
  return found == pairs.end() ? std::string() : found->second;
}

std::vector<std::string> names_of_results(const Pairs& result) {
  std::vector<std::string> names;
  const auto take = [&](std::string_view wanted) {
    if (std::any_of(result.begin(), result.end(),
                    [&](const auto& one) { return one.first == wanted; }))
      names.emplace_back(wanted);
  };
  for (const auto first : kComparedResults) take(first);
  take("samples_per_s");
  for (const auto& [name, value] : result) {
    if (name != "parameters" && std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  }
  return names;
}

}  // namespace dlrun::page
