#include "common/units.h"

#include <doctest/doctest.h>

namespace dlrun {

TEST_CASE("durations and memory are printed in readable units") {
  CHECK(duration_text(46.4) == "46 s");
  CHECK(duration_text(192) == "3 min 12 s");
  CHECK(duration_text(7500) == "2 h 5 min");
  CHECK(duration_text(300'000) == "3 d 11 h");
  CHECK(duration_text(-1) == "0 s");
  CHECK(fine_duration_text(7.46) == "7.5 s");
  CHECK(fine_duration_text(-1) == "0.0 s");
  CHECK(fine_duration_text(46.4) == "46 s");
  CHECK(precise_duration_text(1.25) == "1.25 s");
  CHECK(precise_duration_text(3.1e-3) == "3.1 ms");
  CHECK(precise_duration_text(4e-5) == "40 us");
  CHECK(memory_text(512) == "512 B");
  CHECK(memory_text(1000) == "1.0 KiB");
  CHECK(memory_text(37e6) == "35 MiB");
  CHECK(memory_text(3.65e9) == "3.4 GiB");
  CHECK(memory_text(3.68e9) == "3.4 GiB");
  CHECK(fine_memory_text(3.68e9) == "3.43 GiB");
  CHECK(fine_memory_text(512) == "512 B");
}

TEST_CASE("exact sizes are printed in the largest unit in which they are whole") {
  CHECK(exact_bytes_text(8) == "8 B");
  CHECK(exact_bytes_text(1024) == "1 KiB");
  CHECK(exact_bytes_text(1028) == "1028 B");
  CHECK(exact_bytes_text(16U << 20U) == "16 MiB");
}

TEST_CASE("sizes of files are printed in KiB or a larger unit, with one decimal") {
  CHECK(bytes_text(512) == "0.5 KiB");
  CHECK(bytes_text(9.2 * 1024 * 1024) == "9.2 MiB");
  CHECK(bytes_text(1.5 * 1024 * 1024 * 1024) == "1.5 GiB");
}

TEST_CASE("an age is printed in one unit, and is never negative") {
  CHECK(age_text(-5) == "0 s");
  CHECK(age_text(119) == "119 s");
  CHECK(age_text(120) == "2 min");
  CHECK(age_text(7200) == "2 h");
  CHECK(age_text(172'800) == "2 d");
}

TEST_CASE("numbers are shortened, with the precision that each use needs") {
  CHECK(coarse_rate_text(84'321) == "84.3k");
  CHECK(coarse_rate_text(1.2e6) == "1.2M");
  CHECK(coarse_rate_text(812.4) == "812");
  CHECK(value_text(0.12345) == "0.1235");
  CHECK(value_text(1.234e6) == "1.23M");
  CHECK(short_value_text(84'321) == "84.3k");
  CHECK(short_value_text(0.98125) == "0.9812");
  CHECK(short_value_text(-2.5e6) == "-2.5M");
  CHECK(rate_text(0.2414) == "0.241");
  CHECK(rate_text(9994) == "9994");
  CHECK(rate_text(9996) == "10k");
  CHECK(rate_text(999'600) == "1M");
  CHECK(measurement_text(0.244) == "0.24");
  CHECK(measurement_text(51.24) == "51.2");
  CHECK(measurement_text(3997) == "3997");
  CHECK(fraction_as_percent_text(0.75) == "75 %");
  CHECK(fraction_as_percent_text(0.0994) == "9.9 %");
  CHECK(power_text(342.4) == "342 W");
  CHECK(power_text(2744) == "2.74 kW");
  CHECK(energy_text(3600 * 82.04) == "82 Wh");
  CHECK(energy_text(3.6e6 * 1.524) == "1.52 kWh");
  CHECK(energy_text(3.6e9 * 2.1) == "2.1 MWh");
}

TEST_CASE("a value that is rounded up to the next unit is printed in that unit") {
  constexpr double kKibi = 1024, kMebi = kKibi * kKibi;
  CHECK(fine_memory_text(999.4 * kMebi) == "999 MiB");
  CHECK(fine_memory_text(999.7 * kMebi) == "0.976 GiB");
  CHECK(memory_text(999.7 * kMebi) == "1.0 GiB");
  CHECK(precise_duration_text(0.9994) == "999 ms");
  CHECK(precise_duration_text(0.9997) == "1 s");
  CHECK(precise_duration_text(0.9997e-3) == "1 ms");
  CHECK(coarse_rate_text(9999.6) == "10.0k");
  CHECK(coarse_rate_text(999'960) == "1.0M");
  CHECK(value_text(9999.4) == "9999");
  CHECK(value_text(9999.6) == "10.0k");
  CHECK(value_text(999'960) == "1.00M");
  CHECK(short_value_text(9999.4) == "9999");
  CHECK(short_value_text(-9999.6) == "-10k");
  CHECK(short_value_text(999'600) == "1M");
  CHECK(short_value_text(999.6e6) == "1G");
}

TEST_CASE("a number of any size is printed in few characters") {
  CHECK(value_text(1e308) == "1e+308");
  CHECK(value_text(-1e308) == "-1e+308");
  CHECK(cores_text(1.5) == "1.50");
  CHECK(whole_percent_text(75.4) == "75 %");
  for (const auto& format :
       {bytes_text, memory_text, fine_memory_text, duration_text, fine_duration_text,
        precise_duration_text, coarse_rate_text, value_text, short_value_text, rate_text,
        measurement_text, cores_text, power_text, energy_text, fraction_as_percent_text,
        whole_percent_text}) {
    for (const double value : {1e308, -1e308}) {
      const std::string text = format(value);
      CHECK_MESSAGE(text.size() < 24, text);
    }
  }
}

}  // namespace dlrun
