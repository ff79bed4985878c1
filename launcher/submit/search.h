#pragma once
// A sweep whose points a search program chooses (sweep.ask). dlrun submits the points that the
// program proposes, waits for their ends, and tells the program their results.

#include <filesystem>

#include "launcher/submit/submitting.h"

namespace dlrun {

/// The end of a search.
struct Searched {
  RunDirectory run;
  std::size_t points = 0;
};

/// Runs the search to its end. Reports each point that is submitted or has ended. Points that are
/// queued or running when it fails stay so, and the message says how to see and to end them. Fails
/// with kInvalid if the program answers nonsense, with kTimeout if it does not answer, with kPeer
/// if it ends too early, with kInterrupted on Ctrl-C.
[[nodiscard]] Result<Searched> run_search(const Context& context, Reporter& reporter,
                                          RunInspector& inspector, Job job, Provenance& provenance);

}  // namespace dlrun
