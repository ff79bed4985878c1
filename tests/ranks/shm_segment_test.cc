// Tests how the ranks of the shm backend meet, wait and count their steps, and the layout of their
// memory. A step is one exchange through this memory, not a step of training. shm_test.cc tests the
// operations.

#include "runtime/comm/shm_segment.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <limits>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <sched.h>

#include "common/processors.h"
#include "runtime/bootstrap/file_store.h"
#include "runtime/bootstrap/memory_store.h"
#include "runtime/comm/guarded.h"
#include "runtime/comm/shm.h"
#include "tests/ranks/collective_checks.h"
#include "tests/ranks/run_ranks.h"
#include "tests/temporary_directory.h"
#include "tests/time_bounds.h"

namespace dlrun {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// Runs `body` on `size` threads, each with the options of its rank. Returns the failures of
/// all ranks.
template <typename Body>
std::vector<std::string> on_threads_with_options(int size, Store& store, Body&& body) {
  std::mutex mutex;
  std::vector<std::string> failures;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.emplace_back([&, rank] {
      const std::vector<std::string> found = body(options_of(rank, size, store));
      const std::lock_guard lock(mutex);
      failures.insert(failures.end(), found.begin(), found.end());
    });
  }
  for (std::thread& rank : ranks) rank.join();
  return failures;
}

/// A store whose first put fails, as if the connection were lost for a moment.
class FailingOnceStore final : public Store {
 public:
  explicit FailingOnceStore(Store& store) : store_(store) {}
  Result<> put(std::string_view key, std::string_view value) override {
    if (!std::exchange(has_failed_, true)) return fail(Errc::kUnavailable, "the store is away");
    return store_.put(key, value);
  }
  Result<std::string> get(std::string_view key, milliseconds wait) override {
    return store_.get(key, wait);
  }

 private:
  Store& store_;
  bool has_failed_ = false;
};

/// A store whose put() lowers the limit on open files, so that this process can open no more.
class DescriptorExhaustingStore final : public Store {
 public:
  explicit DescriptorExhaustingStore(Store& store) : store_(store) {}
  Result<> put(std::string_view key, std::string_view value) override {
    auto done = store_.put(key, value);
    const int next = ::dup(0);
    ::close(next);
    const rlimit none_more{static_cast<rlim_t>(next), static_cast<rlim_t>(next)};
    ::setrlimit(RLIMIT_NOFILE, &none_more);
    return done;
  }
  Result<std::string> get(std::string_view key, milliseconds wait) override {
    return store_.get(key, wait);
  }

 private:
  Store& store_;
};

}  // namespace

