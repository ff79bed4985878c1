#pragma once
// What `dlrun top` shows, kept up to date by threads of its own: neither a controller that does not
// answer nor a file system that hangs keeps the screen from being drawn and left.

#include <chrono>
#include <memory>
#include <optional>

#include "cli/cli.h"
#include "cli/terminal/top_view.h"

namespace dlrun {

/// The run as it is now: reads its files and asks the executor once.
[[nodiscard]] Result<TopPicture> take_picture(const Cli& cli, const IndexEntry& run);

class TopFeed {
 public:
  /// first: what is shown until something is new.
  TopFeed(const Cli& cli, TopPicture first);
  /// Waits for nothing: a thread that hangs is left behind.
  ~TopFeed();
  TopFeed(const TopFeed&) = delete;
  TopFeed& operator=(const TopFeed&) = delete;

  /// As it is known now, at most a second old where nothing hangs.
  [[nodiscard]] std::shared_ptr<const TopPicture> picture() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace dlrun
