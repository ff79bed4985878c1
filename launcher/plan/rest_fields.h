#pragma once
// The table of sbatch's options: for each version of slurmrestd's API, the field that an option
// becomes, and the conversion of its value. Pure data. docs/slurmrestd.md describes the fields.

#include <optional>
#include <string_view>

#include "launcher/spec/rest_version.h"

namespace dlrun {

/// The conversion of an option's value to a field.
enum class RestKind {
  kNotSent,          ///< an option for sbatch itself, which the job does not need
  kRefused,          ///< slurmrestd cannot do what the option does
  kText,             ///< the text that sbatch gets: slurmrestd passes it to the same parser
  kTextInList,       ///< a JSON list with one item: the text, such as "n1,n2"
  kNumber,           ///< an integer
  kTrue,             ///< true; the option has no value
  kFalse,            ///< false; the option has no value
  kYesNo,            ///< a boolean, from yes or no
  kIsNot0,           ///< a boolean, from a number
  kSetForTrue,       ///< the text "set", because v0.0.38 rejects the documented value `true`
  kExclusive,        ///< text, or "exclusive" without a value
  kNiceText,         ///< text, or "100" without a value, as sbatch sets it
  kNice,             ///< an integer, or 100 without a value
  kSignalText,       ///< text; v0.0.38 cannot parse B: or R: before the signal
  kSignal,           ///< the three fields kill_warning_*
  kMinutes,          ///< a time limit in minutes, as the API's object {set, infinite, number}
  kSeconds,          ///< a time limit in seconds, as an integer
  kMib,              ///< a memory size in MiB, as an object like that of kMinutes; 0: all memory
  kMibOfDisk,        ///< a size of disk space in MiB, as an integer
  kShared,           ///< the list `shared` with one word: the value, or else RestField::name
  kUpperList,        ///< a list of words in capitals
  kMailTypes,        ///< a list of the API's names for mail types
  kJobFlag,          ///< the field's name, as a word in the list `flags`
  kInvalidDep,       ///< one of two words in the list `flags`, from yes or no
  kGresFlags,        ///< a word in the list `flags`, from enforce-binding or disable-binding
  kGpus,             ///< appended for each item of the value's list: "gres/gpu:" and the item
  kGpuBind,          ///< "gres/gpu:" and the value
  kGpuNumber,        ///< "gres/gpu:" and a number
  kGpuMib,           ///< "gres/gpu:" and a memory size in MiB
  kGpuFrequency,     ///< "gpu:" and the value
  kGres,             ///< appended for each item: "gres/" and the item; "none" sets no field
  kCpusPerTask,      ///< a number; also becomes the first item of tres_per_task
  kGpusPerTask,      ///< appended to tres_per_task; also binds GPUs, unless --gpu-bind is set
  kCpusPerTaskOf23,  ///< kCpusPerTask for Slurm 23.11, which writes "cpu:2" instead of "cpu=2"
  kGpusPerTaskOf23,  ///< kGpusPerTask for Slurm 23.11
};

/// A field of the job description.
struct RestField {
  RestKind kind = RestKind::kRefused;
  /// The field's name. kJobFlag: the flag's name. kShared: the word if the option has no value.
  /// kRefused: the reason, which may be empty.
  std::string_view name = {};
};

/// One of sbatch's options.
struct SbatchOptionRow {
  std::string_view option;
  char letter = 0;  ///< the short form ('N'); 0: none
  bool needs_value = true;
  RestField in_38;  ///< the field in v0.0.38
  RestField in_40;  ///< the field from v0.0.40 on; rest_field() has the exceptions
  /// A variable that sbatch adds to the job's environment for srun, and slurmrestd does not; may be
  /// empty.
  std::string_view variable = {};
};

/// Returns the row of an option ("--nodes", 'N'); nullptr if there is none.
[[nodiscard]] const SbatchOptionRow* find_sbatch_option_row(std::string_view option);
[[nodiscard]] const SbatchOptionRow* find_sbatch_option_row(char letter);

/// Returns the option's field in a version of the API.
[[nodiscard]] RestField rest_field(const SbatchOptionRow& option, RestVersion version);

}  // namespace dlrun
