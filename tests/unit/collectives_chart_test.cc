// Tests the table, the bars and the drawing of measured collectives.

#include "launcher/bench/collectives_chart.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cli/terminal/printed_text.h"
#include "tests/contains.h"

using namespace dlrun;

namespace {

const std::vector<CollectiveMeasurement> kMeasurements{
    {"mpi", 2, 8, 0.5, 0.016, 0.016},  {"mpi", 2, 16U << 20U, 5000, 3.355, 3.355},
    {"shm", 2, 8, 0.25, 0.032, 0.032}, {"shm", 2, 16U << 20U, 2500, 6.711, 6.711},
    {"shm", 4, 8, 1, 0.008, 0.012},    {"shm", 4, 16U << 20U, 10'000, 1.678, 2.517},
};

}  // namespace

TEST_CASE(
    "the table has a row for each number of ranks and size, and a dash if a backend was not "
    "measured") {
  CHECK(table(collectives_table(kMeasurements)).plain() ==
        "  RANKS       SIZE     mpi us   algbw   busbw     shm us   algbw   busbw\n"
        "      2        8 B       0.50    0.02    0.02       0.25    0.03    0.03\n"
        "      2     16 MiB       5000    3.35    3.35       2500    6.71    6.71\n"
        "      4        8 B          -       -       -       1.00    0.01    0.01\n"
        "      4     16 MiB          -       -       -      10000    1.68    2.52\n");
}

TEST_CASE(
    "bars show latency at the smallest size and bandwidth at the largest size, in proportion") {
  const auto charts = collectives_bars(kMeasurements);
  REQUIRE(charts.size() == 2);
  const std::string bars = text("{}\n{}", bar_chart(charts[0]), bar_chart(charts[1])).plain();
  CHECK(bars.find("time at 8 B, microseconds\n") == 0);
  CHECK(bars.find("bus bandwidth at 16 MiB, GB/s\n") != std::string::npos);
  const auto line = [&](const std::string& start, std::size_t from) {
    const auto at = bars.find(start, from);
    return bars.substr(at, bars.find('\n', at) - at);
  };
  const auto bandwidth_chart = bars.find("bus bandwidth");
  CHECK(count(line("2 ranks  mpi", 0), "█") == 24);  // half of the largest value
  CHECK(count(line("4 ranks  shm", 0), "█") == 48);
  CHECK(count(line("2 ranks  mpi", bandwidth_chart), "█") == 24);  // half of shm's
  CHECK(count(line("2 ranks  shm", bandwidth_chart), "█") == 48);
  CHECK(collectives_bars({}).empty());
}

TEST_CASE(
    "the drawing has two panels for each number of ranks, with a line for each backend inside "
    "the frame") {
  const std::string svg = collectives_svg(kMeasurements, "a <b> & c");
  CHECK(svg.starts_with("<svg xmlns="));
  CHECK(svg.ends_with("</svg>\n"));
  CHECK(svg.find("a &lt;b&gt; &amp; c") != std::string::npos);
  CHECK(count(svg, "<polyline") == 6);  // two backends at 2 ranks and one at 4; two panels each
  CHECK(count(svg, "ranks: time, us") == 2);
  CHECK(count(svg, "ranks: bus bandwidth, GB/s") == 2);
  // The bandwidth of shm at 2 ranks: the logarithmic axis goes from 0.01 to 10, so 6.711 is at 94 %
  // of the panel's height. The panel's top is at 58, and its height is 230.
  CHECK(svg.find("900.0,71.3\" stroke=\"#d55e00\"") != std::string::npos);
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(svg.find("inf") == std::string::npos);
}
