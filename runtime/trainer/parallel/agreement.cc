// Ranks agree with small collectives: the lowest failed rank broadcasts its error, rank 0
// broadcasts its settings, and hashes are gathered and compared.

#include "runtime/trainer/parallel/agreement.h"

#include <array>
#include <limits>
#include <vector>

#include <sodium.h>

#include "common/hostlist.h"
#include "common/text.h"

namespace dlrun::trainer {
namespace {

constexpr std::size_t kHashBytes = 32;
constexpr std::size_t kLongestMessageBytes = 64U << 10U;

using Hash = std::array<std::uint8_t, kHashBytes>;

Hash blake2b(std::span<const std::uint8_t> bytes) {
  Hash hash{};
  crypto_generichash(hash.data(), hash.size(), bytes.data(), bytes.size(), nullptr, 0);
  return hash;
}

}  // namespace

Result<> agree(Communicator& communicator, std::string_view host, const Result<>& mine) {
  if (communicator.size() == 1) return mine;  // with one rank, the message need not name the rank
  constexpr std::int64_t kNoRank = std::numeric_limits<std::int64_t>::max();
  std::int64_t lowest_failed = mine ? kNoRank : communicator.rank();
  DLRUN_TRY(communicator.all_reduce(std::span(&lowest_failed, 1), ReduceOp::kMin));
  if (lowest_failed == kNoRank) return {};

  const int root = static_cast<int>(lowest_failed);
  std::string message;
  std::array<std::int64_t, 2> header{};  // error code, length of the message
  if (communicator.rank() == root) {
    message = fmt::format("rank {} on {}: {}", root, host, mine.error().message);
    if (message.size() > kLongestMessageBytes) message.resize(kLongestMessageBytes);
    header = {static_cast<std::int64_t>(mine.error().code),
              static_cast<std::int64_t>(message.size())};
  }
  DLRUN_TRY(communicator.broadcast(std::span(header), root));
  std::vector<std::uint8_t> bytes(message.begin(), message.end());
  bytes.resize(static_cast<std::size_t>(header[1]));
  DLRUN_TRY(communicator.broadcast(std::span(bytes), root));
  return tl::unexpected(Error{.code = static_cast<Errc>(header[0]),
                              .message = std::string(bytes.begin(), bytes.end()),
                              .agreed_rank = root});
}

std::string_view message_without_rank(const Error& error) {
  constexpr std::string_view kAfterHost = ": ";
  const std::string_view message = error.message;
  const auto end_of_host = message.find(kAfterHost);
  if (error.agreed_rank < 0 || end_of_host == std::string_view::npos) return message;
  return message.substr(end_of_host + kAfterHost.size());
}

Result<std::string> common_hash(Communicator& communicator, std::string_view what,
                                std::span<const std::uint8_t> bytes) {
  const Hash mine = blake2b(bytes);
  std::vector<std::uint8_t> all(kHashBytes * static_cast<std::size_t>(communicator.size()));
  if (auto gathered = communicator.all_gather(std::span(mine), std::span(all)); !gathered)
    return tl::unexpected(gathered.error());
  std::vector<std::string> different;
  for (std::size_t rank = 1; rank * kHashBytes < all.size(); ++rank) {
    if (!std::equal(all.begin(), all.begin() + kHashBytes,
                    all.begin() + static_cast<std::ptrdiff_t>(rank * kHashBytes))) {
      different.push_back(fmt::format("{}", rank));
    }
  }
  if (different.size() == 1) {
    return fail(Errc::kPeer, "{} differ: rank {} of {} differs from rank 0", what, different[0],
                communicator.size());
  }
  if (!different.empty()) {
    std::string ranks = compress_hostlist(different);  // for example [1,3-5]
    if (ranks.starts_with('[')) ranks = ranks.substr(1, ranks.size() - 2);
    return fail(Errc::kPeer, "{} differ: ranks {} of {} differ from rank 0", what, ranks,
                communicator.size());
  }
  return to_hex(mine);
}

Result<> check_same_on_all_ranks(Communicator& communicator, std::string_view host,
                                 const std::vector<Setting>& settings) {
  if (communicator.size() == 1) return {};
  constexpr char kEnd = '\0';
  std::string own_text;
  for (const Setting& setting : settings) own_text.append(setting.value).push_back(kEnd);
  std::int64_t length = static_cast<std::int64_t>(own_text.size());
  DLRUN_TRY(communicator.broadcast(std::span(&length, 1), 0));
  std::vector<std::uint8_t> bytes(own_text.begin(), own_text.end());
  bytes.resize(static_cast<std::size_t>(length));
  DLRUN_TRY(communicator.broadcast(std::span(bytes), 0));

  const std::string root_text(bytes.begin(), bytes.end());
  const std::vector<std::string_view> values = split(root_text, kEnd);
  std::string differences;
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const std::string_view root_value = i < values.size() ? values[i] : std::string_view();
    if (root_value == settings[i].value) continue;
    differences +=
        fmt::format("{}{} is {} here and {} on rank 0", differences.empty() ? "" : "; ",
                    settings[i].name, printable(settings[i].value), printable(root_value));
  }
  return agree(communicator, host,
               differences.empty() ? Result<>()
                                   : fail(Errc::kPeer, "options or data differ: {}", differences));
}

std::string blake2b_hex(std::span<const std::uint8_t> bytes) {
  return to_hex(blake2b(bytes));
}

}  // namespace dlrun::trainer
