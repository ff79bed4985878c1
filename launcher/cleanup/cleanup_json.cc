#include <nlohmann/json.hpp>

#include "launcher/cleanup/cleanup.h"

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

}  // namespace dlrun
