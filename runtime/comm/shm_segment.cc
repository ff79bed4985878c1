// Rank 0 creates the memory and passes its descriptor to the other ranks over a socket. Ranks then
// wait with futexes on each other's step counters. A lock on one byte of the memory's file shows
// that a rank is alive: the kernel releases the lock when the process ends, however it ends.

#include "runtime/comm/shm_segment.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <climits>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include <linux/futex.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "common/memory_page.h"
#include "common/processors.h"
#include "common/text.h"
#include "runtime/bootstrap/store.h"

namespace dlrun {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::uint32_t kBuffersPerSlot = 3;
/// Target for the size of all slots together, and the bounds of one buffer, in bytes. Buffers are
/// small enough for a core's cache, and large enough to make the cost of synchronisation
/// negligible.
constexpr std::size_t kAllSlotsBytes = std::size_t{32} << 20U;
constexpr std::size_t kLargestChunkBytes = std::size_t{512} << 10U;
constexpr std::size_t kSmallestChunkBytes = std::size_t{16} << 10U;
/// How long a waiting rank polls before it sleeps. Measured on two cores with two other busy
/// processes: with 100 us of polling, ranks train at half the speed, and with 2 ms at a tenth of
/// the speed. On an idle machine the time of polling makes no difference.
constexpr std::chrono::microseconds kPollFor{20};
/// How often a sleeping rank checks that the rank for which it waits is alive.
constexpr milliseconds kLookEvery{100};
/// Bit in Head::lost: the rank has called leave().
constexpr std::uint32_t kLeft = 1U << 31U;

static_assert(std::atomic<std::uint32_t>::is_always_lock_free &&
                  std::atomic<std::uint64_t>::is_always_lock_free &&
                  sizeof(std::atomic<std::uint64_t>) == sizeof(std::uint64_t),
              "processes share these atomics, so they must not contain a lock");

constexpr std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// Returns the address of the low half of a counter, for a futex, which has 32 bits. The low half
/// changes with every step, and a sleeper wakes long before 2^32 steps have passed.
const void* low_half(const std::atomic<std::uint64_t>& count) {
  return reinterpret_cast<const std::byte*>(&count) +
         (std::endian::native == std::endian::big ? sizeof(std::uint32_t) : 0);
}

/// Sleeps while `count` equals `seen`; other processes change `count`. Returns false on a timeout.
bool futex_wait(const std::atomic<std::uint64_t>& count, std::uint64_t seen, milliseconds wait) {
  const timespec limit{wait.count() / 1000, wait.count() % 1000 * 1'000'000};
  const auto value = static_cast<std::uint32_t>(seen);
  return ::syscall(SYS_futex, low_half(count), FUTEX_WAIT, value, &limit, nullptr, 0) == 0 ||
         errno != ETIMEDOUT;
}

void futex_wake(const std::atomic<std::uint64_t>& count) {
  ::syscall(SYS_futex, low_half(count), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void pause_briefly() {
#if defined(__SSE2__)
  _mm_pause();
#endif
}

/// Returns an address in the abstract namespace. The address has no file and disappears with its
/// socket.
std::pair<sockaddr_un, socklen_t> abstract_address(std::string_view name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy_n(name.data(), std::min(name.size(), sizeof address.sun_path - 1),
              address.sun_path + 1);
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

Result<UniqueFd> unix_socket() {
  UniqueFd made(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!made.is_open()) return fail(Errc::kIo, "no Unix socket: {}", errno_text(errno));
  return made;
}

/// A message of one byte with space for a file descriptor.
class DescriptorMessage {
 public:
  DescriptorMessage() {
    message_.msg_iov = &part_;
    message_.msg_iovlen = 1;
    message_.msg_control = control_.data();
    message_.msg_controllen = control_.size();
  }
  DescriptorMessage(const DescriptorMessage&) = delete;
  DescriptorMessage& operator=(const DescriptorMessage&) = delete;

  [[nodiscard]] msghdr* get() { return &message_; }
  /// Returns the header of the file descriptor; nullptr if none was received.
  [[nodiscard]] cmsghdr* header() { return CMSG_FIRSTHDR(&message_); }

 private:
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control_{};
  char byte_ = 1;
  iovec part_{&byte_, 1};
  msghdr message_{};
};

bool send_descriptor(int socket, int descriptor) {
  DescriptorMessage message;
  cmsghdr* const header = message.header();
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof descriptor);
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  return ::sendmsg(socket, message.get(), MSG_NOSIGNAL) == 1;
}

UniqueFd receive_descriptor(int socket) {
  DescriptorMessage message;
  if (::recvmsg(socket, message.get(), MSG_CMSG_CLOEXEC) != 1) return {};
  const cmsghdr* const header = message.header();
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS ||
      header->cmsg_len != CMSG_LEN(sizeof(int)))
    return {};
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
  return UniqueFd(descriptor);
}

/// Waits until the socket is readable. Returns false if it is not readable at `until`.
bool wait_readable(int socket, Clock::time_point until) {
  while (true) {
    const auto left = std::chrono::ceil<milliseconds>(until - Clock::now());
    pollfd entry{socket, POLLIN, 0};
    const int ready =
        ::poll(&entry, 1, static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, INT_MAX)));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

std::string key_of(const CommunicatorOptions& options) {
  return fmt::format("shm/{}/socket", options.prefix);
}

/// Formats ranks for a message: "rank 3", "ranks 0, 1, 5".
std::string ranks_text(const std::string& list, int count) {
  return fmt::format("rank{} {}", count == 1 ? "" : "s", list);
}

}  // namespace

struct alignas(64) ShmSegment::Head {
  /// 0: no rank is lost. Else the first lost rank plus 1, combined with kLeft if that rank left.
  std::atomic<std::uint32_t> lost;
};

/// One rank's counters, in a cache line of their own.
struct alignas(64) ShmSegment::RankCounters {
  /// The last published step; 0 before joining. Other ranks sleep until it changes.
  std::atomic<std::uint64_t> step;
  std::atomic<std::uint32_t> sleeper_count;  ///< number of ranks that sleep on `step`
  /// Signature of call k at index k % 2: a rank that is one call ahead must not overwrite the
  /// signature that other ranks still compare.
  std::array<std::atomic<std::uint64_t>, 2> signatures;
};

ShmLayout ShmLayout::of(int ranks, std::size_t page_bytes) {
  const auto n = static_cast<std::size_t>(ranks);
  const std::size_t wanted =
      std::clamp(kAllSlotsBytes / (kBuffersPerSlot * n), kSmallestChunkBytes, kLargestChunkBytes);
  ShmLayout layout;
  // A buffer has at least 64 bytes for each rank, because a reduce-scatter divides the buffer among
  // the ranks.
  layout.chunk_bytes = round_up(std::max(wanted, n * 64), page_bytes);
  layout.slots_begin =
      round_up(ShmSegment::kHeadBytes + ShmSegment::kRankCountersBytes * n, page_bytes);
  layout.slot_bytes = kBuffersPerSlot * layout.chunk_bytes;
  layout.end = layout.slots_begin + layout.slot_bytes * n;
  return layout;
}

ShmSegment::ShmSegment(const CommunicatorOptions& options, UniqueFd memory)
    : memory_(std::move(memory)),
      rank_(options.world.rank),
      size_(options.world.size),
      layout_(ShmLayout::of(options.world.size, page_bytes())),
      timeout_(options.timeout) {}

ShmSegment::~ShmSegment() {
  if (base_ != nullptr) ::munmap(base_, layout_.end);
}

ShmSegment::RankCounters& ShmSegment::counters_of(int rank) const {
  return *std::launder(reinterpret_cast<RankCounters*>(
      base_ + kHeadBytes + kRankCountersBytes * static_cast<std::size_t>(rank)));
}

std::byte* ShmSegment::buffer(int rank, std::uint64_t step) const {
  return base_ + layout_.slots_begin +
         (static_cast<std::size_t>(rank) * kBuffersPerSlot + step % kBuffersPerSlot) *
             layout_.chunk_bytes;
}

Result<std::unique_ptr<ShmSegment>> ShmSegment::join(const CommunicatorOptions& options,
                                                     std::uint64_t steps_before) {
  if (options.world.nnodes <= 1 && options.world.local_size != options.world.size) {
    return fail(Errc::kInvalid,
                "shared memory reaches the ranks of one node, but only {} of this world's {} ranks "
                "are on this node; use mpi, gloo or nccl",
                options.world.local_size, options.world.size);
  }
  if (options.world.nnodes > 1) {
    return fail(Errc::kInvalid,
                "shared memory reaches the ranks of one node, but this world's {} ranks are on {} "
                "nodes; use mpi, gloo or nccl",
                options.world.size, options.world.nnodes);
  }
  if (options.store == nullptr) {
    return fail(Errc::kUnavailable,
                "shm needs a store where its ranks find each other: DLRUN_STORE is not set; start "
                "the program through dlrun-agent or with PMIx (srun --mpi=pmix, mpirun), or set "
                "DLRUN_STORE to file:DIR with a fresh folder that all ranks see");
  }
  DLRUN_TRY_ASSIGN(auto memory,
                   options.world.rank == 0 ? make_memory(options) : ask_for_memory(options));
  std::unique_ptr<ShmSegment> segment(new ShmSegment(options, std::move(memory)));
  segment->step_ = steps_before;
  auto ready = segment->map();
  if (ready && segment->rank_ == 0) ready = segment->hand_out(options);
  if (!ready) {
    // End the wait of the other ranks: leave() reaches the ranks that have the memory, and the
    // entry in the store reaches the others.
    if (segment->base_ != nullptr) segment->leave();
    if (segment->rank_ == 0) (void)options.store->put(key_of(options), "!" + ready.error().message);
    return tl::unexpected(std::move(ready.error()));
  }
  if (auto met = segment->meet(); !met) {
    segment->leave();
    return tl::unexpected(std::move(met.error()));
  }
  segment->timeout_ = options.timeout;
  return segment;
}

Result<> ShmSegment::meet() {
  static_assert(sizeof(ProcessorSet) <= kSmallestChunkBytes);
  const std::uint64_t step = next_step();
  const ProcessorSet own = own_processors();
  std::memcpy(buffer(rank_, step), &own, sizeof own);
  publish();
  DLRUN_TRY(await());
  ProcessorSet all;
  for (int peer = 0; peer < size_; ++peer) {
    ProcessorSet of_peer;
    std::memcpy(&of_peer, buffer(peer, step), sizeof of_peer);
    all |= of_peer;
  }
  if (size_ <= usable_processors(all.count(), own_cpu_quota())) poll_for_ = kPollFor;
  return {};
}

Result<UniqueFd> ShmSegment::make_memory(const CommunicatorOptions& options) {
  UniqueFd memory(::memfd_create("dlrun-shm", MFD_CLOEXEC));
  if (memory.is_open()) return memory;
  const std::string why = fmt::format("no shared memory: {}", errno_text(errno));
  (void)options.store->put(key_of(options), "!" + why);
  return fail(Errc::kIo, "{}", why);
}

Result<UniqueFd> ShmSegment::ask_for_memory(const CommunicatorOptions& options) {
  const auto deadline = Clock::now() + options.timeout;
  DLRUN_TRY_ASSIGN(const auto name, options.store->get(key_of(options), options.timeout));
  if (name.starts_with('!')) return fail(Errc::kPeer, "rank 0: {}", name.substr(1));
  DLRUN_TRY_ASSIGN(auto socket, unix_socket());
  const auto [address, length] = abstract_address(name);
  const std::int32_t rank = options.world.rank;
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    return fail(
        Errc::kPeer,
        "rank 0 cannot be reached on this node ({}): it has ended, or is on another node, or in "
        "another network namespace",
        errno_text(errno));
  }
  const auto closed_error = [&] {
    return fail(Errc::kPeer,
                "rank 0 closed the connection: it has ended, or another process has connected as "
                "rank {}",
                rank);
  };
  if (::send(socket.get(), &rank, sizeof rank, MSG_NOSIGNAL) != sizeof rank) return closed_error();
  if (!wait_readable(socket.get(), deadline))
    return fail(Errc::kTimeout, "rank 0 did not pass the shared memory on within {} ms",
                options.timeout.count());
  UniqueFd memory = receive_descriptor(socket.get());
  if (!memory.is_open()) return closed_error();
  return memory;
}

