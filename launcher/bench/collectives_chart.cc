#include "launcher/bench/collectives_chart.h"

#include <algorithm>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "common/units.h"

namespace dlrun {
namespace {

BarChart bars_of(const CollectiveMeasurements& measurements, std::string title,
                 const std::function<double(const CollectiveMeasurement&)>& value_of,
                 const std::function<std::uint64_t(int ranks)>& bytes_for_ranks) {
  double largest = 0;
  std::size_t backend_width = 0;
  for (const CollectiveMeasurement& measurement : measurements) {
    if (measurement.bytes != bytes_for_ranks(measurement.ranks)) continue;
    largest = std::max(largest, value_of(measurement));
    backend_width = std::max(backend_width, measurement.backend.size());
  }
  BarChart chart{std::move(title), {}};
  for (const int ranks : rank_counts_of(measurements)) {
    for (const std::string& backend : backends_of(measurements)) {
      const CollectiveMeasurement* measurement =
          find_measurement(measurements, backend, ranks, bytes_for_ranks(ranks));
      if (measurement == nullptr) continue;
      const double value = value_of(*measurement);
      chart.bars.push_back(
          {fmt::format("{:>10}  {:<{}} ", rank_count_text(ranks), backend, backend_width),
           largest > 0 ? value / largest : 0, measurement_text(value)});
    }
  }
  return chart;
}

}  // namespace

TableRows collectives_table(const CollectiveMeasurements& measurements) {
  const auto backends = backends_of(measurements);
  TableRows rows{{fmt::format("{:>7}", "RANKS"), fmt::format("{:>9}", "SIZE")}};
  for (const std::string& backend : backends) {
    rows[0].push_back(fmt::format("{:>9}", backend + " us"));
    rows[0].push_back(fmt::format("{:>6}", "algbw"));
    rows[0].push_back(fmt::format("{:>6}", "busbw"));
  }
  for (const int ranks : rank_counts_of(measurements)) {
    for (const std::uint64_t bytes : sizes_of(measurements, ranks)) {
      std::vector<std::string> row{fmt::format("{:>7}", ranks),
                                   fmt::format("{:>9}", exact_bytes_text(bytes))};
      for (const std::string& backend : backends) {
        const CollectiveMeasurement* measurement =
            find_measurement(measurements, backend, ranks, bytes);
        row.push_back(fmt::format(
            "{:>9}", measurement == nullptr ? "-" : measurement_text(measurement->microseconds)));
        row.push_back(fmt::format(
            "{:>6}",
            measurement == nullptr ? "-" : measurement_text(measurement->algorithm_bandwidth)));
        row.push_back(fmt::format(
            "{:>6}", measurement == nullptr ? "-" : measurement_text(measurement->bus_bandwidth)));
      }
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::vector<BarChart> collectives_bars(const CollectiveMeasurements& measurements) {
  if (measurements.empty()) return {};
  const auto smallest = [&](int ranks) { return sizes_of(measurements, ranks).front(); };
  const auto largest = [&](int ranks) { return sizes_of(measurements, ranks).back(); };
  const int first_rank_count = rank_counts_of(measurements).front();
  return {bars_of(
              measurements,
              fmt::format("time at {}, microseconds", exact_bytes_text(smallest(first_rank_count))),
              [](const CollectiveMeasurement& m) { return m.microseconds; }, smallest),
          bars_of(
              measurements,
              fmt::format("bus bandwidth at {}, GB/s", exact_bytes_text(largest(first_rank_count))),
              [](const CollectiveMeasurement& m) { return m.bus_bandwidth; }, largest)};
}

}  // namespace dlrun
