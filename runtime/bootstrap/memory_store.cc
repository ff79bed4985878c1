#include "runtime/bootstrap/memory_store.h"

#include "common/text.h"

namespace dlrun {

Result<> MemoryStore::put(std::string_view key, std::string_view value) {
  if (value.size() > kStoreValueLimitBytes) {
    return fail(Errc::kInvalid, "store: the value of '{}' has {} bytes, at most {} are allowed",
                printable(key), value.size(), kStoreValueLimitBytes);
  }
  {
    const std::lock_guard lock(mutex_);
    const auto [at, is_new] = values_.emplace(key, value);
    if (!is_new && at->second != value) {
      return fail(Errc::kRefused, "store: '{}' holds another value already", printable(key));
    }
  }
  changed_.notify_all();
  return {};
}

Result<std::string> MemoryStore::get(std::string_view key, std::chrono::milliseconds wait) {
  std::unique_lock lock(mutex_);
  auto at = values_.end();
  const bool is_there = changed_.wait_for(lock, wait, [&] {
    at = values_.find(key);
    return at != values_.end();
  });
  if (!is_there)
    return fail(Errc::kTimeout, "store: no rank has put '{}' within {} ms", printable(key),
                wait.count());
  return at->second;
}

}  // namespace dlrun
