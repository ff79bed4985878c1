#pragma once
// What `dlrun top` shows, as lines of text. Pure: no clock, no files, no terminal.

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

/// A sweep's point at a moment.
struct TopPoint {
  std::size_t number = 0;
  std::string values;          ///< what it sets
  std::filesystem::path path;  ///< the run that counts for it
  RunState state = RunState::kUnknown;
  bool is_last_known = false;
  std::string detail;
  std::optional<Progress> progress;
  std::string result;  ///< a JSON object, empty where there is none
};

/// A run at a moment.
struct TopPicture {
  IndexEntry run;
  RunStatus status;
  RunHistory history;
  std::optional<RankSnapshot> ranks;
  std::shared_ptr<const std::vector<TopPoint>> points;  ///< of a sweep
  double now = 0;                                       ///< seconds since 1970
};

struct TopSize {
  std::size_t columns = 80;
  std::size_t rows = 24;  ///< 0: as many as there are
  std::size_t ranks = 0;  ///< or points, shown at most; 0: as many as there is room for
};

/// Lines of at most size.columns columns, at most size.rows of them.
[[nodiscard]] std::vector<Text> top_lines(const TopPicture& picture, const TopSize& size);

/// For programs; cli/OUTPUT.md.
[[nodiscard]] nlohmann::ordered_json top_json(const TopPicture& picture);

/// Blocks of eight heights, at most `width`: the means of as many parts of values, the highest for
/// the most. Empty for less than two values.
[[nodiscard]] std::string sparkline(const std::vector<double>& values, std::size_t width);

/// "46 s", "3 min 12 s", "2 h 5 min", "3 d 4 h".
[[nodiscard]] std::string duration_text(double seconds);
/// "512 KiB", "3.4 GiB".
[[nodiscard]] std::string memory_text(double bytes);

}  // namespace dlrun
