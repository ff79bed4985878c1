#pragma once
// The table of keys and values that the ranks of an attempt share. Lead holds it; one thread; no
// I/O.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"

namespace dlrun::agent {

class Store {
 public:
  using Clock = std::chrono::steady_clock;

  /// The answer to a request: to which rank, which of its requests, and the value or what went
  /// wrong.
  struct Answer {
    int rank = 0;
    std::uint64_t id = 0;
    Result<std::string> value;
  };

  static constexpr std::size_t kKeyLimitBytes = 1024;
  static constexpr std::size_t kTotalLimitBytes =
      256U << 20U;  // keys and values of a table, and as much again waiting

  /// Values are text (hex on the wire) that this class does not look into. A key that exists keeps
  /// its value: putting the same again succeeds, another fails with kRefused. Answers those who
  /// waited for the key, then the one who put.
  [[nodiscard]] std::vector<Answer> put(int rank, std::uint64_t id, std::string_view key,
                                        std::string_view value);

  /// Answers at once when the key exists or wait is zero; else later, from put(), expire() or never
  /// (drop()).
  [[nodiscard]] std::vector<Answer> get(int rank, std::uint64_t id, std::string_view key,
                                        std::chrono::milliseconds wait, Clock::time_point now);

  /// Those whose time has run out fail with kTimeout, naming the key and how long they waited.
  [[nodiscard]] std::vector<Answer> expire(Clock::time_point now);
  [[nodiscard]] std::optional<Clock::time_point> next_deadline() const;

  /// The rank is gone: nobody waits there any more.
  void drop(int rank);

 private:
  struct Waiter {
    int rank;
    std::uint64_t id;
    std::string key;
    std::chrono::milliseconds wait;
  };

  std::map<std::string, std::string, std::less<>> values_;
  std::multimap<Clock::time_point, Waiter> by_deadline_;
  std::multimap<std::string, std::multimap<Clock::time_point, Waiter>::iterator, std::less<>>
      by_key_;
  std::size_t total_bytes_ = 0;

  void forget(std::multimap<Clock::time_point, Waiter>::iterator waiter);
};

}  // namespace dlrun::agent
