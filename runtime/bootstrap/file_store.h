#pragma once
// A store in a folder that all ranks see, with one file for each key. Tests use it, and so do ranks
// that a user starts by hand.

#include <filesystem>

#include "runtime/bootstrap/store.h"

namespace dlrun {

/// Each value is a file that appears atomically; its name is the key in hex. get() polls with
/// growing pauses of at most 50 ms. Use a new folder for each attempt: otherwise ranks would read
/// the values of an earlier attempt.
class FileStore final : public Store {
 public:
  /// Creates the folder (mode 0700) if it is missing. Fails with kInvalid if the path is relative,
  /// and with kIo if the folder cannot be created.
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
