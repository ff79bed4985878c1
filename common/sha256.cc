#include "common/sha256.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <vector>

#include <sodium.h>

#include "common/files.h"
#include "common/text.h"
#include "common/untrusted_file.h"

namespace dlrun {

Sha256::Sha256() : state_(std::make_unique<crypto_hash_sha256_state>()) {
  crypto_hash_sha256_init(state_.get());
}
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;
Sha256::~Sha256() = default;

void Sha256::update(std::string_view bytes) {
  crypto_hash_sha256_update(state_.get(), reinterpret_cast<const unsigned char*>(bytes.data()),
                            bytes.size());
}

std::string Sha256::final_hex() {
  std::array<std::uint8_t, crypto_hash_sha256_BYTES> digest{};
  crypto_hash_sha256_final(state_.get(), digest.data());
  return to_hex(digest);
}

std::string sha256_of_text(std::string_view text) {
  Sha256 hash;
  hash.update(text);
  return hash.final_hex();
}

Result<std::string> sha256_of_stream(int fd, const std::string& name,
                                     const std::function<Result<>(std::string_view)>& sink) {
  Sha256 hash;
  std::vector<char> block(1U << 20U);
  for (;;) {
    const ssize_t got = ::read(fd, block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(Errc::kIo, "cannot read {}: {}", printable(name), errno_text(errno));
    if (got == 0) return hash.final_hex();
    const std::string_view bytes(block.data(), static_cast<std::size_t>(got));
    hash.update(bytes);
    DLRUN_TRY(sink(bytes));
  }
}

Result<std::string> sha256_of_file(const std::filesystem::path& path) {
  DLRUN_TRY_ASSIGN(const auto fd, open_untrusted(path, Links::kFollow));
  return sha256_of_stream(fd.get(), path.string(), [](std::string_view) -> Result<> { return {}; });
}

}  // namespace dlrun
