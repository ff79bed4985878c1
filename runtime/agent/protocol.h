#pragma once
// What lead and a rank say to each other over one TCP connection, byte by byte. No I/O here: bytes
// in, bytes out.
//
//   lead -> rank   "DLRUN1\n" nonce_lead[32]
//   rank -> lead   nonce_rank[32] u16 length, claim[length] mac[32]       claim = "JOB STEP ATTEMPT
//   RANK" lead -> rank   mac[32] then frames both ways: u32 length, mac[32], payload[length] length
//   <= 1 MiB, little-endian; JSON payload
//
// Every MAC is BLAKE2b-256 keyed with the attempt's secret (handshake) or with a key of the
// connection and the direction that is derived from the secret, both nonces and the claim (frames).
// A frame's MAC covers a counter, so that none can be replayed, dropped or reordered, and none of
// another connection fits. Nothing of a peer is parsed before its MAC fits.
//
// Messages, rank to lead, each with "type":
//   hello     host, pid, addr, port (held for the program; 0: none), world {rank size local_rank
//   local_size node_rank
//             nnodes}; unfit (words) and time (Unix, ms) where the node was checked
//   beat      printed (true: the program has printed something since the last one); what is new of:
//   cpu (cores),
//             rss (bytes), step, work_ms, gpus or node_gpus ([percent, used, total] each)
//   stopped   seconds: the program has been stopped (SIGSTOP) for so long; again every second
//   autopsy   frames: the stack of the rank that hangs, as strings; the agent has saved all of it
//   in the run signal    signal: the agent caught this one and asks for lead's word warning message
//   checking  the rank's check of collectives (health.preflight) has its device
//   checked   it is done, the program starts
//   check_failed  words, is_own (not one of meeting the others); the rank waits for `end`
//   put       id, key, value (hex)
//   get       id, key, wait_ms
//   progress  body
//   table     from: where is every rank? Its page that begins with this one
//   exit      code, signal, error: how the program ended; own: before anybody told it to; of: the
//   rank that it holds
//             for the cause (-1: another one, it cannot tell which), where it said so; the agent
//             stays until `noted`
// Lead to rank:
//   start     addr, master_addr, master_port: all ranks have said hello; marked: the program's
//   standard error comes to
//             lead, and is to be marked (text_marks.h)
//   beat
//   word      signal, word: "checkpoint" (pass the signal on), "none", "abort" (end follows)
//   autopsy   the attempt hangs: save where the processes stand, and answer; `end` follows
//   end       signal: 0, or what was sent to the step and may be on its way to this rank as well.
//   The attempt is over:
//             SIGTERM to the program, SIGKILL to what is left one second later
//   reply     id, ok, value or error
//   table     from, size, ips, ranks: a page of at most 256 ranks; see rank_table.h
//   noted

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/result.h"

namespace dlrun::agent {

inline constexpr std::size_t kNonceBytes = 32;
inline constexpr std::size_t kMacBytes = 32;
inline constexpr std::size_t kKeyBytes = 32;
inline constexpr std::size_t kClaimLimitBytes = 256;
inline constexpr std::size_t kPayloadLimitBytes = 1U << 20U;
inline constexpr std::string_view kGreeting = "DLRUN1\n";
inline constexpr std::size_t kGreetingBytes = kGreeting.size() + kNonceBytes;

using Nonce = std::array<unsigned char, kNonceBytes>;
using Mac = std::array<unsigned char, kMacBytes>;
using Key = std::array<unsigned char, kKeyBytes>;

/// Must be called once before anything else here. Fails only where the kernel gives no random
/// bytes.
[[nodiscard]] Result<> init_crypto();

[[nodiscard]] Key random_key();
[[nodiscard]] std::string to_text(const Key& key);
/// 16 hexadecimal digits for purpose, from which the key cannot be found.
[[nodiscard]] std::string derived_word(const Key& key, std::string_view purpose);
[[nodiscard]] std::optional<Key> key_of_text(std::string_view hex);

/// What a connection claims to be. Words without spaces, so that its text reads back in one way.
struct Claim {
  std::string job;
  std::string step;
  int attempt = 0;
  int rank = 0;

  [[nodiscard]] std::string text() const;
  [[nodiscard]] static Result<Claim> parse(std::string_view text);
  friend bool operator==(const Claim&, const Claim&) = default;
};

/// Cuts and checks frames in one direction, makes them in the other. Belongs to one connection.
class Channel {
 public:
  Channel() = default;
  Channel(const Key& outgoing, const Key& incoming) : outgoing_(outgoing), incoming_(incoming) {}

  /// The bytes of a frame. payload is at most kPayloadLimitBytes.
  [[nodiscard]] std::string seal(std::string_view payload);

  /// Takes one whole frame off the front of buffer. Nothing: more bytes are needed. Fails with
  /// kInvalid when the length is beyond the limit or the MAC does not fit: the connection is then
  /// worthless.
  [[nodiscard]] Result<std::optional<std::string>> open(std::string& buffer);

 private:
  Key outgoing_{};
  Key incoming_{};
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
};

/// Lead's side of the handshake.
class LeadHandshake {
 public:
  explicit LeadHandshake(const Key& secret);

  [[nodiscard]] std::string greeting() const;

  struct Proven {
    Claim claim;
    std::string answer;  ///< to be sent before any frame
    Channel channel;
  };
  /// Looks at what the peer has sent so far, takes the handshake off the front when it is whole.
  /// Nothing: more bytes are needed. Fails with kInvalid for a claim that is too long, a MAC that
  /// does not fit, or a malformed claim.
  [[nodiscard]] Result<std::optional<Proven>> advance(std::string& buffer) const;

 private:
  Key secret_;
  Nonce nonce_;
};

/// A rank's side.
class RankHandshake {
 public:
  RankHandshake(const Key& secret, const Claim& claim);

  /// Takes lead's greeting off the front; the bytes to answer. Nothing: more bytes are needed.
  [[nodiscard]] Result<std::optional<std::string>> answer(std::string& buffer);
  /// After answer(): takes lead's MAC off the front. Nothing: more bytes are needed. Fails with
  /// kInvalid when lead does not know the secret.
  [[nodiscard]] Result<std::optional<Channel>> finish(std::string& buffer) const;

 private:
  Key secret_;
  std::string claim_;
  Nonce mine_;
  Nonce theirs_{};
};

}  // namespace dlrun::agent
