#include "common/units.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/core.h>

namespace dlrun {
namespace {

constexpr std::array<std::string_view, 6> kByteUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
constexpr std::int64_t kMinute = 60, kHour = 60 * kMinute, kDay = 24 * kHour;

/// The smallest value that three significant digits show as 1e+03.
constexpr double kRoundedTo1000 = 999.5;
/// The smallest value that four significant digits show as 1e+04.
constexpr double kRoundedTo10000 = 9999.5;

/// Returns the smallest unit in which `bytes`, rounded to a whole number, has at most three digits.
/// Chooses among the first unit_count units of kByteUnits.
ByteScale short_scale(double bytes, std::size_t unit_count) {
  ByteScale scale;
  for (std::size_t unit = 1; unit < unit_count && bytes / scale.divisor >= kRoundedTo1000; ++unit)
    scale = {scale.divisor * 1024, kByteUnits[unit]};
  return scale;
}

/// Formats a value with this number of decimals, but a value of 1e9 or more with an exponent. A
/// file of another user may hold any number, such as 1e308.
std::string fixed(double value, int decimals) {
  return std::abs(value) < 1e9 ? fmt::format("{:.{}f}", value, decimals)
                               : fmt::format("{:.4g}", value);
}

/// The smallest absolute value that is shown with an exponent instead of a suffix.
constexpr double kLeastWithExponent = 1e12;

}  // namespace

std::string bytes_text(double bytes) {
  constexpr double kStep = 1024;
  if (bytes < kStep * kStep) return fixed(bytes / kStep, 1) + " KiB";
  const double mebibytes = bytes / kStep / kStep;
  return mebibytes < kStep ? fmt::format("{:.1f} MiB", mebibytes)
                           : fixed(mebibytes / kStep, 1) + " GiB";
}

std::string exact_bytes_text(std::uint64_t bytes) {
  constexpr std::uint64_t kKibi = 1U << 10U;
  constexpr std::uint64_t kMebi = 1U << 20U;
  if (bytes % kMebi == 0 && bytes > 0) return fmt::format("{} MiB", bytes / kMebi);
  if (bytes % kKibi == 0 && bytes > 0) return fmt::format("{} KiB", bytes / kKibi);
  return fmt::format("{} B", bytes);
}

std::string memory_text(double bytes) {
  const ByteScale scale = short_scale(bytes, kByteUnits.size());
  const double value = bytes / scale.divisor;
  const int decimals = value < 10 && scale.divisor > 1 ? 1 : 0;
  return fmt::format("{} {}", fixed(value, decimals), scale.unit);
}

std::string fine_memory_text(double bytes) {
  const ByteScale scale = short_scale(bytes, kByteUnits.size() - 1);
  return fmt::format("{:.3g} {}", bytes / scale.divisor, scale.unit);
}

ByteScale byte_scale(double bytes) {
  ByteScale scale;
  for (std::size_t unit = 1; unit < kByteUnits.size() && bytes / scale.divisor >= 1024; ++unit)
    scale = {scale.divisor * 1024, kByteUnits[unit]};
  return scale;
}

std::string duration_text(double seconds) {
  const auto s = static_cast<std::int64_t>(std::lround(std::clamp(seconds, 0.0, 1e12)));
  if (s < kMinute) return fmt::format("{} s", s);
  if (s < kHour) return fmt::format("{} min {} s", s / kMinute, s % kMinute);
  if (s < kDay) return fmt::format("{} h {} min", s / kHour, s / kMinute % 60);
  return fmt::format("{} d {} h", s / kDay, s / kHour % 24);
}

std::string fine_duration_text(double seconds) {
  return seconds < 10 ? fmt::format("{:.1f} s", std::max(seconds, 0.0)) : duration_text(seconds);
}

std::string precise_duration_text(double seconds) {
  if (seconds * 1e6 < kRoundedTo1000) return fmt::format("{:.3g} us", seconds * 1e6);
  return seconds * 1e3 < kRoundedTo1000 ? fmt::format("{:.3g} ms", seconds * 1e3)
                                        : fmt::format("{:.3g} s", seconds);
}

std::string age_text(std::int64_t seconds) {
  if (seconds < 2 * kMinute) return fmt::format("{} s", std::max<std::int64_t>(seconds, 0));
  if (seconds < 2 * kHour) return fmt::format("{} min", seconds / kMinute);
  if (seconds < 2 * kDay) return fmt::format("{} h", seconds / kHour);
  return fmt::format("{} d", seconds / kDay);
}

std::string coarse_rate_text(double value) {
  if (std::abs(value) >= kLeastWithExponent) return fmt::format("{:.4g}", value);
  if (value >= 999'950) return fmt::format("{:.1f}M", value / 1e6);
  if (value >= kRoundedTo10000) return fmt::format("{:.1f}k", value / 1e3);
  return fmt::format("{:.0f}", value);
}

std::string rate_text(double value) {
  if (value >= 999'500) return fmt::format("{:.3g}M", value / 1e6);
  if (value >= 9'995) return fmt::format("{:.3g}k", value / 1e3);
  return value >= 100 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

std::string value_text(double value) {
  if (std::abs(value) >= kLeastWithExponent) return fmt::format("{:.4g}", value);
  if (value >= 999'950) return fmt::format("{:.2f}M", value / 1e6);
  if (value >= kRoundedTo10000) return fmt::format("{:.1f}k", value / 1e3);
  return fmt::format("{:.4g}", value);
}

std::string short_value_text(double value) {
  const double size = std::abs(value);
  if (size / 1e6 >= kRoundedTo1000) return fmt::format("{:.3g}G", value / 1e9);
  if (size / 1e3 >= kRoundedTo1000) return fmt::format("{:.3g}M", value / 1e6);
  if (size >= kRoundedTo10000) return fmt::format("{:.3g}k", value / 1e3);
  return fmt::format("{:.4g}", value);
}

std::string measurement_text(double value) {
  return fixed(value, value < 10 ? 2 : value < 100 ? 1 : 0);
}

std::string cores_text(double cores) {
  return fixed(cores, 2);
}

std::string power_text(double watts) {
  return watts < kRoundedTo1000 ? fmt::format("{:.3g} W", watts)
                                : fmt::format("{:.3g} kW", watts / 1e3);
}

std::string energy_text(double joules) {
  const double watt_hours = joules / 3600;
  if (watt_hours < kRoundedTo1000) return fmt::format("{:.3g} Wh", watt_hours);
  return watt_hours / 1e3 < kRoundedTo1000 ? fmt::format("{:.3g} kWh", watt_hours / 1e3)
                                           : fmt::format("{:.3g} MWh", watt_hours / 1e6);
}

std::string fraction_as_percent_text(double fraction) {
  return fraction < 0.0995 ? fmt::format("{:.2g} %", fraction * 100)
                           : whole_percent_text(fraction * 100);
}

std::string whole_percent_text(double percent) {
  return fixed(percent, 0) + " %";
}

}  // namespace dlrun
