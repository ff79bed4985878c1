#pragma once
// Reads the value of one key from one node of a document. Private to the loading of specs.

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "launcher/spec/item_reader.h"
#include "launcher/spec/spec_builder.h"

namespace dlrun {

/// The key, its node, and the builder that receives the value and the problems.
struct ValueReader {
  SpecBuilder& builder;
  SpecBuilder::Layer layer;
  const KeyRow& row;
  const YamlNode& node;

  [[nodiscard]] std::string key() const { return std::string(row.path); }
  [[nodiscard]] ItemReader item_reader() const { return {builder, layer, row}; }

  /// Returns the text of a single value, with ${NAME} replaced; see SpecBuilder::scalar().
  [[nodiscard]] Result<std::string> scalar(const YamlNode& at, std::string_view expected) const {
    return builder.scalar(at, expected);
  }
  /// Like scalar(), but also checks and converts the text as the row's format requires.
  [[nodiscard]] Result<std::string> text(const YamlNode& at, std::string_view expected) const {
    return builder.text(layer, row, at, expected);
  }
  [[nodiscard]] std::vector<std::pair<const YamlNode*, const YamlNode*>> entries() const {
    return builder.entries(layer, node, key());
  }

  /// Reports why the value is refused. at: the node that is wrong; nullptr: the value's node.
  void refuse(const Error& why, const YamlNode* at = nullptr) const;
  /// Reports an error about a key or an entry. message: the complete text.
  void refuse_with_message(const YamlNode& at, std::string_view path, std::string message) const {
    builder.error(layer, at, path, std::move(message));
  }
  /// Reports why a value inside the node is refused. path: the value's key, or the map's key and
  /// the entry's name. If the builder was made with SpecBuilder::UnsetVariable::kLeftOut, does not
  /// report a value that refers to an unset variable.
  void refuse_value(const YamlNode& at, const std::string& path, const Error& why) const;
  void warn(const YamlNode& at, std::string message) const {
    builder.warn(layer, at, std::move(message));
  }
  /// Fails with kInvalid if the number is outside the row's limits.
  [[nodiscard]] Result<> check_limits(double number, std::string_view text) const;

  /// Sets the member, unless a stronger layer has decided the key. Reports the error if value has
  /// one.
  template <typename Member, typename Value>
  void put(Access<Member> member, Result<Value> value) const {
    if (!value) return refuse(value.error());
    if (!builder.mark_decided(key())) return;
    member(builder.spec_) = std::move(*value);
    builder.spec_.origins[key()] = builder.origin(layer, node);
  }

  /// Sets the member from a list whose items have their own origins: "container.mounts[0]". `read`
  /// gets an item's node and the items before it.
  template <typename Item, typename Read>
  void put_items(Access<std::vector<Item>> member, std::string_view expected, Read read) const {
    if (node.kind != YamlNode::Kind::kSequence) return refuse_kind(expected);
    std::vector<Item> found;
    bool is_fine = true;
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      const YamlNode& at = layer.document.at(node.items[i]);
      Result<Item> item = read(at, found);
      if (item) {
        record_origin_of_item(i, at);
        found.push_back(std::move(*item));
      } else {
        refuse_item(item.error(), at);
        is_fine = false;
      }
    }
    if (is_fine) put(member, Result<std::vector<Item>>(std::move(found)));
  }

  /// Records the origin of a list's item, unless a stronger layer has an item with this index.
  void record_origin_of_item(std::size_t index, const YamlNode& at) const;

  /// Returns the key of a map's entry: environment.vars.NAME.
  [[nodiscard]] std::string entry_key(std::string_view name) const {
    return key() + "." + std::string(name);
  }
  /// Calls set(node of the name, name, node of the value) for each entry of the map, unless a
  /// stronger layer has removed the whole map.
  template <typename Set>
  void each_entry(Set set) const {
    if (node.kind != YamlNode::Kind::kMap) return refuse_kind("a map of names and values");
    if (builder.decided_.contains(key())) return;
    for (const auto& [name, value] : entries()) set(*name, name->text, *value);
  }
  /// Marks a key or an entry as decided. Returns false if a stronger layer has decided it.
  bool mark_decided(const std::string& path) const { return builder.mark_decided(path); }
  /// Adds an entry to the member, with its origin, unless a stronger layer has decided the entry.
  template <typename Member, typename Entry>
  void put_entry(Access<Member> member, const std::string& path, const YamlNode& value,
                 Entry entry) const {
    if (!builder.mark_decided(path)) return;
    builder.spec_.origins[path] = builder.origin(layer, value);
    member(builder.spec_).push_back(std::move(entry));
  }

 private:
  void refuse_kind(std::string_view expected) const;
  /// Reports an item's error. Does not show the line if the error's code is kRefused, the code of
  /// read_download() for a url with a user or a password.
  void refuse_item(const Error& why, const YamlNode& at) const;
};

}  // namespace dlrun
