#pragma once
// Reads sweep.parameters and sweep.points. Every value is checked by the row of its own key.
// Private to the loading of specs.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/spec/spec_builder.h"

namespace dlrun {

/// Returns the reason why a sweep cannot set this key; "" if a sweep can set it. A sweep can set an
/// entry of a map with arbitrary names ("environment.vars.X"), but not the whole map.
[[nodiscard]] std::string why_not_sweepable(std::string_view path);

/// Reads a sweep's keys and values. The functions report problems to builder, and then return
/// nullopt.
struct SweepReader {
  SpecBuilder& builder;
  const SpecBuilder::Layer& layer;
  const KeyRow& row;  ///< the row of sweep.parameters or sweep.points, for messages

  [[nodiscard]] std::optional<std::vector<SweptKey>> parameters(const YamlNode& node) const;
  [[nodiscard]] std::optional<std::vector<SweepPoint>> points(const YamlNode& node) const;

 private:
  void refuse(const YamlNode& at, std::string_view why) const;
  /// Reports an error and returns false if a sweep cannot set this key.
  [[nodiscard]] bool accept_key(const YamlNode& name) const;
  [[nodiscard]] std::optional<SweptValue> value(const std::string& key, const YamlNode& node) const;
  /// Reads a value of a program parameter. The value can be any text in UTF-8 without NUL.
  [[nodiscard]] std::optional<SweptValue> program_parameter_value(const std::string& key,
                                                                  const YamlNode& node) const;
  [[nodiscard]] std::optional<std::vector<SweptValue>> list(const std::string& key,
                                                            const YamlNode& node) const;
  [[nodiscard]] std::optional<SweptRange> range(const std::string& key, const YamlNode& node) const;
};

}  // namespace dlrun
