#pragma once
// Submits a run together with its rehearsal: the same program, environment and container on two
// ranks (one rank if the run has only one) in a short partition. The run starts only if the
// rehearsal succeeds.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/spec/site_profile.h"
#include "launcher/submit/spec_chain.h"

namespace dlrun {

/// The value of the option --rehearse.
struct RehearsalChoices {
  std::int64_t seconds = 0;              ///< the programs run for this time
  std::optional<std::string> partition;  ///< nullopt: short_partition() chooses
};

/// Parses "2m" or "2m@PARTITION". Fails with kUsage for any other text, and for a time below 10
/// seconds or above a day.
[[nodiscard]] Result<RehearsalChoices> parse_rehearsal(std::string_view text);

/// Returns the partition with the shortest time limit, among the site's partitions that can run the
/// rehearsal: with enough time, CPUs and memory as far as the site file gives them, and with GPUs
/// like those of the job. A partition without a known limit, and one whose limit is not shorter
/// than that of the job's partition, do not count. Returns nullopt if there is none. seconds: the
/// time for which the programs of the rehearsal run. ranks: the number of ranks of the rehearsal on
/// one node.
[[nodiscard]] std::optional<std::string> short_partition(const SiteProfile& site,
                                                         const JobSpec& spec, std::int64_t seconds,
                                                         std::int64_t ranks);

/// Returns the changes of the spec for the rehearsal, in the form of --set. name: the name of the
/// run. Fails with kUsage if the spec has a sweep, components or launch.agent: false, or does not
/// say how many ranks a node has.
[[nodiscard]] Result<std::vector<std::string>> changes_for_rehearsal(
    const LoadedSpec& loaded, std::string_view name, const RehearsalChoices& choices);

/// Submits the rehearsal, and the run that waits for it. The first run of the sequence is the
/// rehearsal. Plans both jobs before it submits the first. Fails as changes_for_rehearsal() and
/// submit_spec_chain() do, and with kUsage if the spec is read from standard input.
[[nodiscard]] Result<SubmittedSequence> submit_run_and_rehearsal(Context& context,
                                                                 Reporter& reporter,
                                                                 RunInspector& inspector,
                                                                 const SpecOptions& options,
                                                                 const RehearsalChoices& choices);

/// Returns the command with which the user can still submit the run, if only its rehearsal could be
/// submitted. The command has the given options. Its run waits for the rehearsal and for the runs
/// in after.ok of the spec.
[[nodiscard]] std::string command_that_submits_run(const SpecOptions& options,
                                                   const Submitted& rehearsal);

}  // namespace dlrun
