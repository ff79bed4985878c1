#include "launcher/cleanup/disk_usage.h"

#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "common/files.h"
#include "common/json_or_null.h"
#include "common/units.h"
#include "launcher/runs/ownership.h"

namespace dlrun {

std::vector<MeasuredRun> measure_runs(const std::vector<IndexEntry>& runs) {
  std::vector<MeasuredRun> measured;
  for (const IndexEntry& run : runs) {
    const UniqueFd directory(
        ::open(run.path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (directory.is_open()) measured.push_back({run, measure_tree(directory.get())});
  }
  std::stable_sort(measured.begin(), measured.end(),
                   [](const auto& a, const auto& b) { return a.size.bytes > b.size.bytes; });
  return measured;
}

Result<std::vector<IndexEntry>> all_own_runs(const Env& env) {
  DLRUN_TRY_ASSIGN(const auto index, RunIndex::of_user(env));
  DLRUN_TRY_ASSIGN(auto listing, index.list());
  std::erase_if(listing.entries,
                [](const IndexEntry& run) { return foreign_owner_of_path(run.path).has_value(); });
  return std::move(listing.entries);
}

std::string checkpoints_text(const TreeSize& size) {
  return size.checkpoint_bytes == 0 ? "-" : bytes_text(static_cast<double>(size.checkpoint_bytes));
}

nlohmann::ordered_json disk_usage_json(const MeasuredRun& measured) {
  nlohmann::ordered_json json;
  json["run"] = measured.run.id;
  json["name"] = measured.run.name;
  json["path"] = measured.run.path.string();
  json["created"] = text_or_null(measured.run.created);
  json["bytes"] = measured.size.bytes;
  json["checkpoint_bytes"] = measured.size.checkpoint_bytes;
  json["files"] = measured.size.files;
  json["unread"] = measured.size.unread;
  return json;
}

}  // namespace dlrun
