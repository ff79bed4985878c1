#include "cli/terminal/collectives_chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string_view>

#include <fmt/core.h>

#include "cli/terminal/print.h"

namespace dlrun {
namespace {

using Figures = std::vector<CollectiveFigure>;

template <typename Value, typename Get>
std::vector<Value> distinct(const Figures& figures, Get get) {
  std::vector<Value> values;
  for (const CollectiveFigure& figure : figures) {
    const Value value = get(figure);
    if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
  }
  return values;
}

std::vector<std::string> backends_of(const Figures& figures) {
  return distinct<std::string>(figures, [](const CollectiveFigure& f) { return f.backend; });
}
std::vector<int> workers_of(const Figures& figures) {
  return distinct<int>(figures, [](const CollectiveFigure& f) { return f.workers; });
}

const CollectiveFigure* find(const Figures& figures, const std::string& backend, int workers,
                             std::uint64_t bytes) {
  for (const CollectiveFigure& figure : figures) {
    if (figure.backend == backend && figure.workers == workers && figure.bytes == bytes)
      return &figure;
  }
  return nullptr;
}

std::vector<std::uint64_t> sizes_of(const Figures& figures, int workers) {
  std::vector<std::uint64_t> sizes;
  for (const CollectiveFigure& figure : figures) {
    if (figure.workers == workers) sizes.push_back(figure.bytes);
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

/// Formats a number with about three significant digits: "0.24", "3.91", "51.2", "3997".
std::string number(double value) {
  return value < 10    ? fmt::format("{:.2f}", value)
         : value < 100 ? fmt::format("{:.1f}", value)
                       : fmt::format("{:.0f}", value);
}

std::string workers_text(int workers) {
  return fmt::format("{} worker{}", workers, workers == 1 ? "" : "s");
}

std::string bars_of(const Figures& figures, const std::string& heading,
                    const std::function<double(const CollectiveFigure&)>& value_of,
                    const std::function<std::uint64_t(int workers)>& size_of_workers) {
  constexpr double kWidth = 48;
  double largest = 0;
  std::size_t longest = 0;
  for (const CollectiveFigure& figure : figures) {
    if (figure.bytes != size_of_workers(figure.workers)) continue;
    largest = std::max(largest, value_of(figure));
    longest = std::max(longest, figure.backend.size());
  }
  std::string text = heading + "\n";
  for (const int workers : workers_of(figures)) {
    for (const std::string& backend : backends_of(figures)) {
      const CollectiveFigure* figure = find(figures, backend, workers, size_of_workers(workers));
      if (figure == nullptr) continue;
      const double value = value_of(*figure);
      const int blocks = largest > 0 ? static_cast<int>(std::lround(value / largest * kWidth)) : 0;
      text += fmt::format("  {:>10}  {:<{}}  ", workers_text(workers), backend, longest);
      for (int i = 0; i < std::max(blocks, 1); ++i) text += "█";
      text += fmt::format(" {}\n", number(value));
    }
  }
  return text;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else {
      out += c;
    }
  }
  return out;
}

constexpr double kPanelWidth = 380;
constexpr double kPanelHeight = 230;
constexpr double kLeft = 62;
constexpr double kTop = 58;
constexpr double kGap = 78;
constexpr std::array kColours{"#0072b2", "#d55e00", "#009e73",
                              "#cc79a7", "#e69f00", "#56b4e9"};  // the colours of Okabe and Ito

/// Returns the position of a value on a logarithmic axis from `low` to `high`, from 0 to 1.
double along(double value, double low, double high) {
  return high > low ? (std::log10(value) - std::log10(low)) / (std::log10(high) - std::log10(low))
                    : 0.5;
}

struct Panel {
  double x, y;  // of the upper left corner
  std::string title;
  int workers;
  std::function<double(const CollectiveFigure&)> value_of;
};

std::string drawn(const Panel& panel, const Figures& figures, double low, double high, double first,
                  double last) {
  const auto x_of = [&](double bytes) { return panel.x + along(bytes, first, last) * kPanelWidth; };
  const auto y_of = [&](double value) {
    return panel.y + (1 - along(value, low, high)) * kPanelHeight;
  };
  std::string svg = fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"title\">{}</text>\n",
                                panel.x, panel.y - 8, escaped(panel.title));
  for (double tick = low; tick <= high * 1.001; tick *= 10) {
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" class=\"grid\"/>\n"
        "<text x=\"{3:.1f}\" y=\"{4:.1f}\" text-anchor=\"end\">{5:g}</text>\n",
        panel.x, panel.x + kPanelWidth, y_of(tick), panel.x - 6, y_of(tick) + 4, tick);
  }
  const auto sizes = sizes_of(figures, panel.workers);
  const std::size_t every = sizes.size() / 6 + 1;
  for (std::size_t i = 0; i < sizes.size(); i += every) {
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
                       x_of(static_cast<double>(sizes[i])), panel.y + kPanelHeight + 16,
                       bytes_text(sizes[i]));
  }
  const auto backends = backends_of(figures);
  for (std::size_t b = 0; b < backends.size(); ++b) {
    std::string points;
    for (const std::uint64_t bytes : sizes) {
      const CollectiveFigure* figure = find(figures, backends[b], panel.workers, bytes);
      if (figure == nullptr || panel.value_of(*figure) <= 0) continue;
      points += fmt::format("{:.1f},{:.1f} ", x_of(static_cast<double>(bytes)),
                            y_of(panel.value_of(*figure)));
    }
    if (points.empty()) continue;
    points.pop_back();
    svg += fmt::format("<polyline points=\"{}\" stroke=\"{}\"/>\n", points,
                       kColours[b % kColours.size()]);
  }
  return svg;
}

}  // namespace

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::uint64_t kKibi = 1U << 10U;
  constexpr std::uint64_t kMebi = 1U << 20U;
  if (bytes % kMebi == 0 && bytes > 0) return fmt::format("{} MiB", bytes / kMebi);
  if (bytes % kKibi == 0 && bytes > 0) return fmt::format("{} KiB", bytes / kKibi);
  return fmt::format("{} B", bytes);
}

