#pragma once
// A store for ranks that are threads of one process, and for a world of one rank.

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

#include "runtime/bootstrap/store.h"

namespace dlrun {

/// All ranks share one object of this class.
class MemoryStore final : public Store {
 public:
  [[nodiscard]] Result<> put(std::string_view key, std::string_view value) override;
  [[nodiscard]] Result<std::string> get(std::string_view key,
                                        std::chrono::milliseconds wait) override;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace dlrun
