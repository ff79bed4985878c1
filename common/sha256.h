#pragma once
// SHA-256 hashes, as 64 hex digits.

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/result.h"

struct crypto_hash_sha256_state;  // type of libsodium

namespace dlrun {

/// Hashes bytes that arrive in pieces.
class Sha256 {
 public:
  Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  ~Sha256();

  void update(std::string_view bytes);
  /// Returns the hash of all bytes so far. Call it once; update() is not allowed afterwards.
  [[nodiscard]] std::string final_hex();

 private:
  std::unique_ptr<crypto_hash_sha256_state> state_;
};

[[nodiscard]] std::string sha256_of_text(std::string_view text);

/// Returns the hash of the remaining bytes of fd, and passes each piece to `sink`. Fails with kIo,
/// or with the error of `sink`. name: for error messages.
[[nodiscard]] Result<std::string> sha256_of_stream(
    int fd, const std::string& name, const std::function<Result<>(std::string_view)>& sink);

/// Returns the hash of a file. Fails with kNotFound or kIo, and with kInvalid if the path is not a
/// regular file.
[[nodiscard]] Result<std::string> sha256_of_file(const std::filesystem::path& path);

}  // namespace dlrun
