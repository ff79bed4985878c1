#include "launcher/runs/origin.h"

#include "common/files.h"
#include "launcher/runs/json_read.h"
#include "launcher/runs/run_directory.h"

namespace dlrun {

std::optional<Origin> read_origin(const std::filesystem::path& run) {
  constexpr std::size_t kLimit = 64U << 10U;
  const auto text = read_file(run / "origin", kLimit);
  const auto json = text ? json_read::object_of(*text) : std::nullopt;
  if (!json) return std::nullopt;
  return Origin{json_read::text(*json, "name"), json_read::text(*json, "log")};
}

std::string name_of_run(const std::filesystem::path& run) {
  if (const auto origin = read_origin(run); origin && !origin->name.empty()) return origin->name;
  return name_of_id(run.filename().string());
}

}  // namespace dlrun
