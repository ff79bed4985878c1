// Tests the behaviour that only the shm backend has; node_backends_test.cc tests the behaviour that
// shm and gloo have in common.

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "common/files.h"
#include "common/memory_page.h"
#include "runtime/bootstrap/file_store.h"
#include "runtime/bootstrap/memory_store.h"
#include "runtime/comm/make_communicator.h"
#include "runtime/comm/slot_writer.h"
#include "tests/ranks/collective_checks.h"
#include "tests/ranks/run_ranks.h"
#include "tests/temporary_directory.h"

namespace dlrun {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

std::vector<std::string> on_shm_threads(
    int size, const std::function<std::vector<std::string>(Communicator&)>& body,
    const std::function<void(CommunicatorOptions&)>& change = {}) {
  return on_threads("shm", size, body, change);
}

}  // namespace

TEST_CASE(
    "shm: auto selects shm if all ranks are on one node and have a store, even under an MPI "
    "launcher") {
  for (const bool has_launcher : {false, true}) {
    expect_no_failures(on_threads(
        "auto", 2,
        [](Communicator& comm) -> std::vector<std::string> {
          if (comm.name() != "shm") return {fmt::format("auto chose {}", comm.name())};
          return check_collectives(comm);
        },
        [&](CommunicatorOptions& options) { options.is_under_mpi_launcher = has_launcher; }));
  }
}

