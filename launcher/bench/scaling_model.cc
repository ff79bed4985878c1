#include "launcher/bench/scaling_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <set>

namespace dlrun {
namespace {

using Measurements = std::vector<ScalingMeasurement>;
using Modelled = std::vector<ModelledRate>;

constexpr std::size_t kTermCount = 3;
using Factors = std::array<double, kTermCount>;

/// Returns the factors of compute, latency and transfer in the model.
Factors factors_of(int ranks) {
  const double n = ranks;
  return {1, 2 * (n - 1), 2 * (n - 1) / n};
}

struct Fit {
  ScalingModel model;
  double error = 0;  ///< sum of the squared relative errors
};

/// Fits some of the terms by least squares with the normal equations, for at most three unknowns.
/// Returns nullopt if the terms cannot be separated or a cost would be negative.
std::optional<Fit> fit_terms(const Measurements& measurements, double batch,
                             const std::array<bool, kTermCount>& used) {
  std::array<std::array<double, kTermCount + 1>, kTermCount> a{};
  for (const ScalingMeasurement& measurement : measurements) {
    const double step_s = measurement.ranks * batch / measurement.samples_per_s;
    const Factors factors = factors_of(measurement.ranks);
    for (std::size_t i = 0; i < kTermCount; ++i) {
      for (std::size_t j = 0; j < kTermCount; ++j)
        a[i][j] += factors[i] * factors[j] / (step_s * step_s);
      a[i][kTermCount] += factors[i] / step_s;
    }
  }
  for (std::size_t i = 0; i < kTermCount; ++i) {
    if (used[i]) continue;
    for (std::size_t j = 0; j < kTermCount; ++j) a[i][j] = a[j][i] = 0;
    a[i][i] = 1;
    a[i][kTermCount] = 0;
  }
  // Gauss-Jordan elimination. Needs no exchange of rows, because the matrix is symmetric and
  // positive semidefinite.
  for (std::size_t i = 0; i < kTermCount; ++i) {
    if (std::abs(a[i][i]) < 1e-12) return std::nullopt;
    for (std::size_t row = 0; row < kTermCount; ++row) {
      if (row == i) continue;
      const double factor = a[row][i] / a[i][i];
      for (std::size_t j = i; j <= kTermCount; ++j) a[row][j] -= factor * a[i][j];
    }
  }
  Fit fit;
  const std::array<double, kTermCount> costs{a[0][kTermCount] / a[0][0], a[1][kTermCount] / a[1][1],
                                             a[2][kTermCount] / a[2][2]};
  if (std::any_of(costs.begin(), costs.end(), [](double cost) { return !(cost >= 0); }))
    return std::nullopt;
  fit.model = {costs[0], costs[1], costs[2]};
  for (const ScalingMeasurement& measurement : measurements) {
    const double relative_error =
        fit.model.samples_per_s(measurement.ranks, batch) / measurement.samples_per_s - 1;
    fit.error += relative_error * relative_error;
  }
  return fit;
}

const ScalingMeasurement& base_of(const Measurements& measurements) {
  return *std::min_element(measurements.begin(), measurements.end(),
                           [](const auto& a, const auto& b) { return a.ranks < b.ranks; });
}

}  // namespace

double ScalingModel::step_s(int ranks) const {
  const Factors factors = factors_of(ranks);
  return compute_s * factors[0] + latency_s * factors[1] + transfer_s * factors[2];
}

double ScalingModel::samples_per_s(int ranks, double batch) const {
  return ranks * batch / step_s(ranks);
}

std::vector<ScalingModel> fit_scaling(const Measurements& measurements, double batch) {
  std::set<int> ranks;
  for (const ScalingMeasurement& measurement : measurements) ranks.insert(measurement.ranks);
  if (ranks.size() < 2) return {};
  const auto latency = fit_terms(measurements, batch, {true, true, false});
  const auto transfer = fit_terms(measurements, batch, {true, false, true});
  const auto neither = fit_terms(measurements, batch, {true, false, false});
  std::vector<ScalingModel> models;
  if (ranks.size() == 2) {
    if (latency) models.push_back(latency->model);
    if (transfer) models.push_back(transfer->model);
    if (models.empty() && neither) models.push_back(neither->model);
    return models;
  }
  std::optional<Fit> best;
  for (const auto& fit :
       {fit_terms(measurements, batch, {true, true, true}), latency, transfer, neither}) {
    if (fit && (!best || fit->error < best->error)) best = fit;
  }
  if (best) models.push_back(best->model);
  return models;
}

Modelled predict_scaling(const Measurements& measurements, const std::vector<ScalingModel>& models,
                         double batch) {
  Modelled modelled;
  if (models.empty()) return modelled;
  int ranks = 0;
  for (const ScalingMeasurement& measurement : measurements)
    ranks = std::max(ranks, measurement.ranks);
  while (ranks < kMostModelledRanks) {
    ranks = std::min(2 * ranks, kMostModelledRanks);
    ModelledRate one{ranks, models.front().samples_per_s(ranks, batch), 0};
    for (const ScalingModel& model : models) {
      one.low = std::min(one.low, model.samples_per_s(ranks, batch));
      one.high = std::max(one.high, model.samples_per_s(ranks, batch));
    }
    modelled.push_back(one);
  }
  return modelled;
}

double speed_up(const Measurements& measurements, double samples_per_s) {
  return samples_per_s / base_of(measurements).samples_per_s;
}

double efficiency(const Measurements& measurements, int ranks, double samples_per_s) {
  return speed_up(measurements, samples_per_s) * base_of(measurements).ranks / ranks;
}

}  // namespace dlrun
