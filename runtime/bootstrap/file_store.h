#pragma once
// A store in a folder that all ranks see: one file a key, for tests and for ranks that are started
// by hand.

#include <filesystem>

#include "runtime/bootstrap/store.h"

namespace dlrun {

/// Each value is a file that appears whole, under its key in hex; a wait looks for it with growing
/// pauses of at most 50 ms. The folder serves one attempt: values of an earlier one would be taken
/// for this one's.
class FileStore final : public Store {
 public:
  /// Creates the folder (0700) where it is missing.
  [[nodiscard]] static Result<std::unique_ptr<FileStore>> open(std::filesystem::path folder);

  [[nodiscard]] Result<> put(std::string_view key, std::string_view value) override;
  [[nodiscard]] Result<std::string> get(std::string_view key,
                                        std::chrono::milliseconds wait) override;

 private:
  explicit FileStore(std::filesystem::path folder) : folder_(std::move(folder)) {}
  [[nodiscard]] Result<std::filesystem::path> path_of(std::string_view key) const;

  std::filesystem::path folder_;
};

}  // namespace dlrun