TEST_CASE("shm: different calls of ranks are an error even if calls are not compared beforehand") {
  const auto body = [](Communicator& comm) -> std::vector<std::string> {
    std::vector<float> values(100'000, 1.0F);
    const bool deviates = comm.rank() == 2;
    // The values fill more than one chunk; the deviating rank passes only ten values.
    const auto reduced =
        comm.all_reduce(std::span(values).first(deviates ? 10 : 100'000), ReduceOp::kSum);
    if (reduced) return {"ranks with different counts reduced together"};
    const std::string& message = reduced.error().message;
    if (reduced.error().code != Errc::kPeer) return {"not kPeer: " + message};
    const bool is_expected = has(message, deviates ? "ranks 0, 1, 3 call another operation"
                                                   : "rank 2 calls another operation") ||
                             // The rank that noticed first has left.
                             has(message, "has stopped after an error on that rank");
    return is_expected ? std::vector<std::string>{} : std::vector<std::string>{message};
  };
  const auto before = steady_clock::now();
  expect_no_failures(
      on_shm_threads(4, body, [](CommunicatorOptions& options) { options.calls_to_check = 0; }));
  CHECK(steady_clock::now() - before < std::chrono::seconds(20));
}

TEST_CASE(
    "shm: a sum has the same bytes on every rank, and is close to the sum computed in double") {
  constexpr std::size_t kCount = 300'001;
  for (const int size : {2, 4, 7}) {
    CAPTURE(size);
    const auto drawn = [](int rank) {
      std::mt19937 generator(static_cast<unsigned>(rank));
      std::uniform_real_distribution<float> draw(-1, 1);
      std::vector<float> values(kCount);
      for (float& value : values) value = draw(generator);
      return values;
    };
    std::vector<double> expected(kCount);
    for (int rank = 0; rank < size; ++rank) {
      const auto values = drawn(rank);
      for (std::size_t i = 0; i < kCount; ++i) expected[i] += static_cast<double>(values[i]);
    }
    std::vector<float> reference;
    std::mutex mutex;
    expect_no_failures(on_shm_threads(size, [&](Communicator& comm) -> std::vector<std::string> {
      auto values = drawn(comm.rank());
      if (auto reduced = comm.all_reduce(std::span(values), ReduceOp::kSum); !reduced)
        return {reduced.error().message};
      const std::lock_guard lock(mutex);
      if (reference.empty()) reference = values;
      if (std::memcmp(reference.data(), values.data(), kCount * sizeof(float)) != 0)
        return {"ranks hold different bytes"};
      for (std::size_t i = 0; i < kCount; ++i) {
        // Each of the `size` additions of numbers below `size` rounds by at most size / 2^24.
        if (std::abs(static_cast<double>(values[i]) - expected[i]) > size * size * 6e-8)
          return {"element " + std::to_string(i) + " is wrong"};
      }
      return {};
    }));
  }
}

TEST_CASE("shm: a running rank that does not join a call within the timeout is named") {
  const auto before = steady_clock::now();
  std::atomic<int> waiting_count{2};
  expect_no_failures(on_shm_threads(
      3,
      [&](Communicator& comm) -> std::vector<std::string> {
        if (comm.rank() == 1) {
          while (waiting_count > 0 && steady_clock::now() - before < std::chrono::seconds(20))
            std::this_thread::sleep_for(milliseconds(5));
          return {};
        }
        const auto met = comm.barrier();
        --waiting_count;
        if (met) return {"a barrier without rank 1 succeeded"};
        const std::string& message = met.error().message;
        const bool is_named = met.error().code == Errc::kTimeout &&
                              has(message, "rank 1 did not join the call within");
        // The other rank may have given up first.
        return is_named || has(message, "has stopped after an error on that rank")
                   ? std::vector<std::string>{}
                   : std::vector<std::string>{message};
      },
      [](CommunicatorOptions& options) {
        options.timeout = milliseconds(1000);
        options.calls_to_check = 0;
      }));
  CHECK(steady_clock::now() - before < std::chrono::seconds(10));
}

TEST_CASE("shm: ranks that are not all on one node are refused with a remedy") {
  MemoryStore store;
  auto options = options_of(0, 4, store);
  options.world.local_size = 2;
  options.world.nnodes = 2;
  const auto spread = make_communicator("shm", options);
  REQUIRE_FALSE(spread);
  CHECK(spread.error().code == Errc::kInvalid);
  CHECK(has(spread.error().message, "4 ranks are on 2 nodes; use mpi, gloo or nccl"));
  options.world.nnodes = 1;  // a launcher that does not know the number of nodes
  const auto partial = make_communicator("shm", options);
  REQUIRE_FALSE(partial);
  CHECK(has(partial.error().message, "only 2 of this world's 4 ranks are on this node; use mpi"));
}

TEST_CASE("shm: a rank that waits for a late rank leaves the processor to others") {
  constexpr auto kLate = milliseconds(600);
  expect_no_failures(on_shm_threads(2, [&](Communicator& comm) -> std::vector<std::string> {
    if (auto met = comm.barrier(); !met) return {met.error().message};
    if (comm.rank() == 0) std::this_thread::sleep_for(kLate);
    const auto cpu_time = [] {
      timespec time{};
      ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
      return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
    };
    const auto before = cpu_time();
    if (auto met = comm.barrier(); !met) return {met.error().message};
    if (comm.rank() == 1 && cpu_time() - before > kLate / 10)
      return {"rank 1 used the processor while it waited"};
    return {};
  }));
}

TEST_CASE("shm: shared memory is zeroed, the same for all ranks, and outlives the communicator") {
  constexpr std::size_t kWords = 70'001;
  for (const int size : {1, 2, 4, 7}) {
    CAPTURE(size);
    expect_no_failures(on_shm_threads(size, [&](Communicator& comm) -> std::vector<std::string> {
      const auto ranks = static_cast<std::size_t>(comm.size());
      const auto rank = static_cast<std::size_t>(comm.rank());
      for (const std::size_t bytes : {std::size_t{1}, kWords * sizeof(std::uint32_t) * ranks}) {
        const auto memory = comm.allocate_shared(bytes);
        if (!memory) return {memory.error().message};
        if (*memory == nullptr) return {"nothing is shared"};
        if (reinterpret_cast<std::uintptr_t>(memory->get()) % page_bytes() != 0)
          return {"not aligned"};
        if (bytes == 1) continue;
        auto* const words = reinterpret_cast<std::uint32_t*>(memory->get());
        for (std::size_t i = 0; i < kWords; ++i) {
          if (words[rank * kWords + i] != 0) return {"not zeroed"};
          words[rank * kWords + i] = static_cast<std::uint32_t>(rank * kWords + i);
        }
        if (auto met = comm.barrier(); !met) return {met.error().message};
        for (std::size_t i = 0; i < kWords * ranks; ++i) {
          if (words[i] != i) return {"word " + std::to_string(i) + " is not what its rank wrote"};
        }
        if (auto met = comm.barrier(); !met) return {met.error().message};
      }
      return {};
    }));
  }
  std::shared_ptr<std::byte> kept;
  expect_no_failures(on_shm_threads(2, [&](Communicator& comm) -> std::vector<std::string> {
    const auto memory = comm.allocate_shared(8);
    if (!memory) return {memory.error().message};
    if (comm.rank() == 0) kept = *memory;
    return {};
  }));
  kept.get()[7] = std::byte{1};
  CHECK(kept.get()[7] == std::byte{1});
}

TEST_CASE(
    "shm: if one rank cannot allocate, no rank gets shared memory, and later allocations still "
    "work") {
  const TemporaryDirectory folder;
  const auto codes = in_processes(3, folder.path(), [](int rank, Store& store) {
    const auto comm = make_communicator("shm", options_of(rank, 3, store));
    if (!comm) return 1;
    ::signal(SIGXFSZ, SIG_IGN);
    // The limit makes only those calls fail that make the file longer. The last rank's part is at
    // the end of the file, so its allocation always makes the file longer.
    const rlimit little{4096, RLIM_INFINITY};
    const rlimit enough{RLIM_INFINITY, RLIM_INFINITY};
    if (rank == 2) ::setrlimit(RLIMIT_FSIZE, &little);
    const auto memory = (*comm)->allocate_shared(std::size_t{1} << 20U);
    if (!memory || *memory != nullptr) return 2;
    if (rank == 2) ::setrlimit(RLIMIT_FSIZE, &enough);
    const auto later = (*comm)->allocate_shared(std::size_t{1} << 20U);
    if (!later || *later == nullptr) return 3;
    later->get()[rank] = std::byte{7};
    if (!(*comm)->barrier()) return 4;
    return later->get()[(rank + 1) % 3] == std::byte{7} ? 0 : 5;
  });
  for (const int code : codes) CHECK(code == 0);
}

TEST_CASE(
    "shm: if rank 0 gets no shared memory at the start, every rank soon gets an error with the "
    "needed size") {
  const TemporaryDirectory folder;
  const auto before = steady_clock::now();
  const auto codes = in_processes(2, folder.path(), [](int rank, Store& store) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit little{4096, 4096};  // also limits the size of memfd files
    if (rank == 0) ::setrlimit(RLIMIT_FSIZE, &little);
    const auto comm = make_communicator("shm", options_of(rank, 2, store));
    if (comm) return 1;
    if (!has(comm.error().message, "KiB of shared memory: File too large")) return 2;
    return comm.error().code == (rank == 0 ? Errc::kIo : Errc::kPeer) ? 0 : 3;
  });
  CHECK(codes == std::vector<int>{0, 0});
  CHECK(steady_clock::now() - before < std::chrono::seconds(10));
}

TEST_CASE(
    "shm: if a rank is killed, the errors of the others name it long before the timeout, and no "
    "shared memory is left") {
  constexpr int kSize = 4;
  constexpr int kVictim = 2;
  const TemporaryDirectory folder;
  const auto before = steady_clock::now();
  const auto codes = in_processes(kSize, folder.path(), [&](int rank, Store& store) {
    auto comm = make_communicator("shm", options_of(rank, kSize, store));
    if (!comm || !(*comm)->barrier()) return 11;
    if (rank == kVictim) ::kill(::getpid(), SIGKILL);
    std::vector<float> values(100'000, 1.0F);
    Result<> result;
    for (int step = 0; step < 1000 && result; ++step)
      result = (*comm)->all_reduce(std::span(values), ReduceOp::kMax);
    if (result) return 12;
    if (result.error().code != Errc::kPeer) return 13;
    return has(result.error().message, "rank 2 is gone") ? 0 : 14;
  });
  CHECK(codes == std::vector<int>{0, 0, -1, 0});
  CHECK(steady_clock::now() - before < std::chrono::seconds(10));
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    CHECK_FALSE(has(entry.path().filename().string(), "dlrun"));
  }
}

TEST_CASE("shm: bytes are copied correctly into shared memory at any alignment, streamed or not") {
  constexpr std::size_t kSpare = 256;
  std::mt19937 random(1);
  // In a small collective the writer uses streaming stores for all writes of at least 8 KiB. In a
  // large collective it begins with plain stores, and uses streaming stores only after slow writes.
  for (const std::size_t collective_bytes : {std::size_t{1} << 10U, std::size_t{1} << 20U}) {
    SlotWriter writer;
    writer.begin_collective(collective_bytes);
    for (const std::size_t bytes :
         {0, 1, 63, 64, 8191, 8192, 8193, 16'384, 32'767, 32'768, 40'003, 200'000}) {
      for (int i = 0; i < 20; ++i) {
        std::vector<char> from(bytes + kSpare);
        for (char& byte : from) byte = static_cast<char>(random());
        std::vector<char> to(bytes + kSpare, 'x');
        const std::size_t from_offset = random() % kSpare;
        const std::size_t to_offset = random() % kSpare;
        writer.write(to.data() + to_offset, from.data() + from_offset, bytes);
        std::vector<char> expected(bytes + kSpare, 'x');
        std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(from_offset), bytes,
                    expected.begin() + static_cast<std::ptrdiff_t>(to_offset));
        REQUIRE(to == expected);
      }
    }
  }
}

}  // namespace dlrun
