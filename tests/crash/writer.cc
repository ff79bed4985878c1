#include "tests/crash/writer.h"

#include <algorithm>
#include <optional>

#include <doctest/doctest.h>

#include "tests/temporary_directory.h"

namespace dlrun::crash {
namespace {

namespace fs = std::filesystem;

struct Simulation {
  std::vector<std::string> guards;  ///< the ordering calls of the writer
  std::size_t crash_count = 0;
  /// The writer's own error, or the first faults that its reader finds after a crash.
  std::vector<std::string> faults;
};

Simulation simulate_crashes(const Writer& writer, std::optional<std::size_t> skip) {
  const std::size_t max_faults = skip ? 1 : 3;  // one fault shows that the skipped guard is needed
  const TemporaryDirectory parent;
  const fs::path folder = parent / "disk";
  fs::create_directory(folder);
  if (writer.prepare) writer.prepare(folder);
  LazyDisk disk(folder, skip);
  const auto written = writer.write(folder, disk);
  disk.stop();
  Simulation simulation{disk.ordering_calls(), 0, {}};
  if (!written) {
    simulation.faults.push_back("the writer failed: " + written.error().message);
    return simulation;
  }
  for (const LazyDisk::Crash& crash : disk.crashes()) {
    ++simulation.crash_count;
    const TemporaryDirectory after_crash;
    write_disk_state(crash.state, after_crash.path());
    const std::string fault = writer.fault_of(after_crash.path(), crash.reported);
    if (fault.empty()) continue;
    simulation.faults.push_back(crash.description + ": " + fault);
    if (simulation.faults.size() == max_faults) break;
  }
  return simulation;
}

}  // namespace

void check_writer(const Writer& writer, const std::vector<UnneededGuard>& unneeded) {
  const Simulation with_all_guards = simulate_crashes(writer, std::nullopt);
  for (const std::string& fault : with_all_guards.faults) FAIL_CHECK(fault);
  CHECK(with_all_guards.crash_count > with_all_guards.guards.size());
  REQUIRE_FALSE(with_all_guards.guards.empty());
  for (std::size_t i = 0; i < with_all_guards.guards.size(); ++i) {
    const std::string& guard = with_all_guards.guards[i];
    const bool is_listed =
        std::any_of(unneeded.begin(), unneeded.end(),
                    [&](const UnneededGuard& known) { return guard == known.guard; });
    const bool is_needed = !simulate_crashes(writer, i).faults.empty();
    if (!is_needed && !is_listed)
      FAIL_CHECK("the reader finds no fault if this guard is skipped: ", guard);
    if (is_needed && is_listed)
      FAIL_CHECK("the reader finds a fault if this unneeded guard is skipped: ", guard);
  }
  for (const UnneededGuard& known : unneeded) {
    const bool is_there = std::find(with_all_guards.guards.begin(), with_all_guards.guards.end(),
                                    known.guard) != with_all_guards.guards.end();
    if (!is_there) FAIL_CHECK("this unneeded guard does not exist: ", std::string(known.guard));
  }
  MESSAGE(with_all_guards.crash_count, " crashes, ", with_all_guards.guards.size(), " guards");
}

}  // namespace dlrun::crash
