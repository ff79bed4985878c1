#pragma once
// Reads the list `components`. A component's `nodes` is checked like `resources.nodes` of the spec:
// by the row of that key in the key table. Private to the loading of specs.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/spec/spec_builder.h"

namespace dlrun {

/// A key of a component that stands for a key or a section of the spec.
struct ComponentKey {
  std::string_view name;  ///< "nodes"
  std::string_view path;  ///< "resources.nodes"
};

/// Returns the keys that a component and the spec both have.
[[nodiscard]] std::span<const ComponentKey> spec_keys_of_components();

/// Returns the path that a key of the spec has within a component, as the names of the nested maps:
/// "launch.srun.mpi" -> launch, srun, mpi; "resources.nodes" -> nodes. Returns {path} for a key
/// that components do not have.
[[nodiscard]] std::vector<std::string_view> path_in_component(std::string_view path);

/// Reads the components. The functions report problems to builder.
struct ComponentReader {
  SpecBuilder& builder;
  const SpecBuilder::Layer& layer;
  const KeyRow& row;  ///< the row of components, for messages

  /// Returns nullopt if the list or one of its components is refused.
  [[nodiscard]] std::optional<std::vector<ComponentSpec>> read_components(
      const YamlNode& node) const;

 private:
  /// A component that is being read.
  struct Reading {
    ComponentSpec component;
    /// Builds a spec of only this component, from its values for spec_keys_of_components().
    SpecBuilder own_builder;
    std::string title;  ///< the start of messages: "component 'server'"
    bool is_fine = true;
  };

  void refuse(Reading& reading, const YamlNode& at, std::string_view why) const;
  [[nodiscard]] std::optional<ComponentSpec> read_component(const YamlNode& item,
                                                            std::size_t index) const;
  void read_key(Reading& reading, const YamlNode& name, const YamlNode& value) const;
  /// Reads a key that only components have: role, ready, retry, after, ...
  void read_component_only_key(Reading& reading, std::string_view name,
                               const YamlNode& value) const;
  void read_ready(Reading& reading, const YamlNode& value) const;
  void read_ready_key(Reading& reading, const YamlNode& name, const YamlNode& value,
                      ReadySpec& ready) const;
  void read_retry(Reading& reading, const YamlNode& value) const;
  /// Reads the value of `after`: the name of another component, or a list of names.
  void read_names(Reading& reading, const YamlNode& value, std::vector<std::string>& into) const;
  /// Returns the text of a value; nullopt if it was refused.
  [[nodiscard]] std::optional<std::string> text(Reading& reading, const YamlNode& value,
                                                std::string_view expected) const;
  /// Moves the spec of reading.own_builder into the component, and reports the problems of that
  /// builder to `builder`. Clears reading.is_fine if a value is refused.
  void take_own_spec(Reading& reading) const;
};

}  // namespace dlrun
