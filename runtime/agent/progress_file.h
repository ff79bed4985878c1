#pragma once
// The file DLRUN_PROGRESS, into which a program writes its progress as a JSON object
// (ENVIRONMENT.md, "Progress reports of a program"). dlrun's trainer does not need the file: it
// reports through the store. The file is a memfd of the agent with a path below /proc. Therefore no
// disk or network file system can make the program hang, and no file is left behind, however the
// agent ends.

#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "common/files.h"
#include "common/result.h"

namespace dlrun::agent {

class ProgressFile {
 public:
  /// Fails with kIo.
  [[nodiscard]] static Result<ProgressFile> create();

  /// Returns the path that processes of the same user on this node open to write.
  [[nodiscard]] std::string path() const;
  /// Returns the content if it has changed: a JSON object of less than 64 KiB. Drops members that
  /// are null and numbers that are not finite (a loss of NaN). Returns an empty object for any
  /// other content, such as half an object. An empty object only shows that the program is alive.
  [[nodiscard]] std::optional<nlohmann::ordered_json> take_news();
  /// Returns, once, the problem with the content that the latest take_news() read. The program may
  /// be in the middle of a write. A problem therefore counts only in one of three cases: two looks
  /// in a row found the same content, five looks in a row found new but bad content, or the program
  /// has ended (is_last).
  [[nodiscard]] std::optional<std::string> take_problem(bool is_last);

 private:
  explicit ProgressFile(UniqueFd file) : file_(std::move(file)) {}

  UniqueFd file_;
  std::string content_;  ///< content at the latest look
  bool is_unchanged_ = false;
  int bad_looks_ = 0;  ///< number of looks in a row that found new but bad content
  bool has_reported_problem_ = false;
};

/// Returns the problem with a progress report, as a clause that quotes the text. Returns nullopt if
/// the text is a JSON object with at least one of the fields that ENVIRONMENT.md lists, and all of
/// these have the right type.
[[nodiscard]] std::optional<std::string> progress_problem(std::string_view text);

}  // namespace dlrun::agent
