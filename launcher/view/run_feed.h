#pragma once
// Keeps the RunOverview of a run up to date in background threads. The reader of the overview, such
// as the screen of `dlrun top`, stays responsive when the controller or the file system hangs.

#include <memory>

#include "launcher/view/run_overview.h"

namespace dlrun {

class RunFeed {
 public:
  /// first: the state to return until newer data arrives.
  RunFeed(const Env& env, const KnownServers& servers, RunOverview first);
  /// Does not wait for the threads, because they may hang. They end by themselves.
  ~RunFeed();
  RunFeed(const RunFeed&) = delete;
  RunFeed& operator=(const RunFeed&) = delete;

  /// Returns the newest known state. If nothing hangs, the files of the run were read at most about
  /// a second ago.
  [[nodiscard]] std::shared_ptr<const RunOverview> overview() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace dlrun
