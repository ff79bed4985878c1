#include "runtime/agent/rank_table.h"

#include <algorithm>
#include <map>

namespace dlrun::agent {
namespace {

using Json = nlohmann::ordered_json;

std::size_t integer(const Json& json, std::size_t fallback) {
  return json.is_number_unsigned() ? json.get<std::size_t>() : fallback;
}

}  // namespace

std::vector<std::string> table_pages(const std::vector<Endpoint>& table) {
  std::vector<std::string> pages;
  for (std::size_t from = 0; from < table.size(); from += kTablePageRanks) {
    Json ips = Json::array();
    Json ranks = Json::array();
    std::map<std::string_view, std::size_t> index_of;  // ranks of a node share its address
    for (std::size_t rank = from; rank < std::min(table.size(), from + kTablePageRanks); ++rank) {
      const auto [found, is_new] = index_of.emplace(table[rank].ip, ips.size());
      if (is_new) ips.push_back(table[rank].ip);
      ranks.push_back({found->second, table[rank].port});
    }
    const Json page{
        {"type", "table"}, {"from", from}, {"size", table.size()}, {"ips", ips}, {"ranks", ranks}};
    pages.push_back(page.dump());
  }
  return pages;
}

Result<> TableReader::add(const Json& page) {
  const auto wrong = [](std::string_view what) {
    return fail(Errc::kInvalid, "lead's table of ranks cannot be read: {}", what);
  };
  for (const auto* key : {"from", "size", "ips", "ranks"}) {
    if (!page.contains(key)) return wrong(fmt::format("'{}' is missing", key));
  }
  const auto& ips = page["ips"];
  const auto& ranks = page["ranks"];
  if (!ips.is_array() || !ranks.is_array() || ranks.empty())
    return wrong("'ips' or 'ranks' is not a list, or 'ranks' is empty");
  if (integer(page["from"], size_) != table_.size() || integer(page["size"], 0) != size_ ||
      ranks.size() > size_ - table_.size()) {
    return wrong(
        fmt::format("the page begins with rank {} of {} and has {} addresses; expected the page "
                    "that begins with rank {} of {}",
                    page["from"].dump(), page["size"].dump(), ranks.size(), table_.size(), size_));
  }
  std::vector<Endpoint> found;
  for (const auto& rank : ranks) {
    if (!rank.is_array() || rank.size() != 2) return wrong("a rank is not a pair");
    const auto ip = integer(rank[0], ips.size());
    const auto port = integer(rank[1], 65536);
    if (ip >= ips.size() || !ips[ip].is_string() || port > 65535)
      return wrong("a rank has no address or no port");
    found.push_back({ips[ip].get<std::string>(), static_cast<std::uint16_t>(port)});
  }
  table_.insert(table_.end(), found.begin(), found.end());
  return {};
}

}  // namespace dlrun::agent
