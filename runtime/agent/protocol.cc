#include "runtime/agent/protocol.h"

#include <algorithm>
#include <span>
#include <vector>

#include <sodium.h>

#include "common/text.h"
#include "runtime/agent/component_options.h"

namespace dlrun::agent {
namespace {

static_assert(crypto_generichash_BYTES == kMacBytes && crypto_generichash_KEYBYTES == kKeyBytes);

std::string_view view(const Nonce& nonce) {
  return {reinterpret_cast<const char*>(nonce.data()), nonce.size()};
}
std::string_view view_mac(const Mac& mac) {
  return {reinterpret_cast<const char*>(mac.data()), mac.size()};
}

Nonce random_nonce() {
  Nonce nonce;
  randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

/// Computes keyed BLAKE2b-256 over the concatenated parts. Callers choose the parts so that
/// the concatenation is unambiguous.
Mac keyed_hash(const Key& key, std::initializer_list<std::string_view> parts) {
  crypto_generichash_state state;
  crypto_generichash_init(&state, key.data(), key.size(), kMacBytes);
  for (const auto part : parts) {
    crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(part.data()),
                              part.size());
  }
  Mac mac;
  crypto_generichash_final(&state, mac.data(), mac.size());
  return mac;
}

bool fits(const Mac& expected, std::string_view given) {
  return given.size() == kMacBytes && sodium_memcmp(expected.data(), given.data(), kMacBytes) == 0;
}

template <typename Integer>
std::string little_endian(Integer value) {
  std::string bytes(sizeof value, '\0');
  for (auto& byte : bytes) {
    byte = static_cast<char>(value & 0xffU);
    value = static_cast<Integer>(value >> 8U);
  }
  return bytes;
}

std::size_t read_little_endian(std::string_view bytes) {
  std::size_t value = 0;
  for (auto byte = bytes.rbegin(); byte != bytes.rend(); ++byte) {
    value = (value << 8U) | static_cast<unsigned char>(*byte);
  }
  return value;
}

// The input of each MAC and key of the handshake begins with a label for its purpose, so that the
// result is not valid for another purpose.
Mac rank_mac(const Key& secret, const Nonce& lead_nonce, const Nonce& rank_nonce,
             std::string_view identity) {
  return keyed_hash(secret, {"dlrun rank proof", view(lead_nonce), view(rank_nonce), identity});
}
Mac lead_mac(const Key& secret, const Nonce& lead_nonce, const Nonce& rank_nonce,
             std::string_view identity) {
  return keyed_hash(secret, {"dlrun lead proof", view(rank_nonce), view(lead_nonce), identity});
}
Key key_to_lead(const Key& secret, const Nonce& lead_nonce, const Nonce& rank_nonce,
                std::string_view identity) {
  return keyed_hash(secret, {"dlrun key to lead", view(lead_nonce), view(rank_nonce), identity});
}
Key key_to_rank(const Key& secret, const Nonce& lead_nonce, const Nonce& rank_nonce,
                std::string_view identity) {
  return keyed_hash(secret, {"dlrun key to rank", view(lead_nonce), view(rank_nonce), identity});
}

}  // namespace

Result<> init_crypto() {
  if (sodium_init() < 0) return fail(Errc::kInternal, "libsodium: no random bytes from the kernel");
  return {};
}

Key random_key() {
  Key key;
  randombytes_buf(key.data(), key.size());
  return key;
}

std::string to_text(const Key& key) {
  return to_hex(key);
}

std::string derived_word(const Key& key, std::string_view purpose) {
  return to_hex(keyed_hash(key, {"word ", purpose})).substr(0, 16);
}

std::optional<Key> key_of_text(std::string_view hex) {
  const auto bytes = from_hex(hex);
  if (!bytes || bytes->size() != kKeyBytes) return std::nullopt;
  Key key;
  std::copy(bytes->begin(), bytes->end(), key.begin());
  return key;
}

std::string RankIdentity::text() const {
  auto text = fmt::format("{} {} {} {}", job, step, attempt, rank);
  return component.empty() ? text : text + " " + component;
}

Result<RankIdentity> RankIdentity::parse(std::string_view text) {
  const auto words = split(text, ' ');
  const auto wrong = [&] {
    return fail(Errc::kInvalid, "identity '{}' is not JOB STEP ATTEMPT RANK [COMPONENT]",
                printable(text));
  };
  if ((words.size() != 4 && words.size() != 5) || words[0].empty() || words[1].empty())
    return wrong();
  if (words.size() == 5 && !is_component_name(words[4])) return wrong();
  const auto attempt = parse_int(words[2]);
  const auto rank = parse_int(words[3]);
  constexpr std::int64_t kLimit = 1 << 24;
  if (!attempt || *attempt < 0 || *attempt > kLimit || !rank || *rank < 0 || *rank > kLimit)
    return wrong();
  RankIdentity identity{std::string(words[0]), std::string(words[1]), static_cast<int>(*attempt),
                        static_cast<int>(*rank), words.size() == 5 ? std::string(words[4]) : ""};
  if (identity.text() != text) return wrong();  // such as "01" for a number
  return identity;
}

std::string Channel::make_frame(std::string_view payload) {
  const auto mac = keyed_hash(outgoing_, {little_endian(sent_count_++), payload});
  std::string frame = little_endian(static_cast<std::uint32_t>(payload.size()));
  frame.reserve(frame.size() + kMacBytes + payload.size());
  frame += view_mac(mac);
  frame += payload;
  return frame;
}

Result<std::optional<std::string>> Channel::take_payload(std::string& buffer) {
  if (buffer.size() < 4) return std::nullopt;
  const auto length = read_little_endian(std::string_view(buffer).substr(0, 4));
  if (length > kPayloadLimitBytes) {
    return fail(Errc::kInvalid, "a frame of {} bytes, at most {} are allowed", length,
                kPayloadLimitBytes);
  }
  if (buffer.size() < 4 + kMacBytes + length) return std::nullopt;
  const auto payload = std::string_view(buffer).substr(4 + kMacBytes, length);
  const auto mac = keyed_hash(incoming_, {little_endian(received_count_++), payload});
  if (!fits(mac, std::string_view(buffer).substr(4, kMacBytes))) {
    return fail(Errc::kInvalid, "a frame whose MAC does not fit");
  }
  std::string taken(payload);
  buffer.erase(0, 4 + kMacBytes + length);
  return taken;
}

LeadHandshake::LeadHandshake() : nonce_(random_nonce()) {}

std::string LeadHandshake::greeting() const {
  return fmt::format("{}{}", kGreeting, view(nonce_));
}

Result<std::optional<LeadHandshake::Authenticated>> LeadHandshake::advance(
    std::string& buffer, const Secrets& secrets) const {
  constexpr std::size_t kHead = kNonceBytes + 2;
  if (buffer.size() < kHead) return std::nullopt;
  const auto length = read_little_endian(std::string_view(buffer).substr(kNonceBytes, 2));
  if (length > kIdentityLimitBytes)
    return fail(Errc::kInvalid, "an identity of {} bytes, at most {} are allowed", length,
                kIdentityLimitBytes);
  if (buffer.size() < kHead + length + kMacBytes) return std::nullopt;
  Nonce rank_nonce;
  std::copy_n(buffer.begin(), kNonceBytes, rank_nonce.begin());
  const std::string text = buffer.substr(kHead, length);
  const auto mac = std::string_view(buffer).substr(kHead + length, kMacBytes);
  const auto known = std::find_if(secrets.begin(), secrets.end(), [&](const auto& one) {
    return fits(rank_mac(one.second, nonce_, rank_nonce, text), mac);
  });
  if (known == secrets.end())
    return fail(Errc::kInvalid, "the peer does not know the attempt's secret");
  auto identity = RankIdentity::parse(text);
  if (!identity) return tl::unexpected<Error>(std::move(identity.error()));
  const auto& [component, secret] = *known;
  if (identity->component != component) {
    return fail(Errc::kInvalid, "the peer knows the secret of component '{}' and claims '{}'",
                component, printable(identity->component));
  }
  buffer.erase(0, kHead + length + kMacBytes);
  return Authenticated{std::move(*identity),
                       std::string(view_mac(lead_mac(secret, nonce_, rank_nonce, text))),
                       Channel(key_to_rank(secret, nonce_, rank_nonce, text),
                               key_to_lead(secret, nonce_, rank_nonce, text))};
}

RankHandshake::RankHandshake(const Key& secret, const RankIdentity& identity)
    : secret_(secret), identity_(identity.text()), own_nonce_(random_nonce()) {}

Result<std::optional<std::string>> RankHandshake::answer(std::string& buffer) {
  const auto seen = std::min(buffer.size(), kGreeting.size());
  if (std::string_view(buffer).substr(0, seen) != kGreeting.substr(0, seen)) {
    return fail(Errc::kInvalid,
                "the program at this address is not a dlrun-agent lead of this version");
  }
  if (identity_.size() > kIdentityLimitBytes)
    return fail(Errc::kInvalid, "identity '{}' is too long", identity_);
  if (buffer.size() < kGreetingBytes) return std::nullopt;
  std::copy_n(buffer.begin() + kGreeting.size(), kNonceBytes, lead_nonce_.begin());
  buffer.erase(0, kGreetingBytes);
  const auto mac = rank_mac(secret_, lead_nonce_, own_nonce_, identity_);
  return fmt::format("{}{}{}{}", view(own_nonce_),
                     little_endian(static_cast<std::uint16_t>(identity_.size())), identity_,
                     view_mac(mac));
}

Result<std::optional<Channel>> RankHandshake::finish(std::string& buffer) const {
  if (buffer.size() < kMacBytes) return std::nullopt;
  if (!fits(lead_mac(secret_, lead_nonce_, own_nonce_, identity_),
            std::string_view(buffer).substr(0, kMacBytes))) {
    return fail(Errc::kInvalid, "the program at this address does not know this attempt's secret");
  }
  buffer.erase(0, kMacBytes);
  return Channel(key_to_lead(secret_, lead_nonce_, own_nonce_, identity_),
                 key_to_rank(secret_, lead_nonce_, own_nonce_, identity_));
}

}  // namespace dlrun::agent
