#pragma once
// Reads the map of a site, a preset or a host (launcher/remote/host_file.cc) into members, key by
// key.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "common/text.h"
#include "launcher/spec/config_reader.h"
#include "launcher/spec/secret_lines.h"
#include "launcher/spec/spec_builder.h"
#include "launcher/spec/value_setter.h"

namespace dlrun {

/// Passes each value of a map to the reader of its key. A reader is a function that checks a value
/// and stores it in the member `into`, which must outlive the reader. Reports unknown and repeated
/// keys, and values that a reader refuses, as errors. If a reader refuses its value, a member with
/// a single value stays as it was, but a list or a map of variables may have got some of the items.
class MapReader {
 public:
  MapReader(const ConfigFile& file, std::vector<Diagnostic>& diagnostics)
      : file_(file), diagnostics_(diagnostics) {}

  using Reader = std::function<void(YamlId)>;
  using Readers = std::map<std::string_view, Reader>;

  void read(YamlId id, const Readers& readers) {
    each(id, [&](const YamlNode& key, YamlId value) {
      const auto found = readers.find(key.text);
      if (found != readers.end()) return found->second(value);
      std::vector<std::string_view> names;
      for (const auto& [name, reader] : readers) names.push_back(name);
      const auto similar = nearest(key.text, names);
      error(key, fmt::format("unknown key '{}'{}", key.text,
                             similar ? fmt::format("; did you mean '{}'?", *similar) : ""));
    });
  }

  /// Calls visit for every key and value of a map. The keys need no readers. Reports repeated keys
  /// and keys that are no words, and does not visit them.
  void each(YamlId id, const std::function<void(const YamlNode& key, YamlId value)>& visit) {
    const YamlNode& map = file_.document.at(id);
    if (map.kind == YamlNode::Kind::kNull) return;
    if (map.kind != YamlNode::Kind::kMap)
      return error(map, fmt::format("expected a map, not {}", kind_name(map)));
    std::set<std::string_view> seen;
    for (std::size_t i = 0; i + 1 < map.items.size(); i += 2) {
      const YamlNode& key = file_.document.at(map.items[i]);
      if (key.kind != YamlNode::Kind::kScalar) {
        error(key, fmt::format("a key is a word, not {}", kind_name(key)));
      } else if (!seen.insert(key.text).second) {
        error(key, fmt::format("'{}' is given twice", key.text));
      } else {
        visit(key, map.items[i + 1]);
      }
    }
  }

  [[nodiscard]] Reader text(std::string& into) {
    return [this, &into](YamlId id) {
      const YamlNode& node = file_.document.at(id);
      if (node.kind != YamlNode::Kind::kScalar)
        return error(node, fmt::format("expected text, not {}", kind_name(node)));
      if (std::any_of(node.text.begin(), node.text.end(), is_control))
        return error(node, "control characters are not allowed here");
      into = node.text;
    };
  }
  [[nodiscard]] Reader choice(std::string& into, std::vector<std::string_view> choices) {
    return [this, &into, choices = std::move(choices)](YamlId id) {
      const YamlNode& node = file_.document.at(id);
      if (std::find(choices.begin(), choices.end(), node.text) == choices.end()) {
        return error(node, fmt::format("'{}' is not one of: {}", printable(node.text),
                                       fmt::join(choices, " ")));
      }
      into = node.text;
    };
  }
  [[nodiscard]] Reader number(std::optional<std::int64_t>& into) {
    return [this, &into](YamlId id) {
      const YamlNode& node = file_.document.at(id);
      const auto number = parse_int(node.text);
      if (!number || *number < 0) return error(node, "expected a whole number, 0 or more");
      into = number;
    };
  }
  /// Returns a reader for text that `check` must accept. The reader reports the error of `check`.
  /// It ignores an empty text and does not call `check` for it.
  [[nodiscard]] Reader checked(std::string& into,
                               std::function<Result<>(const std::string&)> check) {
    return [this, &into, check = std::move(check)](YamlId id) {
      std::string word;
      text(word)(id);
      if (word.empty()) return;
      if (auto fine = check(word); !fine) return error(file_.document.at(id), fine.error().message);
      into = std::move(word);
    };
  }
  [[nodiscard]] Reader boolean(bool& into) {
    return [this, &into](YamlId id) {
      const YamlNode& node = file_.document.at(id);
      if (node.text != "true" && node.text != "false") return error(node, "expected true or false");
      into = node.text == "true";
    };
  }
  /// Returns a reader for a list of texts, or for a single text. If `check` is given, it must
  /// accept each text; see checked().
  [[nodiscard]] Reader list(std::vector<std::string>& into,
                            std::function<Result<>(const std::string&)> check = {}) {
    return [this, &into, check = std::move(check)](YamlId id) {
      const YamlNode& node = file_.document.at(id);
      if (node.kind == YamlNode::Kind::kMap)
        return error(node, fmt::format("expected a list, not {}", kind_name(node)));
      for (YamlId item :
           node.kind == YamlNode::Kind::kSequence ? node.items : std::vector<YamlId>{id}) {
        std::string word;
        check ? checked(word, check)(item) : text(word)(item);
        if (!word.empty()) into.push_back(std::move(word));
      }
    };
  }
  /// A function that checks one variable. The reader reports the error of the function.
  using VariableCheck = std::function<Result<>(const std::string& name, const std::string& value)>;
  /// Returns a reader for a map of variables.
  [[nodiscard]] Reader variables(NamedValues& into, VariableCheck check = {}) {
    return [this, &into, check = std::move(check)](YamlId id) {
      each(id, [&](const YamlNode& key, YamlId value) {
        if (!is_variable_name(key.text))
          return error(key, fmt::format("'{}' is not a variable's name", printable(key.text)));
        std::string word;
        text(word)(value);
        if (auto checked = check ? check(key.text, word) : Result<>(); !checked) {
          return error(file_.document.at(value),
                       fmt::format("{}: {}", key.text, checked.error().message));
        }
        into.emplace_back(key.text, std::move(word));
      });
    };
  }

  void error(const YamlNode& node, std::string message) {
    diagnostics_.push_back({Diagnostic::Severity::kError,
                            {file_.kind, file_.source, node.line, node.column},
                            std::move(message),
                            line_for_message(file_.text, node.line)});
  }

 private:
  const ConfigFile& file_;
  std::vector<Diagnostic>& diagnostics_;
};

}  // namespace dlrun
