#pragma once
// THE key table: every key of exp.yaml, one row each. Loading, --set, spelling suggestions, sbatch
// directives, trainer flags, help and the key reference come from it.

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launcher/spec/spec.h"

namespace dlrun {

/// How the text of a value is checked and changed, beyond its field's type.
enum class Format {
  kText,       ///< one line: no control characters
  kLines,      ///< any text without NUL: shell lines, words of a command, values of variables
  kSlug,       ///< [A-Za-z0-9._-], at most 64, starting with a letter, digit or _
  kChoice,     ///< one of `choices`
  kPath,       ///< made absolute against the spec's folder; a leading ~ is the user's home
  kMaybePath,  ///< a path where it has a '/', else a name
  kImage,      ///< a path where it starts with /, ./, ../ or ~/, else a registry name
  kPattern,    ///< a path in which % starts one of Slurm's patterns
  kInside,     ///< an absolute path inside the container
  kTime,       ///< a time limit
  kDuration,   ///< seconds, or 120s, 2m
  kMemory,     ///< Slurm's memory units
  kInterval,   ///< 500 steps, 1 epoch
  kCount,      ///< a whole number from 1
  kHosts,      ///< Slurm's node list: n[1-3],n7
  kFlag,       ///< true: the bare option; else its value
};

template <typename T>
using Access = T& (*)(JobSpec&);

/// The member that a key sets. monostate: the key belongs to a part of dlrun that is not built yet.
using Field = std::variant<
    std::monostate, Access<std::optional<std::string>>, Access<std::optional<std::int64_t>>,
    Access<std::optional<double>>, Access<std::optional<bool>>, Access<std::optional<NodeRange>>,
    Access<std::optional<Gpus>>, Access<std::vector<std::string>>, Access<NamedValues>,
    Access<std::vector<SlurmOption>>, Access<std::vector<Mount>>, Access<std::vector<SecretSource>>,
    Access<std::vector<Download>>, Access<std::vector<SweptKey>>, Access<std::vector<SweepPoint>>>;

struct KeyRow {
  std::string_view path = {};
  Field field = {};
  Format format = Format::kText;
  std::string_view choices = {};  ///< kChoice: words separated by spaces
  double min = 0, max = 0;        ///< numbers: inclusive; both 0: unbounded
  std::string_view option =
      {};  ///< resources.*: sbatch's; launch.*: srun's; train.* and checkpoint.*: the trainer's
  std::string_view help = {};
  std::string_view fallback =
      {};  ///< what holds where the key is not given, where that is more than "nothing"
  std::string_view example = {};  ///< a value as YAML, one line; every supported key has one
  [[nodiscard]] bool is_supported() const { return field.index() != 0; }
};

[[nodiscard]] std::span<const KeyRow> spec_keys();

/// The row of exactly this path; nullptr when there is none.
[[nodiscard]] const KeyRow* find_key(std::string_view path);

/// True for a map that holds keys, such as "resources". "" is the whole spec.
[[nodiscard]] bool is_section(std::string_view path);

/// The key that a plain value at a section means: "environment.conda: env" is
/// environment.conda.name. Empty: none.
[[nodiscard]] std::string_view section_shorthand(std::string_view section);

/// The names that may stand directly in a section.
[[nodiscard]] std::vector<std::string_view> names_in_section(std::string_view section);

/// The field's value as an option's text: "2-4", "a100:4", "0.001", a list's words joined by
/// commas. Nothing when it is not set, or is a map.
[[nodiscard]] std::optional<std::string> option_text(const KeyRow& row, const JobSpec& spec);

}  // namespace dlrun
