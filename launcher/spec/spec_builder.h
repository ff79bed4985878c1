#pragma once
// Builds a spec from its layers, using the key table.

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"
#include "common/result.h"
#include "launcher/spec/diagnostic_text.h"
#include "launcher/spec/spec.h"
#include "launcher/spec/spec_keys.h"
#include "launcher/spec/yaml_document.h"

namespace dlrun {

/// A text that holds values of a spec.
struct SpecSource {
  Origin::Kind kind = Origin::Kind::kFile;
  std::string name;      ///< the name in diagnostics
  std::string text;      ///< for the source lines that diagnostics show
  std::string base_dir;  ///< the folder for relative paths; absolute
  int column_shift = 0;  ///< columns that precede the document in the first line of text
};

/// Merges layers (sources of values: --set, a file, the site). The caller applies the strongest
/// layer first; a weaker layer does not replace a value. A null marks a key as "not given", also
/// for weaker layers. Collects all problems, and sets the valid values even if other values are
/// invalid.
class SpecBuilder {
 public:
  /// The handling of a value with a variable that env does not have.
  enum class UnsetVariable {
    kError,    ///< the value is an error
    kLeftOut,  ///< the value is ignored; for checks of a site's defaults, without a job's variables
  };

  explicit SpecBuilder(const Env& env, UnsetVariable unset_variable = UnsetVariable::kError)
      : env_(env), unset_variable_(unset_variable) {}

  /// Applies a whole document: a map of keys.
  void apply(const YamlDocument& document, const SpecSource& source) {
    apply_at(document, document.root, "", source);
  }
  /// Applies the subtree at id as the value of a section, a key, or an entry of a map with
  /// arbitrary names ("environment.vars.X").
  void apply_at(const YamlDocument& document, YamlId id, std::string_view path,
                const SpecSource& source);

  /// For each pair of keys that exclude each other: if one key is set, prevents weaker layers from
  /// setting the other.
  void exclude_alternatives();

  void report(Diagnostic diagnostic) { diagnostics_.push_back(std::move(diagnostic)); }

  /// Removes `base` from the spec and returns it, so that the base's own `base` can be applied.
  [[nodiscard]] std::optional<std::pair<std::string, Origin>> take_base();

  [[nodiscard]] JobSpec& spec() { return spec_; }
  [[nodiscard]] std::vector<Diagnostic>& diagnostics() { return diagnostics_; }
  /// Keys with a value that was refused or ignored (UnsetVariable::kLeftOut). Checks that involve
  /// several keys skip these keys.
  [[nodiscard]] const std::set<std::string, std::less<>>& refused() const { return refused_; }
  /// The keys and sections that the spec's unknown keys probably mean, in their correct spelling.
  /// Checks do not report them as missing, because the unknown keys have errors already.
  [[nodiscard]] const std::set<std::string, std::less<>>& correct_spellings() const {
    return correct_spellings_;
  }

 private:
  friend struct ComponentReader;
  friend struct ItemReader;
  friend struct ValueReader;
  friend struct SweepReader;
  struct Layer {
    const YamlDocument& document;
    const SpecSource& source;
  };

  void walk_section(const Layer& layer, const YamlNode& map, const std::string& section);
  void set_section(const Layer& layer, const YamlNode& value, const std::string& section);
  void set_key(const Layer& layer, const KeyRow& row, const YamlNode& value,
               const std::string& path);
  void report_unknown_key(const Layer& layer, const YamlNode& key, const std::string& section,
                          const std::string& path);

  /// Returns the map's keys and values. Reports and omits malformed and repeated keys.
  [[nodiscard]] std::vector<std::pair<const YamlNode*, const YamlNode*>> entries(
      const Layer& layer, const YamlNode& map, const std::string& path);
  /// Returns the text of a single value, with ${NAME} replaced. Fails with kInvalid if node is not
  /// a single value; the message then contains `expected`, as in "expected a number, not a list".
  /// Also fails as substitute_variables() does.
  [[nodiscard]] Result<std::string> scalar(const YamlNode& node, std::string_view expected) const;
  /// Returns the text of scalar(), checked and converted as row's format requires.
  [[nodiscard]] Result<std::string> text(const Layer& layer, const KeyRow& row,
                                         const YamlNode& node, std::string_view expected);
  /// Applies row's format to value: checks it, makes paths absolute, normalises times.
  [[nodiscard]] Result<std::string> checked_text(const Layer& layer, const KeyRow& row,
                                                 std::string value, const YamlNode& node);

  /// Warns of a few MiB of memory that are given without a unit, because GiB may be meant. Does not
  /// warn if a stronger layer has decided the key.
  void warn_of_missing_unit(const Layer& layer, const KeyRow& row, std::string_view memory,
                            const YamlNode& node);

  [[nodiscard]] Origin origin(const Layer& layer, const YamlNode& node) const;
  /// Reports an error about the key `path`, and adds the key to refused().
  void error(const Layer& layer, const YamlNode& node, std::string_view path, std::string message);
  void warn(const Layer& layer, const YamlNode& node, std::string message);
  /// Marks path as decided. Returns true on the first call for path: this layer's value counts.
  bool mark_decided(const std::string& path) { return decided_.insert(path).second; }

  const Env& env_;
  UnsetVariable unset_variable_;
  JobSpec spec_;
  std::set<std::string, std::less<>> decided_, refused_, correct_spellings_;
  std::vector<Diagnostic> diagnostics_;
};

/// Replaces ${NAME} by the variable's value and $${ by ${. Fails with kNotFound if the variable is
/// not set, and with kInvalid if no name of a variable follows the ${, or if the } is missing.
[[nodiscard]] Result<std::string> substitute_variables(std::string_view text, const Env& env);

/// Returns true if text uses ${name} in a way that substitute_variables would replace.
[[nodiscard]] bool uses_variable(std::string_view text, std::string_view name);

/// Returns a line of text (counted from 1) without its line end; "" if there is no such line.
[[nodiscard]] std::string line_of(std::string_view text, int line);

/// Returns path as an absolute path. A relative path starts at base_dir. A leading ~ becomes
/// $HOME. Resolves '.' and '..' without looking at the file system. Fails with kInvalid if path is
/// empty, and with kNotFound if $HOME is needed, but is empty or not set.
[[nodiscard]] Result<std::string> absolute_path(std::string_view path, std::string_view base_dir,
                                                const Env& env);

/// Returns true for a text of letters, digits and '_' that does not start with a digit.
[[nodiscard]] bool is_variable_name(std::string_view name);
/// Returns true for 1 to 64 letters, digits, '.', '_' and '-' that start with neither '-' nor '.'.
[[nodiscard]] bool is_slug(std::string_view text);

}  // namespace dlrun
