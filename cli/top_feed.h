#pragma once
// Keeps the data of `dlrun top` up to date in background threads. The screen stays responsive when
// the controller or the file system hangs.

#include <chrono>
#include <memory>
#include <optional>

#include "cli/cli.h"
#include "cli/terminal/top_view.h"

namespace dlrun {

/// Returns the run's current state: reads its files and asks the executor once.
[[nodiscard]] Result<TopPicture> take_picture(const Cli& cli, const IndexEntry& run);

class TopFeed {
 public:
  /// first: the state to show until newer data arrives.
  TopFeed(const Cli& cli, TopPicture first);
  /// Does not wait for the threads; a hanging thread is detached.
  ~TopFeed();
  TopFeed(const TopFeed&) = delete;
  TopFeed& operator=(const TopFeed&) = delete;

  /// Returns the newest known state, at most one second old if nothing hangs.
  [[nodiscard]] std::shared_ptr<const TopPicture> picture() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace dlrun
