#pragma once
// A sweep whose points a search program chooses (sweep.ask). dlrun submits the points that the
// program proposes, waits until they end, and sends their results to the program.

#include <filesystem>

#include "launcher/submit/submitting.h"

namespace dlrun {

/// A completed search.
struct Searched {
  RunDirectory run;             ///< the sweep
  std::size_t point_count = 0;  ///< number of points
};

/// Runs the search to its end. Reports each point when it is submitted and when it ends. Fails as
/// submit_sweep() does, and:
/// - with kInvalid if an answer of the program is invalid, if the program ends the search before it
///   has proposed a point, or if it waits for another result although it has the results of all its
///   points
/// - with kNotFound if there is no such program
/// - with kTimeout if the program does not answer in time
/// - with kPeer if the program ends before the search is over
/// - with kInterrupted on Ctrl-C.
/// After a failure, queued and running points remain, and the message says how to list and how to
/// cancel them, and how to continue the search.
///
/// earlier: the sweep of an earlier search, which this search continues; nullptr: a new search. The
/// program first gets the results of the earlier points, and the new points are added to the same
/// sweep. Fails with kUsage if `earlier` is no sweep, with kInvalid if its points have other
/// parameters or another sweep.pack, and with kRefused if another process runs that search.
[[nodiscard]] Result<Searched> run_search(const Context& context, Reporter& reporter,
                                          RunInspector& inspector, Job job, Provenance& provenance,
                                          const IndexEntry* earlier = nullptr);

}  // namespace dlrun
