#pragma once
// Formats the screen of `dlrun top` as lines of text. Pure functions: no clock, no files,
// no terminal.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/terminal/text.h"
#include "launcher/runs/history.h"
#include "launcher/runs/index.h"
#include "launcher/runs/ranks.h"
#include "launcher/runs/status.h"

namespace dlrun {

/// A point of a sweep at one moment.
struct TopPoint {
  std::size_t number = 0;
  std::string values;          ///< the values that the point sets
  std::filesystem::path path;  ///< the point's current run
  RunState state = RunState::kUnknown;
  bool is_last_known = false;
  std::string detail;
  std::optional<Progress> progress;
  std::string result;  ///< a JSON object; empty if there is no result
};

/// A run at one moment.
struct TopPicture {
  IndexEntry run;
  RunStatus status;
  RunHistory history;
  std::optional<RankSnapshot> ranks;
  /// The points of a sweep; nullptr for a single run.
  std::shared_ptr<const std::vector<TopPoint>> points;
  double now = 0;  ///< seconds since 1970
};

struct TopSize {
  std::size_t columns = 80;
  std::size_t rows = 24;  ///< 0: no limit
  std::size_t ranks = 0;  ///< the most ranks or points to show; 0: as many as fit
};

/// Returns at most size.rows lines of at most size.columns columns.
[[nodiscard]] std::vector<Text> top_lines(const TopPicture& picture, const TopSize& size);

/// Returns the same data as JSON; cli/OUTPUT.md documents it.
[[nodiscard]] nlohmann::ordered_json top_json(const TopPicture& picture);

/// Returns at most `width` block characters of eight heights. Each block shows the mean of an equal
/// part of `values`, scaled between the smallest and the largest mean. Returns "" for fewer than
/// two values.
[[nodiscard]] std::string sparkline(const std::vector<double>& values, std::size_t width);

/// Returns "46 s", "3 min 12 s", "2 h 5 min" or "3 d 4 h".
[[nodiscard]] std::string duration_text(double seconds);
/// Returns "512 KiB" or "3.4 GiB".
[[nodiscard]] std::string memory_text(double bytes);

}  // namespace dlrun
