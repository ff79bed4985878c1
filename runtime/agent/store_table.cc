#include "runtime/agent/store_table.h"

#include <utility>

#include "common/text.h"

namespace dlrun::agent {
namespace {

/// Fails with kInvalid if the key is empty or too long.
Result<> check_key(std::string_view key) {
  if (!key.empty() && key.size() <= StoreTable::kKeyLimitBytes) return {};
  return fail(Errc::kInvalid, "the key has {} bytes; 1 to {} are allowed", key.size(),
              StoreTable::kKeyLimitBytes);
}

}  // namespace

std::vector<StoreTable::Answer> StoreTable::put(int rank, std::uint64_t id, std::string_view key,
                                                std::string_view value) {
  if (auto checked = check_key(key); !checked)
    return {{rank, id, tl::unexpected(std::move(checked.error()))}};
  if (const auto held = values_.find(key); held != values_.end()) {
    if (held->second == value) return {{rank, id, std::string()}};
    return {{rank, id,
             fail(Errc::kRefused, "key '{}' exists already with another value", printable(key))}};
  }
  if (total_bytes_ + key.size() + value.size() > kTotalLimitBytes) {
    return {{rank, id,
             fail(Errc::kRefused, "the store is full: {} bytes are the limit", kTotalLimitBytes)}};
  }
  total_bytes_ += key.size() + value.size();
  values_.emplace(key, value);
  std::vector<Answer> answers;
  if (const auto waiting = by_key_.find(key); waiting != by_key_.end()) {
    const auto served = waiting->second;  // a copy, because answer_waiter() removes the waiters
    for (const auto number : served) answers.push_back(answer_waiter(number, std::string(value)));
  }
  answers.push_back({rank, id, std::string()});
  return answers;
}

std::vector<StoreTable::Answer> StoreTable::get(int rank, std::uint64_t id, std::string_view key,
                                                std::chrono::milliseconds wait,
                                                Clock::time_point now) {
  if (auto checked = check_key(key); !checked)
    return {{rank, id, tl::unexpected(std::move(checked.error()))}};
  if (const auto held = values_.find(key); held != values_.end()) return {{rank, id, held->second}};
  if (wait <= std::chrono::milliseconds::zero()) {
    return {{rank, id, fail(Errc::kNotFound, "key '{}' does not exist", printable(key))}};
  }
  if (waiters_.size() >= kTotalLimitBytes / kKeyLimitBytes)
    return {{rank, id,
             fail(Errc::kRefused, "too many requests wait already; {} are the limit",
                  kTotalLimitBytes / kKeyLimitBytes)}};
  const Number number = next_++;
  waiters_.emplace(number, Waiter{rank, id, std::string(key), wait, now + wait});
  by_deadline_.emplace(now + wait, number);
  by_key_[std::string(key)].insert(number);
  by_rank_[rank].insert(number);
  return {};
}

std::vector<StoreTable::Answer> StoreTable::expire(Clock::time_point now) {
  std::vector<Answer> answers;
  while (!by_deadline_.empty() && by_deadline_.begin()->first <= now) {
    const Number number = by_deadline_.begin()->second;
    const auto& waiter = waiters_.at(number);
    answers.push_back(
        answer_waiter(number, fail(Errc::kTimeout, "no rank has put key '{}' within {} ms",
                                   printable(waiter.key), waiter.wait.count())));
  }
  return answers;
}

std::optional<StoreTable::Clock::time_point> StoreTable::next_deadline() const {
  if (by_deadline_.empty()) return std::nullopt;
  return by_deadline_.begin()->first;
}

void StoreTable::drop_requests_of(int rank) {
  const auto found = by_rank_.find(rank);
  if (found == by_rank_.end()) return;
  const auto dropped = found->second;  // a copy, because forget() removes the waiters
  for (const auto number : dropped) forget(number);
}

/// Removes a waiter and returns the answer to it.
StoreTable::Answer StoreTable::answer_waiter(Number number, Result<std::string> value) {
  const auto& waiter = waiters_.at(number);
  Answer answer{waiter.rank, waiter.id, std::move(value)};
  forget(number);
  return answer;
}

void StoreTable::forget(Number number) {
  const auto found = waiters_.find(number);
  const auto& waiter = found->second;
  by_deadline_.erase({waiter.deadline, number});
  const auto of_key = by_key_.find(waiter.key);
  of_key->second.erase(number);
  if (of_key->second.empty()) by_key_.erase(of_key);
  const auto of_rank = by_rank_.find(waiter.rank);
  of_rank->second.erase(number);
  if (of_rank->second.empty()) by_rank_.erase(of_rank);
  waiters_.erase(found);
}

}  // namespace dlrun::agent
