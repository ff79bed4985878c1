// Fuzzes the bytes that one end of a relay reads from the other end.

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <tuple>
#include <utility>

#include "common/relay_mux.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace dlrun;

/// Connects every channel to a socket whose other end is closed.
class ClosedPeers final : public RelayHandler {
 public:
  void on_open(std::uint32_t channel, std::uint16_t) override {
    std::array<int, 2> ends{};
    if (mux == nullptr || ::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) != 0) return;
    mux->attach(channel, UniqueFd(ends[0]));
    UniqueFd(ends[1]).reset();
  }
  void on_opened(std::uint32_t) override {}
  void on_waiting(std::uint32_t) override {}
  void on_reset(std::uint32_t, std::string_view) override {}
  RelayMux* mux = nullptr;
};

/// Reads frames up to the first invalid one, in pieces of `piece_bytes`. Returns the same frames,
/// encoded again.
std::string encode_again(std::string_view bytes, std::size_t piece_bytes) {
  FrameBuffer buffer;
  std::string again;
  for (std::size_t at = 0; at < bytes.size(); at += piece_bytes) {
    buffer.append(bytes.substr(at, piece_bytes));
    for (;;) {
      const auto frame = buffer.next();
      if (!frame) return again;
      if (!*frame) break;
      append_frame(again, (*frame)->kind, (*frame)->channel, (*frame)->payload);
    }
  }
  return again;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = dlrun::fuzz::text_of(data, size);
  const auto whole = encode_again(bytes, std::max<std::size_t>(size, 1));
  dlrun::fuzz::expect(bytes.starts_with(whole), "a frame that is encoded again has the same bytes");
  dlrun::fuzz::expect(encode_again(bytes, 3) == whole,
                      "the size of the pieces makes no difference");

  FrameBuffer noise;
  noise.append(bytes);
  std::ignore = noise.skip_greeting();

  std::array<int, 2> trunk{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, trunk.data()) != 0) return 0;
  const UniqueFd ours(trunk[0]);
  UniqueFd theirs(trunk[1]);
  ClosedPeers peers;
  RelayMux mux(RelayMux::Role::kAccepts, ours.get(), ours.get(), peers);
  peers.mux = &mux;
  if (::send(theirs.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) return 0;
  ::shutdown(theirs.get(), SHUT_WR);
  constexpr int kRounds = 16;
  for (int i = 0; i < kRounds; ++i) {
    const auto goes_on = mux.run_once({}, std::chrono::milliseconds(0));
    if (!goes_on || !*goes_on) break;
    dlrun::fuzz::expect(mux.connection_count() <= kMostRelayConnections, "connections are bounded");
  }
  return 0;
}
