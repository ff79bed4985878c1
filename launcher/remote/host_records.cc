#include "launcher/remote/host_records.h"

#include "launcher/runs/index.h"

namespace dlrun {

Result<std::filesystem::path> host_records_folder(const Env& env, const std::string& host) {
  DLRUN_TRY_ASSIGN(const auto index, RunIndex::of_user(env));
  return index.directory().parent_path() / "remote" / host;
}

}  // namespace dlrun
