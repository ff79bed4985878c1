#pragma once
// SHA-256, as its 64 hex digits.

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/result.h"

struct crypto_hash_sha256_state;  // libsodium's

namespace dlrun {

/// Of bytes that come in pieces.
class Sha256 {
 public:
  Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  ~Sha256();

  void update(std::string_view bytes);
  /// Of all bytes so far. No more can be added afterwards.
  [[nodiscard]] std::string hex();

 private:
  std::unique_ptr<crypto_hash_sha256_state> state_;
};

[[nodiscard]] std::string sha256_of_text(std::string_view text);

/// Of what fd has from where it stands to its end; each piece goes to sink, too, whose failure ends
/// it. name: for messages.
[[nodiscard]] Result<std::string> sha256_of_stream(
    int fd, const std::string& name, const std::function<Result<>(std::string_view)>& sink);

/// kNotFound, or kIo.
[[nodiscard]] Result<std::string> sha256_of_file(const std::filesystem::path& path);

}  // namespace dlrun
