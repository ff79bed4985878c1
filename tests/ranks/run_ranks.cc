#include "tests/ranks/run_ranks.h"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <mutex>
#include <thread>

#include <doctest/doctest.h>

#include "runtime/bootstrap/file_store.h"
#include "runtime/bootstrap/memory_store.h"

namespace dlrun {

CommunicatorOptions options_of(int rank, int size, Store& store) {
  CommunicatorOptions options;
  options.world = {.rank = rank, .size = size, .local_rank = rank, .local_size = size};
  options.store = &store;
  options.timeout = std::chrono::seconds(30);
  options.calls_to_check = 100;
  return options;
}

std::vector<std::string> on_threads(
    std::string_view backend, int size,
    const std::function<std::vector<std::string>(Communicator&)>& body,
    const std::function<void(CommunicatorOptions&)>& change) {
  MemoryStore store;
  std::mutex mutex;
  std::vector<std::string> failures;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.emplace_back([&, rank] {
      auto options = options_of(rank, size, store);
      if (change) change(options);
      auto comm = make_communicator(backend, options);
      const auto found = comm ? body(**comm) : std::vector<std::string>{comm.error().message};
      const std::lock_guard lock(mutex);
      failures.insert(failures.end(), found.begin(), found.end());
    });
  }
  for (std::thread& rank : ranks) rank.join();
  return failures;
}

std::vector<int> in_processes(int size, const std::filesystem::path& folder,
                              const std::function<int(int rank, Store& store)>& body) {
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child > 0) {
      children.push_back(child);
      continue;
    }
    auto store = FileStore::open(folder / "store");
    ::_exit(store ? body(rank, **store) : 99);  // a child must neither return nor run doctest
  }
  std::vector<int> codes;
  for (const pid_t child : children) {
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  }
  return codes;
}

void expect_no_failures(const std::vector<std::string>& failures) {
  for (const std::string& failure : failures) FAIL_CHECK(failure);
}

}  // namespace dlrun
