#pragma once
// The key table: every key of a spec, one row each. Loading, --set, spelling suggestions, sbatch
// directives, trainer flags, help and the key reference are derived from it. The rows are in
// launcher/spec/keys, one file for each group of sections.

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

/// The form of a value's text. The loader checks the form, and converts paths, times and durations.
enum class Format {
  kText,           ///< one line without control characters
  kLines,          ///< any text without NUL: shell lines, words of a command, values of variables
  kSlug,           ///< 1 to 64 of [A-Za-z0-9._-]; the first is a letter, a digit or _
  kChoice,         ///< one of `choices`
  kPath,           ///< a path, made absolute from SpecSource::base_dir; a leading ~ is $HOME
  kMaybePath,      ///< a path if it has a '/', else a name
  kImage,          ///< a path if it starts with /, ./, ../ or ~/, else an image in a registry
  kPathPattern,    ///< a path in which % starts one of Slurm's patterns
  kContainerPath,  ///< an absolute path inside the container
  kTimeLimit,      ///< a time limit: 30 (minutes), 1-12:00:00, 90s, 2h
  kDuration,       ///< a length of time: 90 (seconds), 120s, 2m
  kMemory,         ///< a memory size in Slurm's units
  kInterval,       ///< 500 steps, 1 epoch
  kCount,          ///< a whole number from 1 to 1000000000
  kNodeList,       ///< Slurm's node list: n[1-3],n7
  kTextOrSwitch,   ///< true: the bare option; false: no option; a text: the option's value
};

/// A function that returns the member of a spec that a key sets.
template <typename T>
using Access = T& (*)(JobSpec&);

/// The member that a key sets. monostate: the key is reserved and not supported yet.
using Field = std::variant<
    std::monostate, Access<std::optional<std::string>>, Access<std::optional<std::int64_t>>,
    Access<std::optional<double>>, Access<std::optional<bool>>, Access<std::optional<NodeRange>>,
    Access<std::optional<Gpus>>, Access<std::vector<std::string>>, Access<NamedValues>,
    Access<std::vector<SlurmOption>>, Access<std::vector<Mount>>, Access<std::vector<SecretSource>>,
    Access<std::vector<Download>>, Access<std::vector<PreflightCheck>>,
    Access<std::vector<StagedData>>, Access<std::vector<OutputCopy>>, Access<std::vector<SweptKey>>,
    Access<std::vector<SweepPoint>>, Access<std::vector<ComponentSpec>>>;

/// The program that gets the option of a key.
enum class KeyTarget {
  kNone,       ///< no program: dlrun itself uses the value
  kSbatch,     ///< sbatch, in an #SBATCH line
  kSrun,       ///< srun, for the step that starts the ranks
  kContainer,  ///< the container's backend; the option has the name that pyxis gives it
  kTrainer,    ///< the bundled trainer
};

/// The parts of a job to which an option of sbatch applies.
enum class SbatchScope {
  /// The whole job, such as --output. Only the first part of a heterogeneous job has the option.
  kWholeJob,
  /// Each part of a heterogeneous job, such as --partition.
  kEachPart,
  /// Each part, and the step of `submit --in`. The option, such as --exclude, chooses nodes.
  kNodeChoice,
  /// Each part, and the step of `submit --in`. The option, such as --mem, requests what the ranks
  /// need. `init --from` also takes the key's value from an option of srun.
  kRankRequest,
};

/// The option that is made from a key. `name` is empty if the key is a map of options.
struct KeyOption {
  KeyTarget target = KeyTarget::kNone;
  std::string_view name = {};                  ///< "--nodes"
  SbatchScope scope = SbatchScope::kWholeJob;  ///< of an option of sbatch
  /// For an option of the trainer: the trainer gets the option, without a value, if the key is
  /// true.
  bool is_switch = false;
};

/// One key of a spec.
struct KeyRow {
  std::string_view path = {};
  Field field = {};
  Format format = Format::kText;
  std::string_view choices = {};  ///< kChoice: words separated by spaces
  double min = 0, max = 0;        ///< limits of numbers, both included; both 0: unbounded
  KeyOption option = {};
  std::string_view help = {};
  /// The value that applies if the key is not given, as text for people; empty: there is none.
  std::string_view fallback = {};
  std::string_view example = {};  ///< one line of YAML; every supported key has one
  [[nodiscard]] bool is_supported() const { return field.index() != 0; }
};

/// Returns all rows in the order of the key reference.
[[nodiscard]] std::span<const KeyRow> spec_keys();

/// Returns the row with exactly this path; nullptr if there is none.
[[nodiscard]] const KeyRow* find_key(std::string_view path);

/// Returns the row whose key becomes this option of sbatch, such as "--nodes"; nullptr if there is
/// none.
[[nodiscard]] const KeyRow* find_sbatch_key(std::string_view option);

/// Returns true if path is a map of keys, such as "resources". The whole spec is "".
[[nodiscard]] bool is_section(std::string_view path);

/// Returns the key that a single value at a section sets: "environment.conda: env" sets
/// environment.conda.name. Returns an empty text if there is none.
[[nodiscard]] std::string_view key_of_single_value(std::string_view section);

/// Returns the last parts of the names of all keys and sections directly below a section.
[[nodiscard]] std::vector<std::string_view> names_in_section(std::string_view section);

/// Returns the field's value as an option's text: "2-4", "a100:4", "0.001"; the items of a list are
/// joined by commas. Returns nullopt if the value is not set or cannot be one text (maps, mounts,
/// ...).
[[nodiscard]] std::optional<std::string> option_text(const KeyRow& row, const JobSpec& spec);

}  // namespace dlrun
