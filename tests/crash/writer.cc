#include "tests/crash/writer.h"

#include <algorithm>
#include <optional>

#include <doctest/doctest.h>

#include "tests/temporary_directory.h"

namespace dlrun::crash {
namespace {

namespace fs = std::filesystem;

struct Outcome {
  std::vector<std::string> guards;
  std::size_t crashes = 0;
  /// The writer's own error, or the first few faults after crashes.
  std::vector<std::string> faults;
};

Outcome simulate_crashes(const Writer& writer, std::optional<std::size_t> skip) {
  const std::size_t max_faults = skip ? 1 : 3;  // after a skip, one fault is enough
  const TemporaryDirectory parent;
  const fs::path folder = parent / "disk";
  fs::create_directory(folder);
  if (writer.prepare) writer.prepare(folder);
  LazyDisk disk(folder, skip);
  const auto written = writer.write(folder, disk);
  disk.stop();
  Outcome outcome{disk.ordering_calls(), 0, {}};
  if (!written) {
    outcome.faults.push_back("the writer failed: " + written.error().message);
    return outcome;
  }
  for (const LazyDisk::Crash& crash : disk.crashes()) {
    ++outcome.crashes;
    const TemporaryDirectory after_crash;
    write_disk_state(crash.state, after_crash.path());
    const std::string fault = writer.fault_of(after_crash.path(), crash.marks);
    if (fault.empty()) continue;
    outcome.faults.push_back(crash.description + ": " + fault);
    if (outcome.faults.size() == max_faults) break;
  }
  return outcome;
}

}  // namespace

void check_writer(const Writer& writer, const std::vector<UnneededGuard>& unneeded) {
  const Outcome unskipped = simulate_crashes(writer, std::nullopt);  // no guard is skipped
  for (const std::string& fault : unskipped.faults) FAIL_CHECK(fault);
  CHECK(unskipped.crashes > unskipped.guards.size());
  REQUIRE_FALSE(unskipped.guards.empty());
  for (std::size_t i = 0; i < unskipped.guards.size(); ++i) {
    const std::string& guard = unskipped.guards[i];
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
    const bool is_there = std::find(unskipped.guards.begin(), unskipped.guards.end(),
                                    known.guard) != unskipped.guards.end();
    if (!is_there) FAIL_CHECK("this unneeded guard does not exist: ", std::string(known.guard));
  }
  MESSAGE(unskipped.crashes, " crashes, ", unskipped.guards.size(), " guards");
}

}  // namespace dlrun::crash
