#include <nlohmann/json.hpp>

#include "launcher/cleanup/cleanup.h"

namespace dlrun {

nlohmann::ordered_json doomed_json(const DoomedRun& doomed) {
  nlohmann::ordered_json json;
  json["run"] = doomed.run.id;
  json["name"] = doomed.run.name;
  json["path"] = doomed.run.path.string();
  json["state"] =
      doomed.is_gone ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(word(doomed.state));
  json["bytes"] = doomed.examined.size.bytes;
  json["files"] = doomed.examined.size.files;
  return json;
}

nlohmann::ordered_json kept_json(const KeptRun& kept) {
  nlohmann::ordered_json json;
  json["run"] = kept.run.id;
  json["name"] = kept.run.name;
  json["path"] = kept.run.path.string();
  json["why"] = kept.why.message;
  return json;
}

}  // namespace dlrun
