#pragma once
// How a program without the store says how far it is: it writes a JSON object into the file that
// DLRUN_PROGRESS names (ENVIRONMENT.md, "The store"). The file is memory of ours with a path below
// /proc: no disk or network file system can hang under it, and nothing is left behind, however the
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

  /// What a process of the same user on this node opens to write.
  [[nodiscard]] std::string path() const;
  /// What it says, where that is new: a JSON object of at most 64 KiB, without what is null or no
  /// finite number (a loss of NaN). Anything else, half of one, too, is an empty object: a sign of
  /// life of a program that says nothing.
  [[nodiscard]] std::optional<nlohmann::ordered_json> take_news();
  /// Told once: what is wrong with what the last take_news() found, if it found that twice in a
  /// row, or nothing right in five (half of something is soon whole), or is_last: nobody writes any
  /// more.
  [[nodiscard]] std::optional<std::string> take_problem(bool is_last);

 private:
  explicit ProgressFile(UniqueFd file) : file_(std::move(file)) {}

  UniqueFd file_;
  std::string last_;  ///< read at the last look
  bool is_unchanged_ = false;
  int bad_looks_ = 0;  ///< that found something new and wrong, in a row
  bool has_told_problem_ = false;
};

/// What is wrong with a program's words about its progress, a clause that quotes them; nothing
/// where all is well: a JSON object with one at least of the fields that ENVIRONMENT.md names, each
/// of its type.
[[nodiscard]] std::optional<std::string> progress_problem(std::string_view text);

}  // namespace dlrun::agent