Text collectives_table(const Figures& figures) {
  const auto backends = backends_of(figures);
  std::vector<std::vector<std::string>> rows(1, {"WORKERS", fmt::format("{:>9}", "SIZE")});
  for (const std::string& backend : backends) {
    rows[0].push_back(fmt::format("{:>9}", backend + " us"));
    rows[0].push_back(fmt::format("{:>6}", "algbw"));
    rows[0].push_back(fmt::format("{:>6}", "busbw"));
  }
  for (const int workers : workers_of(figures)) {
    for (const std::uint64_t bytes : sizes_of(figures, workers)) {
      std::vector<std::string> row{fmt::format("{:>7}", workers),
                                   fmt::format("{:>9}", bytes_text(bytes))};
      for (const std::string& backend : backends) {
        const CollectiveFigure* figure = find(figures, backend, workers, bytes);
        row.push_back(fmt::format("{:>9}", figure == nullptr ? "-" : number(figure->microseconds)));
        row.push_back(
            fmt::format("{:>6}", figure == nullptr ? "-" : number(figure->algorithm_bandwidth)));
        row.push_back(
            fmt::format("{:>6}", figure == nullptr ? "-" : number(figure->bus_bandwidth)));
      }
      rows.push_back(std::move(row));
    }
  }
  return table(rows);
}

Text collectives_bars(const Figures& figures) {
  if (figures.empty()) return {};
  const auto smallest = [&](int workers) { return sizes_of(figures, workers).front(); };
  const auto largest = [&](int workers) { return sizes_of(figures, workers).back(); };
  const int first = workers_of(figures).front();
  return Text::of_lines(
      bars_of(
          figures, fmt::format("time at {}, microseconds", bytes_text(smallest(first))),
          [](const CollectiveFigure& f) { return f.microseconds; }, smallest) +
      "\n" +
      bars_of(
          figures, fmt::format("bus bandwidth at {}, GB/s", bytes_text(largest(first))),
          [](const CollectiveFigure& f) { return f.bus_bandwidth; }, largest));
}

std::string collectives_svg(const Figures& figures, const std::string& title) {
  const auto workers = workers_of(figures);
  const auto backends = backends_of(figures);
  const std::array<std::function<double(const CollectiveFigure&)>, 2> values{
      [](const CollectiveFigure& f) { return f.microseconds; },
      [](const CollectiveFigure& f) { return f.bus_bandwidth; }};
  // All panels of a column have the same axes, so that they can be compared by eye.
  std::array<double, 2> low{1e300, 1e300};
  std::array<double, 2> high{0, 0};
  double first = 1e300;
  double last = 0;
  for (const CollectiveFigure& figure : figures) {
    for (std::size_t v = 0; v < 2; ++v) {
      if (values[v](figure) <= 0) continue;
      low[v] = std::min(low[v], values[v](figure));
      high[v] = std::max(high[v], values[v](figure));
    }
    first = std::min(first, static_cast<double>(figure.bytes));
    last = std::max(last, static_cast<double>(figure.bytes));
  }
  for (std::size_t v = 0; v < 2; ++v) {
    low[v] = high[v] > 0 ? std::pow(10, std::floor(std::log10(low[v]))) : 1;
    high[v] = high[v] > 0 ? std::pow(10, std::ceil(std::log10(high[v]))) : 10;
  }
  const double width = kLeft + 2 * kPanelWidth + kGap + 24;
  const double height = kTop + static_cast<double>(workers.size()) * (kPanelHeight + kGap);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\">\n"
      "<style>text{{font:12px sans-serif;fill:#333}} .title{{font-weight:bold}} "
      ".grid{{stroke:#ddd}} "
      "polyline{{fill:none;stroke-width:2}}</style>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
      "<text x=\"{2:.0f}\" y=\"20\" class=\"title\">{3}</text>\n",
      width, height, kLeft, escaped(title));
  for (std::size_t b = 0; b < backends.size(); ++b) {
    const double x = width - 24 - 90 * static_cast<double>(backends.size() - b);
    svg += fmt::format(
        "<rect x=\"{:.0f}\" y=\"10\" width=\"14\" height=\"14\" fill=\"{}\"/><text x=\"{:.0f}\" "
        "y=\"21\">{}</text>\n",
        x, kColours[b % kColours.size()], x + 20, escaped(backends[b]));
  }
  for (std::size_t w = 0; w < workers.size(); ++w) {
    const double y = kTop + static_cast<double>(w) * (kPanelHeight + kGap);
    const std::array titles{fmt::format("{}: time, us", workers_text(workers[w])),
                            fmt::format("{}: bus bandwidth, GB/s", workers_text(workers[w]))};
    for (std::size_t v = 0; v < 2; ++v) {
      svg += drawn({kLeft + static_cast<double>(v) * (kPanelWidth + kGap), y, titles[v], workers[w],
                    values[v]},
                   figures, low[v], high[v], first, last);
    }
  }
  return svg + "</svg>\n";
}

}  // namespace dlrun
