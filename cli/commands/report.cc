// `dlrun report`: writes a page about one run, or a comparison of several runs or a sweep's points.

#include <chrono>
#include <cstdio>
#include <memory>

#include "cli/command_line.h"
#include "cli/select.h"
#include "cli/spec_options.h"
#include "cli/terminal/print.h"
#include "common/files.h"
#include "common/text.h"
#include "launcher/report/run_report.h"
#include "launcher/runs/ownership.h"
#include "launcher/runs/sweep_record.h"
#include "launcher/spec/own_parameters.h"

namespace dlrun {
namespace {

struct ReportOptions {
  std::vector<std::string> runs;
  std::string out;
};

struct Part {
  IndexEntry run;
  std::string label, short_label;  ///< see RunReport
  /// For a point: the names and values of the sweep's own parameters.
  std::vector<std::pair<std::string, std::string>> parameters;
};

/// Returns the names and values of the point's own parameters.
std::vector<std::pair<std::string, std::string>> own_values(const SweepRecord& sweep,
                                                            const SweepRecord::Point& point) {
  std::vector<std::pair<std::string, std::string>> values;
  for (std::size_t i = 0; i < sweep.keys.size(); ++i) {
    if (is_own_parameter(sweep.keys[i]))
      values.emplace_back(sweep.keys[i], point.values[i].value_or(""));
  }
  return values;
}

/// Returns the named runs. Returns the points of a sweep instead of the sweep. For a point that was
/// resubmitted, returns its latest run.
Result<std::vector<Part>> parts_of(const Cli& cli, const std::vector<std::string>& names) {
  std::vector<Part> parts;
  for (const auto& name : names) {
    DLRUN_TRY_ASSIGN(const auto run, select_run(cli, name));
    if (!is_sweep(run.path)) {
      parts.push_back({run, run.id, "", {}});
      continue;
    }
    DLRUN_TRY_ASSIGN(const auto sweep, read_sweep(run.path));
    for (std::size_t at = 0; at < sweep.points.size(); ++at) {
      IndexEntry point = run;
      point.id = fmt::format("{}/{}", run.id, at);
      point.path = current_run_of(point_path(run.path, sweep.points[at]));
      const std::string short_label = names.size() == 1 ? std::to_string(at) : point.id;
      parts.push_back({std::move(point),
                       fmt::format("{}  {}", short_label, describe(sweep, sweep.points[at])),
                       short_label, own_values(sweep, sweep.points[at])});
    }
  }
  return parts;
}

std::string title_of(const std::vector<Part>& parts, const ReportOptions& options) {
  if (options.runs.size() == 1)
    return "Sweep " + parts.front().run.id.substr(0, parts.front().run.id.rfind('/'));
  return fmt::format("{} and {} more", parts.front().run.id, parts.size() - 1);
}

Result<int> make_report(Cli& cli, const ReportOptions& options) {
  DLRUN_TRY_ASSIGN(const auto parts, parts_of(cli, options.runs));
  std::vector<std::filesystem::path> paths;
  for (const Part& part : parts) paths.push_back(part.run.path);
  const auto states = RunInspector(cli.env, known_servers(cli)).inspect_all(paths);
  std::vector<RunReport> reports;
  bool is_last_known = false, has_points = false;
  for (std::size_t at = 0; at < parts.size(); ++at) {
    if (!states[at]) {
      if (parts.size() == 1) return tl::unexpected(states[at].error());
      print_warning(cli, fmt::format("{}: {}", parts[at].run.id, states[at].error().message));
      continue;
    }
    is_last_known = is_last_known || is_unreachable(*states[at]);
    reports.push_back(read_report(parts[at].run, *states[at]));
    reports.back().label = parts[at].label;
    reports.back().short_label = parts[at].short_label;
    insert_parameters(reports.back(), parts[at].parameters);
    if (!parts[at].short_label.empty()) set_result_from_progress(reports.back());
    has_points = has_points || !parts[at].short_label.empty();
  }
  if (reports.empty()) return fail(Errc::kNotFound, "none of these runs can be read");

  if (has_points) sort_best_first(reports);
  const std::string made = utc_timestamp(std::chrono::system_clock::now());
  const std::string page = parts.size() == 1
                               ? report_page(reports.front(), made)
                               : comparison_page(reports, title_of(parts, options), made);
  if (options.out == "-") {
    print_document(page);
  } else {
    // The page of one run or sweep goes into its directory, which is private. A comparison of
    // several runs, or a page about another user's run, goes into the current directory.
    std::filesystem::path out =
        cli.current_dir / (options.out.empty() ? "report.html" : options.out);
    if (options.out.empty() && options.runs.size() == 1) {
      const auto run = select_run(cli, options.runs.front());
      if (run && !foreign_owner(run->path)) out = run->path / "report.html";
    }
    if (auto written = write_file_atomic(out, page); !written)
      return tl::unexpected(written.error());
    print(cli, "{}\n", out.lexically_normal().string());
  }
  return is_last_known ? kExitUnavailable : kExitOk;
}

}  // namespace

void add_report(CLI::App& root, Action& action) {
  auto options = std::make_shared<ReportOptions>();
  Subcommand command(root, "report",
                     "Write a self-contained HTML page with the curves of a run, or one that "
                     "compares several runs or the points of a sweep");
  command
      .option("RUN", options->runs,
              "The runs: names, ids or their starts, job ids, paths, or `last`")
      .required();
  command
      .option("-o,--output", options->out,
              "File to write; - means standard output (default: report.html in the directory of "
              "the run; "
              "./report.html for several runs)")
      .type_name("FILE");
  command.on_call(
      [options, &action] { action = [options](Cli& cli) { return make_report(cli, *options); }; });
}

}  // namespace dlrun
