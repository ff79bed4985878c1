#pragma once
// Puts a spec together from its layers, by the key table.

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"
#include "common/result.h"
#include "launcher/spec/diagnostic.h"
#include "launcher/spec/spec.h"
#include "launcher/spec/spec_keys.h"
#include "launcher/spec/yaml_document.h"

namespace dlrun {

/// A text that values come from.
struct SpecSource {
  Origin::Kind kind = Origin::Kind::kFile;
  std::string name;      ///< as diagnostics show it
  std::string text;      ///< for the lines under a diagnostic
  std::string base_dir;  ///< relative paths start here; absolute
  int column_shift = 0;  ///< where the document starts in the first line of text
};

/// Layers are applied from the strongest to the weakest: what is set already stays. A null sets a
/// key to "not given". Everything that is wrong is collected; values that are not wrong are set
/// nevertheless.
class SpecBuilder {
 public:
  explicit SpecBuilder(const Env& env) : env_(env) {}

  /// A whole document: a map of keys.
  void apply(const YamlDocument& document, const SpecSource& source) {
    apply_at(document, document.root, "", source);
  }
  /// The subtree at id as the value of a section, of a key, or of an entry of a free map
  /// ("environment.vars.X").
  void apply_at(const YamlDocument& document, YamlId id, std::string_view path,
                const SpecSource& source);

  /// A key that excludes one that is set already counts as settled: a weaker layer's value for it
  /// is no contradiction.
  void keep_out_alternatives();

  void report(Diagnostic diagnostic) { diagnostics_.push_back(std::move(diagnostic)); }

  /// Takes `base` out of the spec again, so that the file it names may have one of its own.
  [[nodiscard]] std::optional<std::pair<std::string, Origin>> take_base();

  [[nodiscard]] JobSpec& spec() { return spec_; }
  [[nodiscard]] std::vector<Diagnostic>& diagnostics() { return diagnostics_; }
  /// Keys whose value was refused: a check of several keys says nothing about them.
  [[nodiscard]] const std::set<std::string, std::less<>>& refused() const { return refused_; }

 private:
  friend struct ItemReader;
  friend struct ValueSetter;
  friend struct SweepSetter;
  struct Layer {
    const YamlDocument& document;
    const SpecSource& source;
  };

  void walk_section(const Layer& layer, const YamlNode& map, const std::string& section);
  void set_section(const Layer& layer, const YamlNode& value, const std::string& section);
  void set_key(const Layer& layer, const KeyRow& row, const YamlNode& value,
               const std::string& path);
  void unknown_key(const Layer& layer, const YamlNode& key, const std::string& section,
                   const std::string& path);

  /// The map's keys and values; wrong and repeated keys are reported and left out.
  [[nodiscard]] std::vector<std::pair<const YamlNode*, const YamlNode*>> entries(
      const Layer& layer, const YamlNode& map, const std::string& path);
  [[nodiscard]] Result<std::string> scalar(const YamlNode& node, std::string_view expected) const;
  [[nodiscard]] Result<std::string> text(const Layer& layer, const KeyRow& row,
                                         const YamlNode& node, std::string_view expected);
  [[nodiscard]] Result<std::string> formatted(const Layer& layer, const KeyRow& row,
                                              std::string value, const YamlNode& node);

  [[nodiscard]] Origin origin(const Layer& layer, const YamlNode& node) const;
  void error(const Layer& layer, const YamlNode& node, std::string_view path, std::string message);
  void warn(const Layer& layer, const YamlNode& node, std::string message);
  /// True the first time: the value of this layer counts.
  bool settle(const std::string& path) { return settled_.insert(path).second; }

  const Env& env_;
  JobSpec spec_;
  std::set<std::string, std::less<>> settled_, refused_;
  std::vector<Diagnostic> diagnostics_;
};

/// text with ${NAME} replaced from env and $${ made ${. Fails with kInvalid on a variable that is
/// not set and on anything else between the braces.
[[nodiscard]] Result<std::string> substitute_variables(std::string_view text, const Env& env);

/// True when text holds ${name} as substitute_variables would replace it.
[[nodiscard]] bool uses_variable(std::string_view text, std::string_view name);

/// The line-th line of text (from 1), without its end.
[[nodiscard]] std::string line_of(std::string_view text, int line);

/// path, absolute against base_dir, '.' and '..' resolved by name; a leading ~ is $HOME. Empty:
/// fails.
[[nodiscard]] Result<std::string> absolute_path(std::string_view path, std::string_view base_dir,
                                                const Env& env);

[[nodiscard]] bool is_variable_name(std::string_view name);
[[nodiscard]] bool is_slug(std::string_view text);

}  // namespace dlrun
