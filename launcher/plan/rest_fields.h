#pragma once
// The table of sbatch's options: for each version of slurmrestd's API the field that carries the
// option, and how its value is converted. Pure data. docs/slurmrestd.md describes it.

#include <optional>
#include <string_view>

#include "launcher/spec/rest_version.h"

namespace dlrun {

/// How an option's value becomes a field.
enum class RestKind {
  kOwn,           ///< concerns sbatch itself; nothing to send
  kRefused,       ///< cannot be sent
  kText,          ///< sbatch's own text, which slurmrestd gives to the same parser
  kTextInList,    ///< a list of one text, which may be a list of nodes
  kNumber,        ///< an integer
  kTrue,          ///< true; the option has no value
  kFalse,         ///< false; the option has no value
  kYesNo,         ///< a boolean, from yes or no
  kIsNot0,        ///< a boolean, from a number
  kWord,          ///< the word "set"; v0.0.38 rejects `true`, which its description names
  kExclusive,     ///< text; without a value "exclusive"
  kNiceText,      ///< text; without a value 100
  kNice,          ///< an integer; without a value 100
  kSignalText,    ///< text; v0.0.38 cannot parse B: or R: before the signal
  kSignal,        ///< three fields kill_warning_*
  kMinutes,       ///< a time limit, in minutes
  kSecondsOf,     ///< a time limit, in seconds
  kMib,           ///< a memory size, in MiB; 0 is all memory
  kMibOfDisk,     ///< a memory size, in MiB, as a bare integer
  kShared,        ///< a list of one word: how the job shares its nodes
  kUpperList,     ///< a list of words in capitals
  kMailTypes,     ///< a list of the API's names for mail types
  kJobFlag,       ///< a word in the list `flags`: the field's name
  kInvalidDep,    ///< one of two words in the list `flags`, from yes or no
  kGresFlags,     ///< a word in the list `flags`, from enforce-binding or disable-binding
  kGpus,          ///< each part after "gres/gpu:", appended to the field
  kGpuBind,       ///< text after "gres/gpu:"
  kGpuNumber,     ///< a number after "gres/gpu:"
  kGpuMib,        ///< a memory size in MiB after "gres/gpu:"
  kGpuFrequency,  ///< text after "gpu:"
  kGres,          ///< each part after "gres/", appended to the field; "none" sends nothing
  kCpusPerTask,   ///< a number, which is also put first into tres_per_task
  kGpusPerTask,   ///< appended to tres_per_task; also binds, unless --gpu-bind is given
  /// These two are for Slurm 23.11, which writes "cpu:2" where later Slurm writes "cpu=2".
  kCpusPerTaskOf23,
  kGpusPerTaskOf23,
};

/// A field of the job description.
struct RestField {
  RestKind kind = RestKind::kRefused;
  /// The field's name. kJobFlag: the flag's. kRefused: the reason, which may be empty.
  std::string_view name = {};
};

/// One of sbatch's options.
struct RestOption {
  std::string_view option;
  char letter = 0;
  bool wants_value = true;
  RestField in_38;  ///< in v0.0.38
  RestField in_40;  ///< from v0.0.40 on
  /// A variable that sbatch adds to the job's environment for srun, and slurmrestd does not.
  std::string_view variable = {};
};

/// Returns the row of an option ("--nodes"); nullptr if there is none.
[[nodiscard]] const RestOption* find_rest_option(std::string_view option);
[[nodiscard]] const RestOption* find_rest_option(char letter);

/// Returns the option's field in a version of the API.
[[nodiscard]] RestField rest_field(const RestOption& option, RestVersion version);

}  // namespace dlrun
