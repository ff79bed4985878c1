#include "cli/terminal/scaling_chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <set>
#include <string_view>

#include <fmt/core.h>

#include "cli/terminal/print.h"

namespace dlrun {
namespace {

using Figures = std::vector<ScalingFigure>;
using Modelled = std::vector<ModelledFigure>;

constexpr std::size_t kTerms = 3;
using Terms = std::array<double, kTerms>;

/// Returns the factors of compute, latency and transfer in the model.
Terms terms_of(int ranks) {
  const double n = ranks;
  return {1, 2 * (n - 1), 2 * (n - 1) / n};
}

struct Fit {
  ScalingModel model;
  double error = 0;  ///< sum of the squared relative errors
};

/// Fits some of the terms by least squares with the normal equations, for at most three unknowns.
/// Returns nothing if the terms cannot be separated or a cost would be negative.
std::optional<Fit> fit_terms(const Figures& figures, double batch,
                             const std::array<bool, kTerms>& used) {
  std::array<std::array<double, kTerms + 1>, kTerms> a{};
  for (const ScalingFigure& figure : figures) {
    const double step_s = figure.ranks * batch / figure.samples_per_s;
    const Terms terms = terms_of(figure.ranks);
    for (std::size_t i = 0; i < kTerms; ++i) {
      for (std::size_t j = 0; j < kTerms; ++j) a[i][j] += terms[i] * terms[j] / (step_s * step_s);
      a[i][kTerms] += terms[i] / step_s;
    }
  }
  for (std::size_t i = 0; i < kTerms; ++i) {
    if (used[i]) continue;
    for (std::size_t j = 0; j < kTerms; ++j) a[i][j] = a[j][i] = 0;
    a[i][i] = 1;
    a[i][kTerms] = 0;
  }
  // Gauss-Jordan elimination; the matrix is symmetric and positive semidefinite.
  for (std::size_t i = 0; i < kTerms; ++i) {
    if (std::abs(a[i][i]) < 1e-12) return std::nullopt;
    for (std::size_t row = 0; row < kTerms; ++row) {
      if (row == i) continue;
      const double factor = a[row][i] / a[i][i];
      for (std::size_t j = i; j <= kTerms; ++j) a[row][j] -= factor * a[i][j];
    }
  }
  Fit fit;
  const Terms found{a[0][kTerms] / a[0][0], a[1][kTerms] / a[1][1], a[2][kTerms] / a[2][2]};
  if (std::any_of(found.begin(), found.end(), [](double cost) { return !(cost >= 0); }))
    return std::nullopt;
  fit.model = {found[0], found[1], found[2]};
  for (const ScalingFigure& figure : figures) {
    const double off = fit.model.samples_per_s(figure.ranks, batch) / figure.samples_per_s - 1;
    fit.error += off * off;
  }
  return fit;
}

const ScalingFigure& base_of(const Figures& figures) {
  return *std::min_element(figures.begin(), figures.end(),
                           [](const auto& a, const auto& b) { return a.ranks < b.ranks; });
}

/// Formats a rate with three significant digits: "0.241", "812", "84.3k", "1.2M".
std::string rate(double value) {
  if (value >= 999'500) return fmt::format("{:.3g}M", value / 1e6);
  if (value >= 9'995) return fmt::format("{:.3g}k", value / 1e3);
  return value >= 100 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

std::string time_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.3g} s", seconds);
  return seconds >= 1e-3 ? fmt::format("{:.3g} ms", seconds * 1e3)
                         : fmt::format("{:.3g} us", seconds * 1e6);
}

std::string percent(double part) {
  return part < 0.0995 ? fmt::format("{:.2g} %", part * 100) : fmt::format("{:.0f} %", part * 100);
}

/// Returns "812", or "410 to 812" if the models disagree.
template <typename Shown>
std::string span(double low, double high, Shown shown) {
  const std::string first = shown(low), last = shown(high);
  return first == last ? first : first + " to " + last;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  }
  return out;
}

}  // namespace

double ScalingModel::step_s(int ranks) const {
  const Terms terms = terms_of(ranks);
  return compute_s * terms[0] + latency_s * terms[1] + transfer_s * terms[2];
}

double ScalingModel::samples_per_s(int ranks, double batch) const {
  return ranks * batch / step_s(ranks);
}

std::vector<ScalingModel> fit_scaling(const Figures& figures, double batch) {
  std::set<int> ranks;
  for (const ScalingFigure& figure : figures) ranks.insert(figure.ranks);
  if (ranks.size() < 2) return {};
  const auto latency = fit_terms(figures, batch, {true, true, false});
  const auto transfer = fit_terms(figures, batch, {true, false, true});
  const auto neither = fit_terms(figures, batch, {true, false, false});
  std::vector<ScalingModel> models;
  if (ranks.size() == 2) {
    if (latency) models.push_back(latency->model);
    if (transfer) models.push_back(transfer->model);
    if (models.empty() && neither) models.push_back(neither->model);
    return models;
  }
  std::optional<Fit> best;
  for (const auto& fit :
       {fit_terms(figures, batch, {true, true, true}), latency, transfer, neither}) {
    if (fit && (!best || fit->error < best->error)) best = fit;
  }
  if (best) models.push_back(best->model);
  return models;
}

Modelled continue_scaling(const Figures& figures, const std::vector<ScalingModel>& models,
                          double batch) {
  Modelled modelled;
  if (models.empty()) return modelled;
  int most = 0;
  for (const ScalingFigure& figure : figures) most = std::max(most, figure.ranks);
  while (most < kMostModelledRanks) {
    most = std::min(2 * most, kMostModelledRanks);
    ModelledFigure one{most, models.front().samples_per_s(most, batch), 0};
    for (const ScalingModel& model : models) {
      one.low = std::min(one.low, model.samples_per_s(most, batch));
      one.high = std::max(one.high, model.samples_per_s(most, batch));
    }
    modelled.push_back(one);
  }
  return modelled;
}

double speed_up(const Figures& figures, double samples_per_s) {
  return samples_per_s / base_of(figures).samples_per_s;
}

double efficiency(const Figures& figures, int ranks, double samples_per_s) {
  return speed_up(figures, samples_per_s) * base_of(figures).ranks / ranks;
}

Text scaling_table(const Figures& figures, const std::vector<ScalingModel>& models,
                   const Modelled& modelled, const char* per) {
  std::vector<std::vector<std::string>> rows(
      1, {"NODES", "RANKS", "SAMPLES/S", "SPEED-UP", "EFFICIENCY", "RUN"});
  for (const ScalingFigure& f : figures) {
    rows.push_back({fmt::format("{:>5}", f.nodes), fmt::format("{:>5}", f.ranks),
                    fmt::format("{:>9}", rate(f.samples_per_s)),
                    fmt::format("{:>8.2f}", speed_up(figures, f.samples_per_s)),
                    fmt::format("{:>10}", percent(efficiency(figures, f.ranks, f.samples_per_s))),
                    f.run});
  }
  Text text = table(rows);
  if (modelled.empty()) return text;
  text.add("\nmodelled, not measured: n ranks take for a {}", per);
  for (std::size_t i = 0; i < models.size(); ++i) {
    const ScalingModel& m = models[i];
    text.add("{}{} + 2(n-1) x {} + 2(n-1)/n x {}", i == 0 ? " " : ", or ", time_text(m.compute_s),
             time_text(m.latency_s), time_text(m.transfer_s));
  }
  text.add("{}\n", models.size() > 1
                       ? "; two numbers of ranks do not tell latency and transfer apart"
                       : "");
  std::vector<std::vector<std::string>> more(
      1, {"RANKS", "SAMPLES/S, MODELLED", "EFFICIENCY, MODELLED"});
  for (const ModelledFigure& f : modelled) {
    more.push_back({fmt::format("{:>5}", f.ranks), fmt::format("{:>19}", span(f.low, f.high, rate)),
                    fmt::format("{:>20}", span(efficiency(figures, f.ranks, f.low),
                                               efficiency(figures, f.ranks, f.high), percent))});
  }
  return text.add(table(more));
}

Text scaling_bars(const Figures& figures, const Modelled& modelled) {
  constexpr double kWidth = 48;
  std::string text = "efficiency: what is left of the rate that a rank has with the fewest ranks\n";
  double most = 1;
  for (const ScalingFigure& f : figures)
    most = std::max(most, efficiency(figures, f.ranks, f.samples_per_s));
  const auto bar = [&](int ranks, double part, const char* block, const std::string& words) {
    text += fmt::format("  {:>5} rank{} ", ranks, ranks == 1 ? " " : "s");
    const long blocks = std::lround(part / most * kWidth);
    for (long i = 0; i < std::max(blocks, 1L); ++i) text += block;
    text += " " + words + "\n";
  };
  for (const ScalingFigure& f : figures) {
    const double part = efficiency(figures, f.ranks, f.samples_per_s);
    bar(f.ranks, part, "█", percent(part));
  }
  for (const ModelledFigure& f : modelled) {
    const double low = efficiency(figures, f.ranks, f.low),
                 high = efficiency(figures, f.ranks, f.high);
    bar(f.ranks, high, "░", span(low, high, percent) + " modelled");
  }
  return Text::of_lines(text);
}

std::string scaling_svg(const Figures& figures, const Modelled& modelled,
                        const std::string& title) {
  constexpr double kWidth = 560, kHeight = 340, kLeft = 78, kTop = 70;
  const ScalingFigure& base = base_of(figures);
  const double first = base.ranks;
  double last = base.ranks;
  double low = base.samples_per_s;
  for (const ScalingFigure& f : figures) {
    last = std::max(last, static_cast<double>(f.ranks));
    low = std::min(low, f.samples_per_s);
  }
  for (const ModelledFigure& f : modelled) {
    last = std::max(last, static_cast<double>(f.ranks));
    low = std::min(low, f.low);
  }
  // The highest possible rate is the one without any cost.
  double high = base.samples_per_s * last / first;
  for (const ScalingFigure& f : figures) high = std::max(high, f.samples_per_s);
  low = std::pow(10, std::floor(std::log10(low)));
  high = std::pow(10, std::ceil(std::log10(high * 1.0001)));
  const auto along = [](double value, double from, double to) {
    return to > from ? (std::log10(value) - std::log10(from)) / (std::log10(to) - std::log10(from))
                     : 0.5;
  };
  const auto point = [&](double ranks, double value) {
    return fmt::format("{:.1f},{:.1f}", kLeft + along(ranks, first, last) * kWidth,
                       kTop + (1 - along(value, low, high)) * kHeight);
  };
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\">\n"
      "<style>text{{font:12px sans-serif;fill:#333}} .title{{font-weight:bold}} "
      ".grid{{stroke:#ddd}} "
      "polyline{{fill:none;stroke-width:2}} .modelled{{stroke:#d55e00;stroke-dasharray:6 4}} "
      ".measured{{stroke:#0072b2}} .ideal{{stroke:#999;stroke-width:1}}</style>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
      "<text x=\"{2:.0f}\" y=\"20\" class=\"title\">{3}</text>\n"
      "<text x=\"{2:.0f}\" y=\"42\"><tspan fill=\"#0072b2\">measured</tspan>{4}"
      "<tspan dx=\"16\" fill=\"#777\">every rank as fast as with {5}</tspan></text>\n",
      kLeft + kWidth + 30, kTop + kHeight + 52, kLeft, escaped(title),
      modelled.empty() ? "" : "<tspan dx=\"16\" fill=\"#d55e00\">modelled</tspan>", base.ranks);
  for (double tick = low; tick <= high * 1.001; tick *= 10) {
    const double y = kTop + (1 - along(tick, low, high)) * kHeight;
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" class=\"grid\"/>\n"
        "<text x=\"{3:.1f}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
        kLeft, kLeft + kWidth, y, kLeft - 6, y + 4, rate(tick));
  }
  for (double tick = first; tick <= last * 1.001; tick *= 2) {
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{:.0f}</text>\n",
                       kLeft + along(tick, first, last) * kWidth, kTop + kHeight + 18, tick);
  }
  svg += fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">ranks; samples a second "
      "upwards</text>\n",
      kLeft + kWidth / 2, kTop + kHeight + 38);
  svg +=
      fmt::format("<polyline points=\"{} {}\" class=\"ideal\"/>\n",
                  point(first, base.samples_per_s), point(last, base.samples_per_s * last / first));
  std::string measured, least, most;
  for (const ScalingFigure& f : figures) {
    measured += (measured.empty() ? "" : " ") + point(f.ranks, f.samples_per_s);
    svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"#0072b2\"/>\n",
                       kLeft + along(f.ranks, first, last) * kWidth,
                       kTop + (1 - along(f.samples_per_s, low, high)) * kHeight);
  }
  svg += fmt::format("<polyline points=\"{}\" class=\"measured\"/>\n", measured);
  if (!modelled.empty()) {
    const ScalingFigure& end = figures.back();
    least = most = point(end.ranks, end.samples_per_s);
    bool is_span = false;
    for (const ModelledFigure& f : modelled) {
      least += " " + point(f.ranks, f.low);
      most += " " + point(f.ranks, f.high);
      is_span = is_span || f.high > f.low * 1.0001;
    }
    svg += fmt::format("<polyline points=\"{}\" class=\"modelled\"/>\n", most);
    if (is_span) svg += fmt::format("<polyline points=\"{}\" class=\"modelled\"/>\n", least);
  }
  return svg + "</svg>\n";
}

}  // namespace dlrun
