#pragma once
// The table of keys and values that the ranks of an attempt share. Lead owns it. Single-threaded,
// no I/O.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/result.h"

namespace dlrun::agent {

class StoreTable {
 public:
  using Clock = std::chrono::steady_clock;

  /// The answer to a request of a rank.
  struct Answer {
    int rank = 0;
    std::uint64_t id = 0;  ///< the number that the rank has given to the request
    Result<std::string> value;
  };

  static constexpr std::size_t kKeyLimitBytes = 1024;
  /// Limit for all keys and values together. The keys of waiting requests have another limit of
  /// this size.
  static constexpr std::size_t kTotalLimitBytes = 256U << 20U;

  /// Sets the value of a key. The value cannot change afterwards; putting an equal value again
  /// succeeds. Values are opaque text (hex on the wire). Returns the answers to the ranks that
  /// waited for the key, then the answer to this request: kRefused for another value and if the
  /// table is full, kInvalid for an empty or too long key.
  [[nodiscard]] std::vector<Answer> put(int rank, std::uint64_t id, std::string_view key,
                                        std::string_view value);

  /// Returns the answer immediately if the key exists, if the key is empty or too long (kInvalid),
  /// if `wait` is not positive (kNotFound), or if too many requests wait (kRefused). Otherwise
  /// put() or expire() returns the answer later, unless drop_requests_of() removes the request.
  [[nodiscard]] std::vector<Answer> get(int rank, std::uint64_t id, std::string_view key,
                                        std::chrono::milliseconds wait, Clock::time_point now);

  /// Returns kTimeout answers for the requests whose waiting time has expired. The message contains
  /// the key and the waiting time.
  [[nodiscard]] std::vector<Answer> expire(Clock::time_point now);
  /// Returns the time at which expire() is to be called next; nullopt if no request waits.
  [[nodiscard]] std::optional<Clock::time_point> next_deadline() const;

  /// Removes the waiting requests of a rank that is gone.
  void drop_requests_of(int rank);

 private:
  struct Waiter {
    int rank;
    std::uint64_t id;
    std::string key;
    std::chrono::milliseconds wait;
    Clock::time_point deadline;
  };

  using Number = std::uint64_t;  ///< the number of a waiter, in the order of the requests

  [[nodiscard]] Answer answer_waiter(Number number, Result<std::string> value);
  void forget(Number number);

  std::map<std::string, std::string, std::less<>> values_;
  std::map<Number, Waiter> waiters_;
  // Indexes of the waiters. All ranks may wait for one key, and all of them may leave together, so
  // no operation may go through all waiters.
  std::set<std::pair<Clock::time_point, Number>> by_deadline_;
  std::map<std::string, std::set<Number>, std::less<>> by_key_;
  std::unordered_map<int, std::set<Number>> by_rank_;
  Number next_ = 0;
  std::size_t total_bytes_ = 0;
};

}  // namespace dlrun::agent
