#pragma once
// The rendezvous of an attempt's ranks: a small table of keys and values that all of them share.
// Addresses of Gloo and the unique id of NCCL travel through it.
//
// A key is written once: putting the same value again succeeds, another value is refused. Keys and
// values may hold any bytes; a value has at most kStoreValueLimit of them. Every function may be
// called from any thread.

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "common/result.h"

namespace dlrun {

inline constexpr std::size_t kStoreValueLimit = 500'000;

class Store {
 public:
  virtual ~Store() = default;

  /// Fails with kRefused when key holds another value, kInvalid when value is too long,
  /// kUnavailable or kIo when the table cannot be reached.
  [[nodiscard]] virtual Result<> put(std::string_view key, std::string_view value) = 0;

  /// Waits until key is there. Fails with kTimeout, naming the key, when it is not within wait.
  [[nodiscard]] virtual Result<std::string> get(std::string_view key,
                                                std::chrono::milliseconds wait) = 0;

  /// Tells the run's record how far the program is: the fields of ENVIRONMENT.md's `progress`
  /// request as one JSON object. Succeeds and does nothing where nobody keeps a record.
  [[nodiscard]] virtual Result<> report_progress(std::string_view json_object);

  /// This rank's IP as ranks on other nodes reach it; empty where all are on one node, or the store
  /// does not know.
  [[nodiscard]] virtual Result<std::string> own_address();

 protected:
  Store() = default;
  Store(const Store&) = default;
  Store& operator=(const Store&) = default;
};

/// The store that DLRUN_STORE names: `fd:N` (the agent, on an inherited socket) or `file:DIR` (a
/// folder that all ranks see). Fails with kInvalid on any other form, and with the store's own
/// error when it cannot be opened.
[[nodiscard]] Result<std::unique_ptr<Store>> open_store(std::string_view where);

}  // namespace dlrun
