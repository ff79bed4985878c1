// Tests the cache of Slurm's answers about jobs. All dlrun processes of a user share one cache.

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "launcher/executors/queue_cache.h"
#include "tests/temporary_directory.h"

using namespace dlrun;
using namespace std::chrono_literals;

namespace {

const auto kAnyAnswerSuffices = [](const std::string&) { return true; };

/// Answers the queries that the cache really sends, and counts them.
struct CountingSlurm {
  std::atomic<int> query_count = 0;
  QueueCache::Ask answering(const std::string& answer) {
    return [this, answer]() -> Result<std::string> {
      ++query_count;
      return answer;
    };
  }
};

}  // namespace

TEST_CASE("a recent answer is reused for the next caller, and an old one is not") {
  const TemporaryDirectory folder;
  QueueCache cache(folder.path());
  CountingSlurm slurm;
  CHECK(*cache.get("q", 1h, kAnyAnswerSuffices, slurm.answering("1|RUNNING\n2|PENDING")) ==
        "1|RUNNING\n2|PENDING");
  CHECK(*QueueCache(folder.path()).get("q", 1h, kAnyAnswerSuffices, slurm.answering("other")) ==
        "1|RUNNING\n2|PENDING");
  CHECK(slurm.query_count == 1);
  CHECK(*cache.get("q", -1ms, kAnyAnswerSuffices, slurm.answering("other")) == "other");
  CHECK(slurm.query_count == 2);
}

TEST_CASE("a cached answer that lacks the caller's job is not used") {
  const TemporaryDirectory folder;
  QueueCache cache(folder.path());
  CountingSlurm slurm;
  CHECK(*cache.get("q", 1h, kAnyAnswerSuffices, slurm.answering("1")) == "1");
  const auto has_two = [](const std::string& text) { return text.find('2') != std::string::npos; };
  CHECK(*cache.get("q", 1h, has_two, slurm.answering("1 2")) == "1 2");
  CHECK(*cache.get("q", 1h, has_two, slurm.answering("")) == "1 2");
  CHECK(slurm.query_count == 2);
}

TEST_CASE("the answers of different clusters are cached separately") {
  const TemporaryDirectory folder;
  QueueCache cache(folder.path());
  CountingSlurm slurm;
  CHECK(*cache.get("one", 1h, kAnyAnswerSuffices, slurm.answering("1")) == "1");
  CHECK(*cache.get("two", 1h, kAnyAnswerSuffices, slurm.answering("2")) == "2");
}

TEST_CASE("a hundred callers at the same time send one query") {
  const TemporaryDirectory folder;
  CountingSlurm slurm;
  std::vector<std::thread> callers;
  std::atomic<int> right_answer_count = 0;
  for (int i = 0; i < 100; ++i) {
    callers.emplace_back([&] {
      if (*QueueCache(folder.path())
               .get("q", 1h, kAnyAnswerSuffices, slurm.answering("1|RUNNING")) == "1|RUNNING")
        ++right_answer_count;
    });
  }
  for (auto& caller : callers) caller.join();
  CHECK(right_answer_count == 100);
  CHECK(slurm.query_count == 1);
}

TEST_CASE("the error of an unreachable controller is cached, and other errors are not") {
  const TemporaryDirectory folder;
  QueueCache cache(folder.path());
  CountingSlurm slurm;
  const auto away = []() -> Result<std::string> { return fail(Errc::kUnavailable, "away"); };
  const auto broken = []() -> Result<std::string> { return fail(Errc::kIo, "broken"); };
  CHECK(cache.get("q", 1h, kAnyAnswerSuffices, broken).error().code == Errc::kIo);
  CHECK(cache.get("q", 1h, kAnyAnswerSuffices, away).error().code == Errc::kUnavailable);
  CHECK(cache.get("q", 1h, kAnyAnswerSuffices, slurm.answering("1")).error().message == "away");
  CHECK(slurm.query_count == 0);
  CHECK(*cache.get("q", -1ms, kAnyAnswerSuffices, slurm.answering("1")) == "1");
}

TEST_CASE("an incomplete cache file is ignored") {
  const TemporaryDirectory folder;
  QueueCache cache(folder.path());
  CountingSlurm slurm;
  CHECK(*cache.get("q", 1h, kAnyAnswerSuffices, slurm.answering("1|RUNNING")) == "1|RUNNING");
  for (const auto& file : std::filesystem::directory_iterator(folder.path()))
    std::filesystem::resize_file(file.path(), std::filesystem::file_size(file.path()) - 1);
  CHECK(*cache.get("q", 1h, kAnyAnswerSuffices, slurm.answering("2|RUNNING")) == "2|RUNNING");
}

TEST_CASE("a cache folder that others can enter, or that is a link, is not used") {
  const TemporaryDirectory folder;
  Env env;
  env.set("XDG_RUNTIME_DIR", folder.path().string());
  CHECK(QueueCache::of_user(env).has_value());
  const auto cache_folder = folder.path() / "dlrun";
  CHECK(::chmod(cache_folder.c_str(), 0755) == 0);
  CHECK_FALSE(QueueCache::of_user(env).has_value());
  std::filesystem::remove(cache_folder);
  std::filesystem::create_directory_symlink("/tmp", cache_folder);
  CHECK_FALSE(QueueCache::of_user(env).has_value());
}
