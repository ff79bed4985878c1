#pragma once
// Where every rank of an attempt can be reached: lead's answer to a rank whose variables need more
// than rank 0. It goes over the wire in pages, so that ten thousand ranks that ask at once hold
// little of lead's memory each.

#include <cstddef>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/result.h"
#include "runtime/agent/address.h"

namespace dlrun::agent {

inline constexpr std::size_t kTablePageRanks = 256;

/// The table as messages of type `table`, each of at most kTablePageRanks ranks: `from`, `size` (of
/// the whole table), `ips`, and `ranks` as pairs [index into ips, port]. Sealed once, they serve
/// every rank that asks.
[[nodiscard]] std::vector<std::string> table_pages(const std::vector<Endpoint>& table);

/// A rank's side: puts the table together, page after page.
class TableReader {
 public:
  /// size: how many ranks the world has.
  explicit TableReader(int size) : size_(static_cast<std::size_t>(size)) {}

  /// Fails with kInvalid when it is not a page that fits behind those before it.
  [[nodiscard]] Result<> add(const nlohmann::ordered_json& page);
  [[nodiscard]] bool is_whole() const { return table_.size() == size_; }
  /// The first rank of the next page.
  [[nodiscard]] std::size_t next() const { return table_.size(); }
  [[nodiscard]] const std::vector<Endpoint>& table() const { return table_; }

 private:
  std::size_t size_;
  std::vector<Endpoint> table_;
};

}  // namespace dlrun::agent
