#pragma once
// What all ranks must agree on: that nobody failed, and that everybody holds the same bytes.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "runtime/comm/communicator.h"

namespace dlrun::trainer {

/// Every rank gives its own outcome and gets the common one: success when all succeeded, else the
/// lowest failed rank's error with "rank R on HOST: " before its message, the same on every rank.
/// host: this rank's name.
[[nodiscard]] Result<> agree(Communicator& communicator, std::string_view host,
                             const Result<>& mine);

/// The rank whose error agree() has given to all, and its words without that rank's name.
struct AgreedError {
  int rank = 0;
  std::string words;
};
/// Reads what agree() has put before the message; nothing where the error is the caller's own.
[[nodiscard]] std::optional<AgreedError> agreed_error(const Error& error);

/// The BLAKE2b-256 hash of bytes, as 64 hex digits, once it is known to be the same on every rank.
/// Fails with kPeer on every rank alike when it is not; the message names the ranks whose bytes
/// differ from rank 0's. what: "parameters", for the message.
[[nodiscard]] Result<std::string> equal_on_all_ranks(Communicator& communicator,
                                                     std::string_view what,
                                                     std::span<const std::uint8_t> bytes);

/// What a run is to have alike on all ranks; name: as the user knows it, "--lr".
struct Setting {
  std::string name;
  std::string value;
};

/// Succeeds where every rank gives rank 0's values; the names are the same on all ranks, in the
/// same order. Fails with kPeer on every rank alike, naming the lowest rank that does not, its
/// host, and what it has other than rank 0.
[[nodiscard]] Result<> same_on_all_ranks(Communicator& communicator, std::string_view host,
                                         const std::vector<Setting>& settings);

/// BLAKE2b-256 (RFC 7693) as 64 lower-case hex digits.
[[nodiscard]] std::string blake2b_hex(std::span<const std::uint8_t> bytes);

}  // namespace dlrun::trainer
