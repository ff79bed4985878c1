#include "launcher/bench/collectives_chart.h"

#include <algorithm>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "common/units.h"

namespace dlrun {
namespace {

BarChart bars_of(const CollectiveFigures& figures, std::string title,
                 const std::function<double(const CollectiveFigure&)>& value_of,
                 const std::function<std::uint64_t(int ranks)>& size_of_ranks) {
  double largest = 0;
  std::size_t longest = 0;
  for (const CollectiveFigure& figure : figures) {
    if (figure.bytes != size_of_ranks(figure.ranks)) continue;
    largest = std::max(largest, value_of(figure));
    longest = std::max(longest, figure.backend.size());
  }
  BarChart chart{std::move(title), {}};
  for (const int ranks : rank_counts_of(figures)) {
    for (const std::string& backend : backends_of(figures)) {
      const CollectiveFigure* figure = find_figure(figures, backend, ranks, size_of_ranks(ranks));
      if (figure == nullptr) continue;
      const double value = value_of(*figure);
      chart.bars.push_back(
          {fmt::format("{:>10}  {:<{}} ", rank_count_text(ranks), backend, longest),
           largest > 0 ? value / largest : 0, measurement_text(value)});
    }
  }
  return chart;
}

}  // namespace

TableRows collectives_table(const CollectiveFigures& figures) {
  const auto backends = backends_of(figures);
  TableRows rows{{fmt::format("{:>7}", "RANKS"), fmt::format("{:>9}", "SIZE")}};
  for (const std::string& backend : backends) {
    rows[0].push_back(fmt::format("{:>9}", backend + " us"));
    rows[0].push_back(fmt::format("{:>6}", "algbw"));
    rows[0].push_back(fmt::format("{:>6}", "busbw"));
  }
  for (const int ranks : rank_counts_of(figures)) {
    for (const std::uint64_t bytes : sizes_of(figures, ranks)) {
      std::vector<std::string> row{fmt::format("{:>7}", ranks),
                                   fmt::format("{:>9}", exact_bytes_text(bytes))};
      for (const std::string& backend : backends) {
        const CollectiveFigure* figure = find_figure(figures, backend, ranks, bytes);
        row.push_back(
            fmt::format("{:>9}", figure == nullptr ? "-" : measurement_text(figure->microseconds)));
        row.push_back(fmt::format(
            "{:>6}", figure == nullptr ? "-" : measurement_text(figure->algorithm_bandwidth)));
        row.push_back(fmt::format(
            "{:>6}", figure == nullptr ? "-" : measurement_text(figure->bus_bandwidth)));
      }
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::vector<BarChart> collectives_bars(const CollectiveFigures& figures) {
  if (figures.empty()) return {};
  const auto smallest = [&](int ranks) { return sizes_of(figures, ranks).front(); };
  const auto largest = [&](int ranks) { return sizes_of(figures, ranks).back(); };
  const int first = rank_counts_of(figures).front();
  return {bars_of(
              figures, fmt::format("time at {}, microseconds", exact_bytes_text(smallest(first))),
              [](const CollectiveFigure& f) { return f.microseconds; }, smallest),
          bars_of(
              figures, fmt::format("bus bandwidth at {}, GB/s", exact_bytes_text(largest(first))),
              [](const CollectiveFigure& f) { return f.bus_bandwidth; }, largest)};
}

}  // namespace dlrun
