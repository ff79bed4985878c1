#pragma once
// The addresses of all ranks of an attempt. Lead sends them to ranks whose variables or arguments
// need more than rank 0's address. Lead sends the table in pages, so that it needs little memory
// for each of ten thousand ranks that ask at the same time.

#include <cstddef>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/result.h"
#include "runtime/agent/address.h"

namespace dlrun::agent {

inline constexpr std::size_t kTablePageRanks = 256;

/// Returns the table as serialized messages of type `table`, each with at most kTablePageRanks
/// ranks: `from`, `size` (of the whole table), `ips`, and `ranks` as pairs [index into ips, port].
/// The messages are the same for every rank that asks.
[[nodiscard]] std::vector<std::string> table_pages(const std::vector<Endpoint>& table);

/// A rank's side: assembles the table from its pages.
class TableReader {
 public:
  /// size: number of ranks in the world.
  explicit TableReader(int size) : size_(static_cast<std::size_t>(size)) {}

  /// Adds a page. Fails with kInvalid if it is malformed or does not follow the pages before it.
  [[nodiscard]] Result<> add(const nlohmann::ordered_json& page);
  [[nodiscard]] bool is_whole() const { return table_.size() == size_; }
  /// Returns the first rank of the next page.
  [[nodiscard]] std::size_t next_rank() const { return table_.size(); }
  [[nodiscard]] const std::vector<Endpoint>& table() const { return table_; }

 private:
  std::size_t size_;
  std::vector<Endpoint> table_;
};

}  // namespace dlrun::agent
