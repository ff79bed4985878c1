#pragma once
// Formats sizes, durations and numbers for people, on terminals and in pages. Pure functions
// without a locale. A value of any size gives a short text. Functions that differ only in precision
// follow each other.

#include <cstdint>
#include <string>
#include <string_view>

namespace dlrun {

/// Formats the size of a file in KiB, MiB or GiB: "0.5 KiB", "9.2 MiB", "1.5 GiB".
[[nodiscard]] std::string bytes_text(double bytes);
/// Formats a size in the first of the units MiB, KiB and B in which it is a whole number: "64 KiB",
/// "1028 B".
[[nodiscard]] std::string exact_bytes_text(std::uint64_t bytes);
/// Formats an amount of memory: "512 B", "35 MiB"; with one decimal below 10: "3.4 GiB".
[[nodiscard]] std::string memory_text(double bytes);
/// Formats an amount of memory with three significant digits: "3.42 GiB".
[[nodiscard]] std::string fine_memory_text(double bytes);

/// A unit for numbers of bytes. A number of bytes divided by `divisor` is the number in this unit.
struct ByteScale {
  double divisor = 1;
  std::string_view unit = "B";
};
/// Returns the largest unit in which `bytes` is at least 1; the unit B if there is none.
[[nodiscard]] ByteScale byte_scale(double bytes);

/// Formats a duration in its two largest units: "46 s", "3 min 12 s", "2 h 5 min", "3 d 4 h".
[[nodiscard]] std::string duration_text(double seconds);
/// Formats a duration like duration_text(); below ten seconds with one decimal: "7.5 s".
[[nodiscard]] std::string fine_duration_text(double seconds);
/// Formats a short duration with three significant digits: "1.25 s", "3.1 ms", "40 us".
[[nodiscard]] std::string precise_duration_text(double seconds);
/// Formats an age in one unit: "12 s", "3 min", "2 h", "5 d"; "0 s" if it is negative.
[[nodiscard]] std::string age_text(std::int64_t seconds);

/// Formats a rate without decimals; from 10,000 on with a suffix and one decimal: "812", "84.3k",
/// "1.2M".
[[nodiscard]] std::string coarse_rate_text(double value);
/// Formats a rate with three significant digits: "0.241", "812", "84.3k", "1.2M".
[[nodiscard]] std::string rate_text(double value);
/// Formats a value with four significant digits, from 10,000 on with a suffix: "0.1234", "84.3k",
/// "1.23M".
[[nodiscard]] std::string value_text(double value);
/// Formats a value in few characters, for a page: "84.3k", "0.981", "1.2e-05", "3.1G".
[[nodiscard]] std::string short_value_text(double value);
/// Formats a positive measurement with about three significant digits: "0.24", "51.2", "3997".
[[nodiscard]] std::string measurement_text(double value);
/// Formats a number of busy cores with two decimals: "1.50".
[[nodiscard]] std::string cores_text(double cores);
/// Formats a power with three significant digits: "342 W", "2.74 kW".
[[nodiscard]] std::string power_text(double watts);
/// Formats an energy with three significant digits: "820 Wh", "1.52 kWh", "2.1 MWh".
[[nodiscard]] std::string energy_text(double joules);
/// Formats a fraction from 0 to 1: "75 %"; with two significant digits below 10 %: "9.9 %".
[[nodiscard]] std::string fraction_as_percent_text(double fraction);
/// Formats a percentage as a whole number: "75 %".
[[nodiscard]] std::string whole_percent_text(double percent);

}  // namespace dlrun
