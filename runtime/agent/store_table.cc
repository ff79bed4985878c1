#include "runtime/agent/store_table.h"

#include <algorithm>

#include "common/text.h"

namespace dlrun::agent {

std::vector<StoreTable::Answer> StoreTable::put(int rank, std::uint64_t id, std::string_view key,
                                                std::string_view value) {
  if (key.empty() || key.size() > kKeyLimitBytes) {
    return {{rank, id,
             fail(Errc::kInvalid, "the key has {} bytes; 1 to {} are allowed", key.size(),
                  kKeyLimitBytes)}};
  }
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
  const auto [first, last] = by_key_.equal_range(key);
  std::vector<std::multimap<Clock::time_point, Waiter>::iterator> served;
  for (auto at = first; at != last; ++at) served.push_back(at->second);
  for (const auto waiter : served) {
    answers.push_back({waiter->second.rank, waiter->second.id, std::string(value)});
    forget(waiter);
  }
  answers.push_back({rank, id, std::string()});
  return answers;
}

std::vector<StoreTable::Answer> StoreTable::get(int rank, std::uint64_t id, std::string_view key,
                                                std::chrono::milliseconds wait,
                                                Clock::time_point now) {
  if (const auto held = values_.find(key); held != values_.end()) return {{rank, id, held->second}};
  if (wait <= std::chrono::milliseconds::zero()) {
    return {{rank, id, fail(Errc::kNotFound, "key '{}' does not exist", printable(key))}};
  }
  if (key.size() > kKeyLimitBytes || by_deadline_.size() >= kTotalLimitBytes / kKeyLimitBytes) {
    return {{rank, id, fail(Errc::kRefused, "too many requests wait, or the key is too long")}};
  }
  const auto waiter = by_deadline_.emplace(now + wait, Waiter{rank, id, std::string(key), wait});
  by_key_.emplace(key, waiter);
  return {};
}

std::vector<StoreTable::Answer> StoreTable::expire(Clock::time_point now) {
  std::vector<Answer> answers;
  while (!by_deadline_.empty() && by_deadline_.begin()->first <= now) {
    const auto waiter = by_deadline_.begin();
    const auto& [waiting_rank, id, key, wait] = waiter->second;
    answers.push_back({waiting_rank, id,
                       fail(Errc::kTimeout, "no rank has put key '{}' within {} ms", printable(key),
                            wait.count())});
    forget(waiter);
  }
  return answers;
}

std::optional<StoreTable::Clock::time_point> StoreTable::next_deadline() const {
  if (by_deadline_.empty()) return std::nullopt;
  return by_deadline_.begin()->first;
}

void StoreTable::drop(int rank) {
  for (auto waiter = by_deadline_.begin(); waiter != by_deadline_.end();) {
    const auto next = std::next(waiter);
    if (waiter->second.rank == rank) forget(waiter);
    waiter = next;
  }
}

void StoreTable::forget(std::multimap<Clock::time_point, Waiter>::iterator waiter) {
  const auto [first, last] = by_key_.equal_range(waiter->second.key);
  by_key_.erase(
      std::find_if(first, last, [&](const auto& entry) { return entry.second == waiter; }));
  by_deadline_.erase(waiter);
}

}  // namespace dlrun::agent
