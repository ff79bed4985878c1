#include "cli/terminal/collectives_chart.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/core.h>

#include "common/units.h"

namespace dlrun {
namespace {

std::string bars_of(const CollectiveFigures& figures, const std::string& heading,
                    const std::function<double(const CollectiveFigure&)>& value_of,
                    const std::function<std::uint64_t(int ranks)>& size_of_ranks) {
  constexpr double kWidth = 48;
  double largest = 0;
  std::size_t longest = 0;
  for (const CollectiveFigure& figure : figures) {
    if (figure.bytes != size_of_ranks(figure.ranks)) continue;
    largest = std::max(largest, value_of(figure));
    longest = std::max(longest, figure.backend.size());
  }
  std::string text = heading + "\n";
  for (const int ranks : rank_counts_of(figures)) {
    for (const std::string& backend : backends_of(figures)) {
      const CollectiveFigure* figure = find_figure(figures, backend, ranks, size_of_ranks(ranks));
      if (figure == nullptr) continue;
      const double value = value_of(*figure);
      const int blocks = largest > 0 ? static_cast<int>(std::lround(value / largest * kWidth)) : 0;
      text += fmt::format("  {:>10}  {:<{}}  ", rank_count_text(ranks), backend, longest);
      for (int i = 0; i < std::max(blocks, 1); ++i) text += "█";
      text += fmt::format(" {}\n", measurement_text(value));
    }
  }
  return text;
}

}  // namespace

Text collectives_table(const CollectiveFigures& figures) {
  const auto backends = backends_of(figures);
  std::vector<std::vector<std::string>> rows(
      1, {fmt::format("{:>7}", "RANKS"), fmt::format("{:>9}", "SIZE")});
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
  return table(rows);
}

Text collectives_bars(const CollectiveFigures& figures) {
  if (figures.empty()) return {};
  const auto smallest = [&](int ranks) { return sizes_of(figures, ranks).front(); };
  const auto largest = [&](int ranks) { return sizes_of(figures, ranks).back(); };
  const int first = rank_counts_of(figures).front();
  return Text::of_lines(
      bars_of(
          figures, fmt::format("time at {}, microseconds", exact_bytes_text(smallest(first))),
          [](const CollectiveFigure& f) { return f.microseconds; }, smallest) +
      "\n" +
      bars_of(
          figures, fmt::format("bus bandwidth at {}, GB/s", exact_bytes_text(largest(first))),
          [](const CollectiveFigure& f) { return f.bus_bandwidth; }, largest));
}

}  // namespace dlrun
