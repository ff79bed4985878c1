#include <nlohmann/json.hpp>

#include "launcher/cleanup/cleanup.h"
#include "launcher/cleanup/cleanup_execution.h"

namespace dlrun {

nlohmann::ordered_json planned_deletion_json(const PlannedDeletion& planned) {
  nlohmann::ordered_json json;
  json["run"] = planned.run.id;
  json["name"] = planned.run.name;
  json["path"] = planned.run.path.string();
  json["state"] = planned.is_gone ? nlohmann::ordered_json(nullptr)
                                  : nlohmann::ordered_json(word(planned.state));
  json["bytes"] = planned.examined.size.bytes;
  json["files"] = planned.examined.size.files;
  return json;
}

nlohmann::ordered_json kept_json(const KeptRun& kept) {
  nlohmann::ordered_json json;
  json["run"] = kept.run.id;
  json["name"] = kept.run.name;
  json["path"] = kept.run.path.string();
  json["reason"] = kept.why.message;
  return json;
}

nlohmann::ordered_json cleanup_json(const CleanupPlan& plan, const CleanupResult& result) {
  nlohmann::ordered_json json;
  json["runs"] = result.runs;
  json["kept"] = nlohmann::ordered_json::array();
  for (const KeptRun& kept : plan.kept) json["kept"].push_back(kept_json(kept));
  json["freed_bytes"] = result.freed.bytes;
  return json;
}

}  // namespace dlrun