Result<> ShmSegment::map() {
  // Open a separate file description for this rank. The lock belongs to the description and
  // disappears when the rank ends.
  UniqueFd own(::open(fmt::format("/proc/self/fd/{}", memory_.get()).c_str(), O_RDWR | O_CLOEXEC));
  if (!own.is_open())
    return fail(Errc::kIo, "the shared memory cannot be opened: {}", errno_text(errno));
  memory_ = std::move(own);
  static_assert(sizeof(Head) <= kHeadBytes && sizeof(RankCounters) <= kRankCountersBytes);
  const std::size_t bytes = layout_.end;
  const auto no_room = [&] {
    return fail(Errc::kIo,
                "no room for {} KiB of shared memory: {}; the job's memory limit (resources.mem) "
                "includes this memory",
                bytes >> 10U, errno_text(errno));
  };
  if (rank_ == 0 && ::ftruncate(memory_.get(), static_cast<off_t>(bytes)) != 0) return no_room();
  struct stat info {};
  if (::fstat(memory_.get(), &info) != 0 || info.st_size != static_cast<off_t>(bytes)) {
    return fail(
        Errc::kPeer,
        "rank 0 shares {} bytes, expected {}: does rank 0 have another version or world size?",
        info.st_size, bytes);
  }
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_.get(), 0);
  if (at == MAP_FAILED) return no_room();
  base_ = static_cast<std::byte*>(at);
  // Allocate now: memory that is missing later would cause SIGBUS. Each rank allocates its own
  // slot, so that the slot is in memory near the rank's processor.
  if (rank_ == 0 && ::fallocate(memory_.get(), 0, 0, static_cast<off_t>(layout_.slots_begin)) != 0)
    return no_room();
  memory_bytes_ = bytes;
  const auto own_slot = static_cast<off_t>(layout_.slots_begin +
                                           layout_.slot_bytes * static_cast<std::size_t>(rank_));
  if (::fallocate(memory_.get(), 0, own_slot, static_cast<off_t>(layout_.slot_bytes)) != 0)
    return no_room();
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_start = rank_;
  lock.l_len = 1;
  if (::fcntl(memory_.get(), F_OFD_SETLK, &lock) != 0) {
    return fail(Errc::kPeer, "another process is rank {} already: {}", rank_, errno_text(errno));
  }
  return {};
}

