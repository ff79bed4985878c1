// The page that compares several runs, or the points of a sweep: the keys in which they differ,
// their results, and their curves in common charts.

#include <algorithm>
#include <optional>

#include <fmt/core.h>

#include "common/text.h"
#include "common/units.h"
#include "launcher/drawing/chart.h"
#include "launcher/drawing/escape.h"
#include "launcher/report/page_parts.h"
#include "launcher/report/run_charts.h"
#include "launcher/report/run_report.h"
#include "launcher/runs/sweep_record.h"

namespace dlrun {
namespace {

using namespace page;

constexpr std::size_t kMostKeysInRunsTable = 5;
constexpr std::size_t kReasonsShown = 20;
constexpr std::size_t kLongestOnOneLine = 24;  // bytes of a value that a cell shows on one line

bool is_wide(const std::vector<RunReport>& reports, const std::string& key) {
  return std::any_of(reports.begin(), reports.end(), [&](const RunReport& report) {
    return value_of(report.keys, key).size() > kLongestOnOneLine;
  });
}

/// Returns a table with a row per key and a column per run, for few runs that differ in many keys.
std::string differences_html(const std::vector<RunReport>& reports,
                             const std::vector<std::string>& keys) {
  std::vector<Column> columns{{"", "t"}};
  for (const RunReport& report : reports) columns.push_back({report.label, "w"});
  std::vector<std::vector<std::string>> rows;
  for (const auto& key : keys) {
    std::vector<std::string> cells{escape_html(key)};
    for (const RunReport& report : reports)
      cells.push_back(escape_html(value_of(report.keys, key)));
    rows.push_back(std::move(cells));
  }
  return table_html(columns, rows);
}

/// Returns the names of all runs' results, the most interesting first.
std::vector<std::string> names_of_all_results(const std::vector<RunReport>& reports) {
  Pairs all;
  for (const RunReport& report : reports) {
    for (const auto& one : report.result) {
      if (std::none_of(all.begin(), all.end(),
                       [&](const auto& known) { return known.first == one.first; }))
        all.push_back(one);
    }
  }
  return names_of_results(all);
}

/// Returns true if the curves of the run with this index are drawn.
bool is_drawn(std::size_t at) {
  return at < kChartColourCount;
}

/// Returns the keys whose values differ between the runs.
std::vector<std::string> keys_that_differ(const std::vector<RunReport>& reports) {
  std::vector<std::string> names;
  for (const RunReport& report : reports) {
    for (const auto& [name, value] : report.keys) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  std::erase_if(names, [&](const std::string& name) {
    if (name == "name") return true;  // the run's id starts with the name
    const std::string first = value_of(reports.front().keys, name);
    return std::all_of(reports.begin(), reports.end(), [&](const RunReport& report) {
      return value_of(report.keys, name) == first;
    });
  });
  return names;
}

/// The kind of energy that a page compares: that of the GPUs, which the ranks measure, or that of
/// the whole nodes, which Slurm measures. One page never mixes the two.
enum class EnergyKind { kNone, kGpus, kNodes };

/// The results and keys that have columns in the table of runs.
struct RunColumns {
  std::vector<std::string> results;  ///< the most interesting first
  std::vector<std::string> keys;     ///< keys that differ; empty if a separate table shows them
  bool has_gpu_hours = false;
  EnergyKind energy = EnergyKind::kNone;
};

std::optional<double> joules_of(const RunReport& report, EnergyKind kind) {
  return kind == EnergyKind::kGpus    ? report.use.gpu_joules
         : kind == EnergyKind::kNodes ? report.slurm_joules
                                      : std::nullopt;
}

RunColumns choose_columns(const std::vector<RunReport>& reports, std::vector<std::string> keys) {
  const auto any = [&](const auto& has) {
    return std::any_of(reports.begin(), reports.end(), has);
  };
  RunColumns columns{names_of_all_results(reports), std::move(keys)};
  columns.has_gpu_hours =
      any([](const RunReport& report) { return report.use.gpu_hours.has_value(); });
  for (const EnergyKind kind : {EnergyKind::kGpus, EnergyKind::kNodes}) {
    if (columns.energy == EnergyKind::kNone &&
        any([&](const RunReport& report) { return joules_of(report, kind).has_value(); }))
      columns.energy = kind;
  }
  return columns;
}

/// The sum of a value over the runs for which it is known.
struct KnownSum {
  double sum = 0;
  std::size_t run_count = 0;
  void add(const std::optional<double>& value) {
    if (!value) return;
    sum += *value;
    ++run_count;
  }
  /// Returns `sum_text`. If the value of some runs is unknown, appends for how many runs it is
  /// known: "1 kWh (known for 1 of 2 runs)". all: the number of all runs.
  [[nodiscard]] std::string with_count(const std::string& sum_text, std::size_t all) const {
    return run_count == all ? sum_text
                            : fmt::format("{} (known for {} of {} runs)", sum_text, run_count, all);
  }
};

/// Returns the cost of all runs together: ", which took 12.5 GPU-hours and 4.1 kWh"; "" if no cost
/// is known.
std::string total_cost_text(const std::vector<RunReport>& reports, EnergyKind kind) {
  KnownSum hours, joules;
  for (const RunReport& report : reports) {
    hours.add(report.use.gpu_hours);
    joules.add(joules_of(report, kind));
  }
  std::vector<std::string> parts;
  if (hours.sum > 0)
    parts.push_back(hours.with_count(measurement_text(hours.sum) + " GPU-hours", reports.size()));
  if (joules.sum > 0) parts.push_back(joules.with_count(energy_text(joules.sum), reports.size()));
  return parts.empty() ? "" : ", which took " + join(parts, " and ");
}

constexpr std::size_t kKeysInLegend = 3;
constexpr std::size_t kLongestLegendValue = 24;  // bytes

/// Returns the last part of a key's name, such as "lr" for train.lr; the whole name if the last
/// part is not unique among the keys.
std::string legend_key(const std::vector<std::string>& keys, const std::string& key) {
  const auto last = [](const std::string& name) { return name.substr(name.rfind('.') + 1); };
  const auto same = std::count_if(keys.begin(), keys.end(),
                                  [&](const std::string& one) { return last(one) == last(key); });
  return same == 1 ? last(key) : key;
}

/// Cuts a long value, but not inside a character of several bytes.
std::string short_legend_value(const std::string& value) {
  if (value.size() <= kLongestLegendValue) return value;
  std::size_t end = kLongestLegendValue;
  while (end > 0 && (static_cast<unsigned char>(value[end]) & 0xC0U) == 0x80U) --end;
  return value.substr(0, end) + "...";
}

/// Returns the name of each run in legends: the values in which the runs differ, such as
/// "lr 0.1, batch 64". If another run has the same values, the run's label precedes them. If the
/// runs do not differ in their keys, the name is the label.
std::vector<std::string> legend_names(const std::vector<const RunReport*>& drawn,
                                      const std::vector<std::string>& keys) {
  std::vector<std::string> names;
  for (const RunReport* report : drawn) {
    std::vector<std::string> parts;
    for (const std::string& key : keys) {
      if (parts.size() == kKeysInLegend) break;
      const std::string value = value_of(report->keys, key);
      parts.push_back(fmt::format("{} {}", legend_key(keys, key),
                                  value.empty() ? "-" : short_legend_value(value)));
    }
    names.push_back(join(parts, ", "));
  }
  std::vector<std::string> unique = names;
  for (std::size_t at = 0; at < names.size(); ++at) {
    const RunReport& report = *drawn[at];
    const std::string& label = report.short_label.empty() ? report.label : report.short_label;
    if (names[at].empty()) {
      unique[at] = label;
    } else if (std::count(names.begin(), names.end(), names[at]) > 1) {
      unique[at] = fmt::format("{}: {}", label, names[at]);
    }
  }
  return unique;
}

std::vector<Column> columns_of_runs(const std::vector<RunReport>& reports,
                                    const RunColumns& chosen) {
  std::vector<Column> columns{{"run", "t"}, {"state", "t"}};
  // The result by which runs are compared comes first, so that even a narrow page shows it. The
  // other results come last.
  if (!chosen.results.empty()) columns.push_back({readable_name(chosen.results.front()), "n"});
  for (const auto& name : chosen.keys)
    columns.push_back({name, is_wide(reports, name) ? "w" : "t"});
  for (std::size_t at = 1; at < chosen.results.size(); ++at)
    columns.push_back({readable_name(chosen.results[at]), "n"});
  columns.insert(columns.end(), {{"took", "n"}, {"ranks", "n"}, {"nodes", "t"}});
  if (chosen.has_gpu_hours) columns.push_back({"GPU-hours", "n"});
  if (chosen.energy != EnergyKind::kNone)
    columns.push_back(
        {chosen.energy == EnergyKind::kGpus ? "energy of the GPUs" : "energy, according to Slurm",
         "n"});
  return columns;
}

/// Returns the table of runs: state, results, keys that differ, time, ranks and nodes.
std::string runs_table_html(const std::vector<RunReport>& reports, const RunColumns& chosen) {
  std::vector<std::vector<std::string>> rows;
  for (std::size_t at = 0; at < reports.size(); ++at) {
    const RunReport& report = reports[at];
    const RunRecord& record = report.status.facts.record;
    std::vector<std::string> cells{
        (is_drawn(at) ? fmt::format("<i class=\"swatch b{}\"></i>", at) : std::string()) +
            escape_html(report.short_label.empty() ? report.label : report.short_label),
        fmt::format("<span class=\"{}\">{}</span>", css_class_of(report.status.state),
                    word(report.status.state))};
    const auto result_cell = [&](const std::string& name) {
      return escape_html(readable_value(name, value_of(report.result, name)));
    };
    if (!chosen.results.empty()) cells.push_back(result_cell(chosen.results.front()));
    for (const auto& name : chosen.keys) cells.push_back(escape_html(value_of(report.keys, name)));
    for (std::size_t i = 1; i < chosen.results.size(); ++i)
      cells.push_back(result_cell(chosen.results[i]));
    cells.push_back(record.has_events ? fine_duration_text(end_of(report) - begin_of(report)) : "");
    cells.push_back(record.ranks > 0 ? std::to_string(record.ranks) : "");
    cells.push_back(escape_html(nodes_of(report)));
    if (chosen.has_gpu_hours)
      cells.push_back(report.use.gpu_hours ? measurement_text(*report.use.gpu_hours) : "");
    if (chosen.energy != EnergyKind::kNone) {
      const auto joules = joules_of(report, chosen.energy);
      cells.push_back(joules ? energy_text(*joules) : std::string());
    }
    rows.push_back(std::move(cells));
  }
  return table_html(columns_of_runs(reports, chosen), rows);
}

/// Returns the reasons why runs did not complete, and the problems of their files.
std::string problems_html(const std::vector<RunReport>& reports) {
  std::string page;
  std::size_t incomplete_count = 0;
  for (const RunReport& report : reports) {
    for (const auto& problem : report.problems)
      page += fmt::format("<p class=\"note\">{}: {}</p>\n", escape_html(report.label),
                          escape_html(problem));
    if (report.status.state == RunState::kCompleted || report.status.detail.empty() ||
        ++incomplete_count > kReasonsShown)
      continue;
    page += fmt::format("<p class=\"note{}\">{}: {}</p>\n",
                        css_class_of(report.status.state) == "bad" ? " bad" : "",
                        escape_html(report.label), escape_html(report.status.detail));
    page += last_words_html(report);
  }
  if (incomplete_count > kReasonsShown)
    page += fmt::format("<p class=\"soft\">and {} more runs that did not complete</p>\n",
                        incomplete_count - kReasonsShown);
  return page;
}

std::string curves_html(const std::vector<RunReport>& reports,
                        const std::vector<std::string>& keys) {
  std::vector<const RunReport*> drawn;
  for (std::size_t at = 0; at < reports.size() && is_drawn(at); ++at) drawn.push_back(&reports[at]);
  const std::string curves = charts_html(drawn, legend_names(drawn, keys));
  if (curves.empty()) return "";
  std::string page = "<h2>Over time</h2>\n";
  if (drawn.size() < reports.size())
    page += fmt::format("<p class=\"soft\">the first {} runs of the table</p>\n", drawn.size());
  return page + "<div class=\"charts\">\n" + curves + "</div>\n";
}

}  // namespace

void sort_best_first(std::vector<RunReport>& reports) {
  const auto names = names_of_all_results(reports);
  if (names.empty() || std::find(kComparedResults.begin(), kComparedResults.end(), names.front()) ==
                           kComparedResults.end())
    return;
  const std::string& compared = names.front();
  const bool is_ascending = is_smaller_better(compared);
  const auto compared_value = [&](const RunReport& report) {
    return parse_double(value_of(report.result, compared));
  };
  std::stable_sort(reports.begin(), reports.end(), [&](const RunReport& a, const RunReport& b) {
    const auto one = compared_value(a), other = compared_value(b);
    if (!one || !other) return one.has_value() && !other;
    return is_ascending ? *one < *other : *one > *other;
  });
}

std::string comparison_page(const std::vector<RunReport>& reports, const std::string& title,
                            const std::string& made_at) {
  std::string page = head_html(title);
  const auto keys = keys_that_differ(reports);
  const bool keys_have_own_table =
      keys.size() > kMostKeysInRunsTable && reports.size() <= kChartColourCount;
  const RunColumns chosen =
      choose_columns(reports, keys_have_own_table ? std::vector<std::string>() : keys);
  page += fmt::format("<h1>{}</h1>\n<p class=\"soft\">{} runs compared{}</p>\n", escape_html(title),
                      reports.size(), total_cost_text(reports, chosen.energy));
  page += "<h2>Runs</h2>\n" + runs_table_html(reports, chosen);
  if (keys_have_own_table) page += "<h2>Keys that differ</h2>\n" + differences_html(reports, keys);
  return page + problems_html(reports) + curves_html(reports, keys) + foot_html(made_at);
}

}  // namespace dlrun
