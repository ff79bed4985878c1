#pragma once
// The rendezvous of an attempt's ranks: a small table of keys and values that all ranks share. Gloo
// exchanges addresses through the table, and NCCL exchanges its unique id.
//
// The value of a key cannot change: putting an equal value again succeeds, and putting another
// value fails. Keys are UTF-8 text. Every store but MemoryStore limits their length: AgentStore to
// 1,024 bytes, FileStore and PmixStore to fewer. Values may contain any bytes. Every function may
// be called from any thread.

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "common/result.h"

namespace dlrun {

inline constexpr std::size_t kStoreValueLimitBytes = 500'000;

class Store {
 public:
  virtual ~Store() = default;

  /// Sets a key. Fails with kRefused if the key has another value, with kInvalid if the key is not
  /// allowed or the value is too long, with kUnavailable, kTimeout or kIo if the table cannot be
  /// reached, and with kInternal if the agent's reply cannot be read.
  [[nodiscard]] virtual Result<> put(std::string_view key, std::string_view value) = 0;

  /// Waits until the key exists and returns its value. Fails with kTimeout after `wait`; the
  /// message contains the key. Fails with kInvalid, kUnavailable, kIo or kInternal as put() does,
  /// and with kRefused if too many requests of ranks are already waiting.
  [[nodiscard]] virtual Result<std::string> get(std::string_view key,
                                                std::chrono::milliseconds wait) = 0;

  /// Reports the program's progress for the run's record. json_object: the fields of the `progress`
  /// request in ENVIRONMENT.md. Only AgentStore has a record; for other stores this function does
  /// nothing and succeeds. Fails with kInvalid if the text is no JSON object, and with kUnavailable
  /// or kTimeout if the agent does not accept the report.
  [[nodiscard]] virtual Result<> report_progress(std::string_view json_object);

  /// Returns the IP address at which other nodes reach this rank. Returns an empty string if all
  /// ranks are on one node, or if the store does not know the address. Fails as
  /// PmixStore::own_address() does.
  [[nodiscard]] virtual Result<std::string> own_address();

 protected:
  Store() = default;
  Store(const Store&) = default;
  Store& operator=(const Store&) = default;
};

/// Opens a store. where: the value of DLRUN_STORE, either `fd:N` (the agent's store, on an
/// inherited socket) or `file:DIR` (a folder that all ranks see). Fails with kInvalid for any other
/// form and if the descriptor N is not open. Fails with the store's error if the store cannot be
/// opened.
[[nodiscard]] Result<std::unique_ptr<Store>> open_store(std::string_view where);

}  // namespace dlrun