std::shared_ptr<std::byte> ShmSegment::extend(std::size_t bytes) {
  const auto n = static_cast<std::size_t>(size_);
  const std::size_t part = round_up(std::max<std::size_t>((bytes + n - 1) / n, 1), page_bytes());
  const std::size_t begin = memory_bytes_;
  memory_bytes_ += n * part;
  // Each rank allocates its own part now, as in map(). If another rank finds no memory for its
  // part, all ranks give up the extension, and the memory of this rank's part stays unused.
  const auto own = static_cast<off_t>(begin + part * static_cast<std::size_t>(rank_));
  if (::fallocate(memory_.get(), 0, own, static_cast<off_t>(part)) != 0) return nullptr;
  void* const at = ::mmap(nullptr, n * part, PROT_READ | PROT_WRITE, MAP_SHARED, memory_.get(),
                          static_cast<off_t>(begin));
  if (at == MAP_FAILED) return nullptr;
  return {static_cast<std::byte*>(at),
          [length = n * part](std::byte* base) { ::munmap(base, length); }};
}

Result<> ShmSegment::hand_out(const CommunicatorOptions& options) {
  const auto deadline = Clock::now() + timeout_;
  DLRUN_TRY_ASSIGN(auto listener, unix_socket());
  const std::string name = "dlrun-" + random_hex(16);
  const auto [address, length] = abstract_address(name);
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      ::listen(listener.get(), SOMAXCONN) != 0) {
    return fail(Errc::kIo, "cannot make the socket to which the other ranks connect: {}",
                errno_text(errno));
  }
  DLRUN_TRY(options.store->put(key_of(options), name));
  std::vector<bool> has_memory(static_cast<std::size_t>(size_));
  has_memory[0] = true;
  for (int served = 1; served < size_;) {
    if (!wait_readable(listener.get(), deadline)) break;  // await() then lists the missing ranks
    const UniqueFd peer(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!peer.is_open() &&
        (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
      return fail(Errc::kIo, "cannot accept the connections of the other ranks: {}",
                  errno_text(errno));
    ucred sender{};
    socklen_t sender_size = sizeof sender;
    std::int32_t rank = -1;
    if (!peer.is_open() ||
        ::getsockopt(peer.get(), SOL_SOCKET, SO_PEERCRED, &sender, &sender_size) != 0 ||
        sender.uid != ::geteuid() ||
        !wait_readable(peer.get(), std::min(deadline, Clock::now() + std::chrono::seconds(5))) ||
        ::recv(peer.get(), &rank, sizeof rank, 0) != sizeof rank || rank < 1 || rank >= size_ ||
        has_memory[static_cast<std::size_t>(rank)]) {
      continue;  // not a rank of this world
    }
    if (send_descriptor(peer.get(), memory_.get())) {
      has_memory[static_cast<std::size_t>(rank)] = true;
      ++served;
    }
  }
  // A rank may receive the memory and not join. Wait for such a rank only until the deadline.
  timeout_ = std::chrono::ceil<milliseconds>(
      std::max(deadline - Clock::now(), Clock::duration(milliseconds(1))));
  return {};
}

void ShmSegment::announce_call(std::uint64_t signature) {
  ++call_count_;
  counters_of(rank_).signatures[call_count_ % 2].store(signature, std::memory_order_relaxed);
  is_compared_ = false;
}

void ShmSegment::publish() {
  ++step_;
  RankCounters& own = counters_of(rank_);
  // The accesses here and in await_rank() are sequentially consistent, so that either this rank
  // sees the sleeper, or the sleeper sees the step.
  own.step.store(step_);
  if (own.sleeper_count.load() > 0) futex_wake(own.step);
}

bool ShmSegment::has_reached(int rank, std::uint64_t step) const {
  return counters_of(rank).step.load(std::memory_order_acquire) >= step;
}

Result<> ShmSegment::await() {
  if (has_left_) return fail(Errc::kPeer, "the communicator was abandoned");
  for (int other = 1; other < size_; ++other) {
    const int peer = (rank_ + other) % size_;
    if (!has_reached(peer, step_)) DLRUN_TRY(await_rank(peer));
  }
  return std::exchange(is_compared_, true) ? Result<>() : compare_calls();
}

Result<> ShmSegment::await_rank(int rank) {
  constexpr int kPausesPerLook = 32;
  const auto start = Clock::now();
  while (Clock::now() - start < poll_for_) {
    for (int i = 0; i < kPausesPerLook; ++i) {
      if (has_reached(rank, step_)) return {};
      pause_briefly();
    }
  }
  RankCounters& peer = counters_of(rank);
  peer.sleeper_count.fetch_add(1);
  Result<> result;
  while (true) {
    const std::uint64_t seen = peer.step.load();
    if (has_reached(rank, step_)) break;
    if (auto lost = error_if_lost(); !lost) {
      result = std::move(lost);
      break;
    }
    if (Clock::now() - start > timeout_) {
      result = timeout_error();
      break;
    }
    if (futex_wait(peer.step, seen, std::min(kLookEvery, timeout_))) continue;
    // The rank may have published its last step just before it ended.
    if (seen != 0 && !is_alive(rank) && !has_reached(rank, step_))
      declare_lost(static_cast<std::uint32_t>(rank) + 1);
  }
  peer.sleeper_count.fetch_sub(1);
  return result;
}

Result<> ShmSegment::compare_calls() const {
  const std::uint64_t own =
      counters_of(rank_).signatures[call_count_ % 2].load(std::memory_order_relaxed);
  std::string others;
  int count = 0;
  for (int peer = 0; peer < size_; ++peer) {
    if (counters_of(peer).signatures[call_count_ % 2].load(std::memory_order_relaxed) == own)
      continue;
    others += fmt::format("{}{}", count == 0 ? "" : ", ", peer);
    ++count;
  }
  if (count == 0) return {};
  return fail(Errc::kPeer,
              "{} call{} another operation, or use{} another size, type, reduction or root",
              ranks_text(others, count), count == 1 ? "s" : "", count == 1 ? "s" : "");
}

bool ShmSegment::is_alive(int rank) const {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_start = rank;
  lock.l_len = 1;
  return ::fcntl(memory_.get(), F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

Result<> ShmSegment::error_if_lost() const {
  const std::uint32_t lost = reinterpret_cast<const Head*>(base_)->lost.load();
  if (lost == 0) return {};
  const std::uint32_t rank = (lost & ~kLeft) - 1;
  if ((lost & kLeft) != 0)
    return fail(Errc::kPeer, "rank {} has stopped after an error on that rank", rank);
  return fail(Errc::kPeer, "rank {} is gone: it ended or was killed", rank);
}

Result<> ShmSegment::timeout_error() const {
  std::string missing;
  int count = 0;
  for (int peer = 0; peer < size_; ++peer) {
    if (has_reached(peer, step_)) continue;
    missing += fmt::format("{}{}", count == 0 ? "" : ", ", peer);
    ++count;
  }
  return fail(Errc::kTimeout, "{} did not join the call within {} ms", ranks_text(missing, count),
              timeout_.count());
}

void ShmSegment::declare_lost(std::uint32_t encoded_rank) {
  std::uint32_t none = 0;
  reinterpret_cast<Head*>(base_)->lost.compare_exchange_strong(none, encoded_rank);
  wake_all();
}

void ShmSegment::wake_all() const {
  for (int peer = 0; peer < size_; ++peer) futex_wake(counters_of(peer).step);
}

void ShmSegment::leave() {
  if (std::exchange(has_left_, true)) return;
  declare_lost((static_cast<std::uint32_t>(rank_) + 1) | kLeft);
}

}  // namespace dlrun
