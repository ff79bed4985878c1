#pragma once
// How a program without the store says how far it is: it writes a JSON object into the file that DLRUN_PROGRESS names
// (ENVIRONMENT.md, "The store"). The file is memory of ours with a path below /proc: no disk or network file system can
// hang under it, and nothing is left behind, however the agent ends.

#include <optional>
#include <string>

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
  /// What it says, where that is new: a JSON object of at most 64 KiB. Anything else says nothing, and so does half of
  /// one: the rest comes.
  [[nodiscard]] std::optional<nlohmann::ordered_json> take_news();

 private:
  explicit ProgressFile(UniqueFd file) : file_(std::move(file)) {}

  UniqueFd file_;
  std::string last_;
};

}  // namespace dlrun::agent
