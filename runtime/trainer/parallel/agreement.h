#pragma once
// Collectives by which the ranks check that no rank has failed, and that all ranks hold the same
// bytes.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "runtime/comm/communicator.h"

namespace dlrun::trainer {

/// Exchanges every rank's result and returns a common one: success if all ranks succeeded, else the
/// error of the lowest failed rank, with Error::agreed_rank set, and with "rank R on HOST: " before
/// the message. If a collective fails on a rank, this rank returns the collective's error;
/// otherwise all ranks return the same result. With one rank, returns `mine` unchanged. `host` is
/// this rank's host name.
[[nodiscard]] Result<> agree(Communicator& communicator, std::string_view host,
                             const Result<>& mine);

/// Returns the error's message without the prefix "rank R on HOST: " of agree(), if it has one.
[[nodiscard]] std::string_view message_without_rank(const Error& error);

/// Returns the BLAKE2b-256 hash of bytes as 64 hex digits if it is equal on all ranks. Otherwise
/// fails with kPeer on every rank; the message names the ranks that differ from rank 0. `what`
/// ("parameters") is for the message. Also fails as all_gather() does.
[[nodiscard]] Result<std::string> common_hash(Communicator& communicator, std::string_view what,
                                              std::span<const std::uint8_t> bytes);

/// A setting that must be equal on all ranks. `name` is its name in messages, such as "--lr".
struct Setting {
  std::string name;
  std::string value;
};

/// Checks that every rank has rank 0's values. All ranks must pass the same names in the same
/// order. Fails with kPeer on every rank if a value differs; the message names the lowest rank that
/// differs, its host and both values.
[[nodiscard]] Result<> check_same_on_all_ranks(Communicator& communicator, std::string_view host,
                                               const std::vector<Setting>& settings);

/// Returns the BLAKE2b-256 hash (RFC 7693) as 64 lower-case hex digits.
[[nodiscard]] std::string blake2b_hex(std::span<const std::uint8_t> bytes);

}  // namespace dlrun::trainer
