#pragma once
// Recognises the messages of pyxis, enroot and apptainer that cannot make or enter a container. No
// I/O.

#include <optional>
#include <string>
#include <string_view>

#include "runtime/agent/retry.h"

namespace dlrun::agent {

/// Why a container is not there.
struct ContainerFailure {
  Cause cause = Cause::kContainer;  ///< kImage: of the image itself
  std::string sentence;             ///< the tool's own words
};

/// Collects a step's lines about its container. Only lines that no rank's program printed may be
/// given.
class ContainerWords {
 public:
  /// Takes a line of the step's standard error. False: it is about something else.
  bool hear(std::string_view line);
  /// The first failure that was heard of.
  [[nodiscard]] std::optional<ContainerFailure> failure() const;
  /// Returns pyxis's message about a container that it could not save; empty where there is none.
  [[nodiscard]] const std::string& failed_save() const { return failed_save_; }

 private:
  void hear_pyxis(std::string_view words);
  [[nodiscard]] std::string with_detail(std::string_view words) const;

  std::string sentence_;            ///< the tool's
  std::string detail_;              ///< enroot's, which pyxis quotes
  bool is_detail_certain_ = false;  ///< enroot calls it an error
  bool is_of_apptainers_image_ = false;
  std::string failed_save_;
};

/// Judges the output of a command that failed to make a container: "[ERROR] Invalid image format:
/// /a.sqsh".
[[nodiscard]] ContainerFailure judge_making(std::string_view words);

}  // namespace dlrun::agent
