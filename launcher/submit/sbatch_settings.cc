#include "launcher/submit/sbatch_settings.h"

#include <cstddef>
#include <optional>

#include "common/files.h"
#include "common/json_read.h"
#include "common/text.h"
#include "common/untrusted_file.h"

namespace dlrun {
namespace {

constexpr const char* kSettingsFile = "submit.json";

}  // namespace

Result<> write_sbatch_settings(const std::filesystem::path& run, const SbatchSettings& settings) {
  nlohmann::ordered_json json;
  if (settings.server)
    json["server"] = {{"url", settings.server->url}, {"token_file", settings.server->token_file}};
  json["directory"] = settings.submit_directory.string();
  const auto add = [&](const char* key, const std::optional<std::string>& value) {
    if (value) json[key] = *value;
  };
  add("clusters", settings.clusters);
  add("output", settings.log_pattern);
  add("error", settings.error_pattern);
  add("comment", settings.comment);
  add("chdir", settings.chdir);
  add("dependency", settings.dependency);
  if (settings.is_cancelled_on_invalid_dependency) json["kill_on_invalid_dependency"] = true;
  add("exclude", settings.exclude);
  add("job_name", settings.job_name);
  return write_file_atomic(run / kSettingsFile, json_read::dump(json) + "\n");
}

Result<SbatchSettings> read_sbatch_settings(const std::filesystem::path& run) {
  constexpr std::size_t kLimit = 1U << 20U;
  const auto path = run / kSettingsFile;
  const auto text = read_untrusted(path, kLimit, Links::kRefuse);
  if (!text) return tl::unexpected(text.error());
  const auto json = json_read::object_of(*text);
  if (!json)
    return fail(Errc::kInvalid, "{}: is damaged: expected a JSON object", printable(path.string()));
  SbatchSettings settings;
  if (const auto server = json->find("server"); server != json->end() && server->is_object())
    settings.server =
        RestServer{json_read::text(*server, "url"), json_read::text(*server, "token_file")};
  settings.submit_directory = json_read::text(*json, "directory");
  const auto get = [&](const char* key) {
    return json->contains(key) ? std::optional(json_read::text(*json, key)) : std::nullopt;
  };
  settings.clusters = get("clusters");
  settings.log_pattern = get("output");
  settings.error_pattern = get("error");
  settings.comment = get("comment");
  settings.chdir = get("chdir");
  settings.dependency = get("dependency");
  settings.is_cancelled_on_invalid_dependency =
      json_read::boolean(*json, "kill_on_invalid_dependency");
  settings.exclude = get("exclude");
  settings.job_name = get("job_name");
  return settings;
}

}  // namespace dlrun
