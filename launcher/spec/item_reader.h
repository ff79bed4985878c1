#pragma once
// Reads one item of a list whose items have a structure: a mount, a secret, a download, a check of
// nodes, data to copy. Private to the loading of specs.

#include <string>
#include <string_view>
#include <vector>

#include "launcher/spec/spec_builder.h"

namespace dlrun {

/// Returns why the job's script cannot set this variable, as a text that follows the variable's
/// name in a message; empty if the script can set it.
[[nodiscard]] std::string_view why_not_settable(std::string_view name);

/// Reads one item of `row`'s list. Every function fails with kInvalid for an invalid item, and as
/// substitute_variables() does. read_download() fails with kRefused for a url with a user or a
/// password; the calling code must not show the line of that item. `before`: the items that were
/// read so far.
struct ItemReader {
  SpecBuilder& builder;
  const SpecBuilder::Layer& layer;
  const KeyRow& row;

  [[nodiscard]] Result<Mount> read_mount(const YamlNode& item) const;
  [[nodiscard]] Result<SecretSource> read_secret_source(
      const YamlNode& item, const std::vector<SecretSource>& before) const;
  [[nodiscard]] Result<Download> read_download(const YamlNode& item,
                                               const std::vector<Download>& before) const;
  [[nodiscard]] Result<PreflightCheck> read_preflight_check(const YamlNode& item) const;
  // data_items.cc defines read_staged_data() and read_output_copy().
  [[nodiscard]] Result<StagedData> read_staged_data(const YamlNode& item,
                                                    const std::vector<StagedData>& before) const;
  [[nodiscard]] Result<OutputCopy> read_output_copy(const YamlNode& item,
                                                    const std::vector<OutputCopy>& before) const;

 private:
  /// Returns the mount with absolute paths, after checks.
  [[nodiscard]] Result<Mount> completed(Mount mount) const;
  [[nodiscard]] Result<Mount> mount_of_text(const YamlNode& item) const;
  [[nodiscard]] Result<Mount> mount_of_map(const YamlNode& item) const;
};

}  // namespace dlrun
