#include "runtime/bootstrap/pmix_store.h"

#include <sys/socket.h>

#include <array>
#include <span>

#include <netdb.h>

#include "common/files.h"
#include "common/text.h"
#include "runtime/bootstrap/shared_module.h"

namespace dlrun {

namespace {

// The key in hex, twice as long, and its prefix stay below PMIX_MAX_KEYLEN.
constexpr std::size_t kKeyLimitBytes = 240;

/// Encodes any key as a C string that differs from PMIx's own keys.
std::string pmix_key(std::string_view key) {
  return "dlrun." +
         to_hex(std::span(reinterpret_cast<const std::uint8_t*>(key.data()), key.size()));
}

/// Returns the local IP address from which this node reaches `host`. Fails if only a loopback
/// address is found. Sends nothing: connecting a datagram socket is enough to choose a route.
Result<std::string> address_towards(const std::string& host) {
  constexpr const char* kAnyPort = "9";
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), kAnyPort, &hints, &found);
  if (error != 0)
    return fail(Errc::kUnavailable, "the name of the node {} cannot be resolved: {}", host,
                ::gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, &::freeaddrinfo);
  bool is_loopback = false;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    const UniqueFd socket(::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol));
    sockaddr_storage own{};
    socklen_t length = sizeof own;
    std::array<char, NI_MAXHOST> text{};
    if (socket.is_open() && ::connect(socket.get(), at->ai_addr, at->ai_addrlen) == 0 &&
        ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &length) == 0 &&
        ::getnameinfo(reinterpret_cast<const sockaddr*>(&own), length, text.data(), text.size(),
                      nullptr, 0, NI_NUMERICHOST) == 0) {
      const std::string_view address(text.data());
      if (!address.starts_with("127.") && address != "::1") return std::string(address);
      is_loopback = true;
    }
  }
  if (is_loopback)
    return fail(Errc::kUnavailable,
                "the name of the node {} resolves to a loopback address on this node", host);
  return fail(Errc::kUnavailable, "this node has no route to {}", host);
}

}  // namespace

Result<const PmixModule*> load_pmix() {
  const auto object = load_module_object("pmix", "dlrun_pmix_module");
  if (!object) return within("store over PMIx", object.error());
  const auto* const module = static_cast<const PmixModule*>(*object);
  if (std::string_view(module->interface) != DLRUN_PMIX_INTERFACE) {
    return fail(
        Errc::kUnavailable,
        "the module pmix was built for dlrun {}, this program for {}; install both from one build",
        module->interface, DLRUN_PMIX_INTERFACE);
  }
  return module;
}

Result<std::unique_ptr<PmixStore>> PmixStore::open(const World& world) {
  DLRUN_TRY_ASSIGN(const auto module, load_pmix());
  auto client = module->connect();
  if (!client) return within("store over PMIx", client.error());
  if ((*client)->rank() != world.rank || (*client)->size() != world.size) {
    return fail(Errc::kInvalid,
                "store over PMIx: the launcher says rank {} of {}, expected rank {} of {} ({})",
                (*client)->rank(), (*client)->size(), world.rank, world.size,
                to_string(world.source));
  }
  return std::make_unique<PmixStore>(std::move(*client));
}

Result<int> PmixStore::owner_of(std::string_view key) const {
  if (key.empty() || key.size() > kKeyLimitBytes) {
    return fail(Errc::kInvalid, "store: the key '{}' has {} bytes; 1 to {} are allowed",
                printable(key), key.size(), kKeyLimitBytes);
  }
  const auto end = key.find_last_not_of("0123456789");
  const auto digits = key.substr(end == std::string_view::npos ? 0 : end + 1);
  if (digits.empty()) return 0;
  const auto rank = parse_int(digits);
  if (!rank || *rank >= client_->size()) {
    return fail(Errc::kInvalid, "store: the key '{}' ends in a number that is not a rank (0 to {})",
                printable(key), client_->size() - 1);
  }
  return static_cast<int>(*rank);
}

Result<> PmixStore::put(std::string_view key, std::string_view value) {
  DLRUN_TRY_ASSIGN(const auto owner, owner_of(key));
  if (owner != client_->rank()) {
    return fail(Errc::kInvalid, "store: over PMIx only rank {} may put the key '{}', not rank {}",
                owner, printable(key), client_->rank());
  }
  DLRUN_TRY(own_.put(key, value));
  if (auto put = client_->put(pmix_key(key), value); !put) {
    return fail(put.error().code, "store: put '{}': {}", printable(key), put.error().message);
  }
  return {};
}

Result<std::string> PmixStore::get(std::string_view key, std::chrono::milliseconds wait) {
  DLRUN_TRY_ASSIGN(const auto owner, owner_of(key));
  auto value =
      owner == client_->rank() ? own_.get(key, wait) : client_->get(owner, pmix_key(key), wait);
  if (value) return value;
  if (value.error().code == Errc::kTimeout) {
    return fail(Errc::kTimeout, "store: rank {} has not put '{}' within {} ms", owner,
                printable(key), wait.count());
  }
  return fail(value.error().code, "store: get '{}': {}", printable(key), value.error().message);
}

Result<std::string> PmixStore::own_address() {
  const auto own = client_->host_of(client_->rank());
  if (!own) return within("address of this rank", own.error());
  for (int rank = 0; rank < client_->size(); ++rank) {
    const auto host = client_->host_of(rank);
    if (!host) return within("address of this rank", host.error());
    if (*host == *own) continue;
    auto address = address_towards(*host);
    if (!address) {
      return fail(
          address.error().code,
          "address of rank {} for other nodes: {}; set DLRUN_ADDR to the IP address of this rank",
          client_->rank(), address.error().message);
    }
    return address;
  }
  return std::string();
}

bool has_pmix(const Env& env) {
  return env.has("PMIX_NAMESPACE") && env.has("PMIX_RANK");
}

}  // namespace dlrun
