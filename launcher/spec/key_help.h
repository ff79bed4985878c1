#pragma once
// Describes a row of the key table for `dlrun explain`, the key reference and the man page.

#include <optional>
#include <string>
#include <string_view>

#include "launcher/spec/spec_keys.h"

namespace dlrun {

/// The description of a key.
struct KeyDescription {
  /// "whole number", "list of mounts". For a key that dlrun does not support: "not supported yet".
  std::string type;
  std::string range;  ///< "1 to 1000000", "one of: cpu cuda"; empty: no limits
  /// The option that is made from the key: "#SBATCH --nodes=...", "srun --mpi=...", "dlrun-trainer
  /// --lr ..."; empty if there is none.
  std::string makes;
  std::string example;  ///< the example as a spec nests it: "resources: {nodes: 2}"
};

[[nodiscard]] KeyDescription describe_key(const KeyRow& row);

/// Returns the key with this path, or the keys of the section with this path and of the sections
/// below it. Returns all keys for "".
[[nodiscard]] std::vector<const KeyRow*> keys_at_or_below(std::string_view section);

/// Returns the key that an unknown name may mean: a key with a similar spelling, else a key whose
/// last part is the name; nullopt if there is none.
[[nodiscard]] std::optional<std::string_view> similar_key(std::string_view path);

/// Returns the key for a word that users know from other programs, such as "walltime"; nullopt for
/// any other word.
[[nodiscard]] std::optional<std::string_view> key_of_other_word(std::string_view word);

/// Returns the text to write instead of a key that users may expect but that does not exist, such
/// as "mail"; "" for any other name.
[[nodiscard]] std::string_view replacement_for_key(std::string_view name);

/// Returns the error for an unknown key: "there is no key 'resources.node'; did you mean
/// 'resources.nodes'?"
[[nodiscard]] std::string no_such_key_message(std::string_view path);

}  // namespace dlrun
