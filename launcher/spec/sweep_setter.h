#pragma once
// sweep.parameters and sweep.points out of a document: every value goes through the row of its own
// key. Private to the loading of specs.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/spec/spec_builder.h"

namespace dlrun {

/// Why a sweep cannot set this key; empty where it can. An entry of a free map
/// ("environment.vars.X") is a key, the map as a whole is not.
[[nodiscard]] std::string why_not_swept(std::string_view path);

/// What is wrong goes to builder; then there is no result.
struct SweepSetter {
  SpecBuilder& builder;
  const SpecBuilder::Layer& layer;
  const KeyRow& row;  ///< sweep's own, for messages

  [[nodiscard]] std::optional<std::vector<SweptKey>> parameters(const YamlNode& node) const;
  [[nodiscard]] std::optional<std::vector<SweepPoint>> points(const YamlNode& node) const;

 private:
  void refuse(const YamlNode& at, std::string_view why) const;
  [[nodiscard]] bool is_swept_key(const YamlNode& name) const;
  [[nodiscard]] std::optional<SweptValue> value(const std::string& key, const YamlNode& node) const;
  [[nodiscard]] std::optional<std::vector<SweptValue>> list(const std::string& key,
                                                            const YamlNode& node) const;
  [[nodiscard]] std::optional<SweptRange> range(const std::string& key, const YamlNode& node) const;
};

}  // namespace dlrun
