#pragma once
// The protocol between lead and a rank over one TCP connection. No I/O here: the functions turn
// bytes into messages and messages into bytes.
//
// Handshake:
//   1. lead to rank   "DLRUN1\n", nonce_lead[32]
//   2. rank to lead   nonce_rank[32], u16 length, identity[length], mac[32]
//                     identity: the text of a RankIdentity
//   3. lead to rank   mac[32]
// Then frames in both directions: u32 length, mac[32], payload[length]. Integers are little-endian,
// length is at most 1 MiB, the payload is JSON.
//
// Every MAC (message authentication code) is BLAKE2b-256. The key of the handshake's MACs is the
// attempt's secret. If the job has components, each component has a secret of its own, which is
// valid only for an identity with the name of this component. Lead tries all secrets, so that it
// need not parse the identity before its MAC is verified.
//
// The key of the frames' MACs differs for each connection and direction; it is derived from the
// secret, both nonces and the identity. The MAC of a frame covers a counter. Therefore the receiver
// detects a frame that is replayed, reordered or taken from another connection, and a frame after a
// dropped one. Until the MAC of a handshake or frame is verified, the receiver uses only the
// lengths in the handshake or frame.
//
// messages.h defines the messages.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "common/result.h"

namespace dlrun::agent {

inline constexpr std::size_t kNonceBytes = 32;
inline constexpr std::size_t kMacBytes = 32;
inline constexpr std::size_t kKeyBytes = 32;
inline constexpr std::size_t kIdentityLimitBytes = 256;
inline constexpr std::size_t kPayloadLimitBytes = 1U << 20U;
inline constexpr std::string_view kGreeting = "DLRUN1\n";
inline constexpr std::size_t kGreetingBytes = kGreeting.size() + kNonceBytes;

using Nonce = std::array<unsigned char, kNonceBytes>;
using Mac = std::array<unsigned char, kMacBytes>;
using Key = std::array<unsigned char, kKeyBytes>;

/// The secrets of an attempt, by the name of the component. A job without components has one
/// secret, with an empty name.
using Secrets = std::map<std::string, Key, std::less<>>;

/// Initialises libsodium. Call it once before all other functions here. Fails with kInternal if the
/// kernel provides no random bytes.
[[nodiscard]] Result<> init_crypto();

[[nodiscard]] Key random_key();
/// Returns the key as 64 hexadecimal digits, the form of DLRUN_SECRET.
[[nodiscard]] std::string to_text(const Key& key);
/// Returns 16 hexadecimal digits derived from the key and purpose. They do not reveal the key.
[[nodiscard]] std::string derived_word(const Key& key, std::string_view purpose);
/// Returns the key; nullopt if the text is not 64 hexadecimal digits.
[[nodiscard]] std::optional<Key> key_of_text(std::string_view hex);

/// The identity that a rank claims when it connects to lead. No part contains a space, so that the
/// text can be parsed in only one way.
struct RankIdentity {
  std::string job;
  std::string step;
  int attempt = 0;
  int rank = 0;
  std::string component{};  ///< empty if the job has no components

  /// Returns "JOB STEP ATTEMPT RANK", and " COMPONENT" if the job has components.
  [[nodiscard]] std::string text() const;
  /// Reads the text of an identity. Fails with kInvalid for a text that text() cannot return.
  [[nodiscard]] static Result<RankIdentity> parse(std::string_view text);
  friend bool operator==(const RankIdentity&, const RankIdentity&) = default;
};

/// Makes outgoing frames and verifies incoming ones. Belongs to one connection.
class Channel {
 public:
  Channel() = default;
  Channel(const Key& outgoing, const Key& incoming) : outgoing_(outgoing), incoming_(incoming) {}

  /// Returns the frame with this payload of at most kPayloadLimitBytes. The payload is
  /// authenticated, not encrypted.
  [[nodiscard]] std::string make_frame(std::string_view payload);

  /// Removes one whole frame from the front of buffer and returns its payload. Returns nullopt if
  /// more bytes are needed. Fails with kInvalid if the frame is too long or its MAC is wrong; the
  /// connection must then be closed.
  [[nodiscard]] Result<std::optional<std::string>> take_payload(std::string& buffer);

 private:
  Key outgoing_{};
  Key incoming_{};
  std::uint64_t sent_count_ = 0;
  std::uint64_t received_count_ = 0;
};

/// Lead's side of the handshake.
class LeadHandshake {
 public:
  LeadHandshake();

  [[nodiscard]] std::string greeting() const;

  struct Authenticated {
    RankIdentity identity;
    std::string answer;  ///< bytes to send before the first frame
    Channel channel;
  };
  /// Removes the rank's part of the handshake from the front of buffer and verifies it. Returns
  /// nullopt if more bytes are needed. Fails with kInvalid if the identity is too long or
  /// malformed, if the MAC fits no secret, or if the secret is that of another component.
  [[nodiscard]] Result<std::optional<Authenticated>> advance(std::string& buffer,
                                                             const Secrets& secrets) const;

 private:
  Nonce nonce_;
};

/// A rank's side of the handshake.
class RankHandshake {
 public:
  RankHandshake(const Key& secret, const RankIdentity& identity);

  /// Removes lead's greeting from the front of buffer and returns the bytes to send. Returns
  /// nullopt if more bytes are needed. Fails with kInvalid if the greeting is not lead's, or if the
  /// identity is too long.
  [[nodiscard]] Result<std::optional<std::string>> answer(std::string& buffer);
  /// Removes lead's MAC from the front of buffer and verifies it. Call it after answer(). Returns
  /// nullopt if more bytes are needed. Fails with kInvalid if lead does not know the secret.
  [[nodiscard]] Result<std::optional<Channel>> finish(std::string& buffer) const;

 private:
  Key secret_;
  std::string identity_;
  Nonce own_nonce_;
  Nonce lead_nonce_{};
};

}  // namespace dlrun::agent
