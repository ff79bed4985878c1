#include "launcher/runs/run_name.h"

#include "common/files.h"
#include "common/json_read.h"
#include "common/untrusted_file.h"
#include "launcher/runs/run_directory.h"

namespace dlrun {

std::string name_of_run(const std::filesystem::path& run) {
  constexpr std::size_t kMaxBytes = 64U << 10U;
  const auto text = read_untrusted(run / "origin", kMaxBytes, Links::kRefuse);
  const auto json = text ? json_read::object_of(*text) : std::nullopt;
  auto name = json ? json_read::text(*json, "name") : std::string();
  return name.empty() ? name_of_id(run.filename().string()) : name;
}

}  // namespace dlrun