TEST_CASE("shm: collectives are correct while the step count passes 2^32") {
  constexpr std::uint64_t kWrap = std::uint64_t{1} << 32U;
  // Under a sanitizer, seven ranks that wait for each other on two processors take half a minute.
  for (const int size : {1, 2, 4, kWithSanitizer ? 3 : 7}) {
    for (const std::uint64_t steps_before_wrap : {1U, 2U, 3U, 4U, 9U}) {
      CAPTURE(size);
      CAPTURE(steps_before_wrap);
      MemoryStore store;
      expect_no_failures(on_threads_with_options(
          size, store, [&](const CommunicatorOptions& options) -> std::vector<std::string> {
            auto made = make_shm_communicator(options, kWrap - 1 - steps_before_wrap);
            if (!made) return {made.error().message};
            const auto comm = make_guarded(std::move(*made), 0);
            // About six chunks. Their buffers are in use together while the count passes 2^32.
            std::vector<std::int64_t> values(400'000);
            for (std::size_t i = 0; i < values.size(); ++i)
              values[i] = static_cast<std::int64_t>(i) + options.world.rank;
            if (auto done = comm->all_reduce(std::span(values), ReduceOp::kSum); !done)
              return {done.error().message};
            for (std::size_t i = 0; i < values.size(); ++i) {
              if (values[i] != static_cast<std::int64_t>(i) * size + size * (size - 1) / 2)
                return {fmt::format("element {} is {}", i, values[i])};
            }
            return steps_before_wrap == 2 ? check_collectives(*comm) : std::vector<std::string>{};
          }));
    }
  }
}

TEST_CASE("shm: a lost rank is noticed even at step 2^32, where the low half of the counter is 0") {
  constexpr std::uint64_t kWrap = std::uint64_t{1} << 32U;
  const TemporaryDirectory folder;
  const auto before = steady_clock::now();
  const auto codes = in_processes(2, folder.path(), [](int rank, Store& store) {
    // The barrier is step 2^32.
    auto comm = make_shm_communicator(options_of(rank, 2, store), kWrap - 1);
    if (!comm) return 1;
    if (rank == 1) return 0;  // exits silently; its lock is released when the process ends
    const auto met = (*comm)->barrier();
    return !met && has(met.error().message, "rank 1 is gone") ? 0 : 2;
  });
  CHECK(codes == std::vector<int>{0, 0});
  CHECK(steady_clock::now() - before < std::chrono::seconds(10));
}

TEST_CASE(
    "shm: if rank 0 cannot publish its memory, the others get its error long before the timeout") {
  for (const int size : {2, 4, 7}) {
    CAPTURE(size);
    MemoryStore store;
    FailingOnceStore failing_once(store);
    const auto before = steady_clock::now();
    expect_no_failures(on_threads_with_options(
        size, store, [&](CommunicatorOptions options) -> std::vector<std::string> {
          if (options.world.rank == 0) options.store = &failing_once;
          const auto segment = ShmSegment::join(options);
          if (segment) return {"ranks met although rank 0 could not publish its memory"};
          const bool has_reason = has(segment.error().message, "the store is away");
          return has_reason ? std::vector<std::string>{}
                            : std::vector<std::string>{segment.error().message};
        }));
    // The limit is much less than the 30 s for which ranks wait for each other.
    CHECK(steady_clock::now() - before < std::chrono::seconds(10));
  }
}

// The sanitizers need descriptors themselves: without any, they report valid objects as invalid.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE(
    "shm: if rank 0 has no descriptors left to answer the others, all fail long before the "
    "timeout") {
  for (const int size : {2, 4, 7}) {
    CAPTURE(size);
    const TemporaryDirectory folder;
    const auto before = steady_clock::now();
    const auto codes = in_processes(size, folder.path(), [&](int rank, Store& store) {
      DescriptorExhaustingStore exhausting(store);
      auto options = options_of(rank, size, rank == 0 ? static_cast<Store&>(exhausting) : store);
      const auto segment = ShmSegment::join(options);
      if (segment) return 1;
      if (rank == 0) return has(segment.error().message, "Too many open files") ? 0 : 2;
      return segment.error().code == Errc::kPeer ? 0 : 3;
    });
    CHECK(codes == std::vector<int>(static_cast<std::size_t>(size), 0));
    CHECK(steady_clock::now() - before < std::chrono::seconds(10));
  }
}
#endif

TEST_CASE("shm: ranks poll if each has its own processor, and sleep if they share one") {
  const ProcessorSet all = own_processors();
  std::vector<std::size_t> first_two;
  for (std::size_t i = 0; i < all.size() && first_two.size() < 2; ++i) {
    if (all[i]) first_two.push_back(i);
  }
  const auto polls = [&](int size, const auto& processor_of) {
    MemoryStore store;
    std::vector<int> answers(static_cast<std::size_t>(size), -1);
    expect_no_failures(on_threads_with_options(
        size, store, [&](const CommunicatorOptions& options) -> std::vector<std::string> {
          cpu_set_t one;
          CPU_ZERO(&one);
          CPU_SET(processor_of(options.world.rank), &one);
          if (::sched_setaffinity(0, sizeof one, &one) != 0) return {"no affinity"};
          const auto segment = ShmSegment::join(options);
          if (!segment) return {segment.error().message};
          answers[static_cast<std::size_t>(options.world.rank)] = (*segment)->polls() ? 1 : 0;
          return {};
        }));
    return answers;
  };
  CHECK(polls(2, [&](int) { return first_two[0]; }) == std::vector<int>{0, 0});
  if (usable_processors() < 2) {
    MESSAGE("skipped: this process has one processor, so ranks cannot be bound to two");
    return;
  }
  CHECK(polls(2, [&](int rank) { return first_two[static_cast<std::size_t>(rank)]; }) ==
        std::vector<int>{1, 1});
  CHECK(polls(4, [&](int rank) { return first_two[static_cast<std::size_t>(rank % 2)]; }) ==
        std::vector<int>(4, 0));
}

TEST_CASE("shm: every part of the shared memory begins at a page boundary, for any page size") {
  for (const std::size_t page : {4096U, 16384U, 65536U}) {
    for (const int ranks : {1, 2, 4, 7, 128, 1000}) {
      CAPTURE(page);
      CAPTURE(ranks);
      const ShmLayout layout = ShmLayout::of(ranks, page);
      CHECK(layout.slots_begin % page == 0);
      CHECK(layout.chunk_bytes % page == 0);
      CHECK(layout.slot_bytes % page == 0);
      CHECK(layout.end % page == 0);
      CHECK(layout.slots_begin >= ShmSegment::kHeadBytes + ShmSegment::kRankCountersBytes *
                                                               static_cast<std::size_t>(ranks));
      CHECK(layout.end == layout.slots_begin + layout.slot_bytes * static_cast<std::size_t>(ranks));
    }
  }
}

}  // namespace dlrun
