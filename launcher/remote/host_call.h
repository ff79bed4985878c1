#pragma once
// The call that dlrun sends to a host for `dlrun -H NAME COMMAND`.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace dlrun {

/// A command that is to run on a host.
struct HostCall {
  std::string host, command;
  std::vector<std::string> arguments;  ///< from arguments_for_host(); includes the command's name
  std::string spec;                    ///< the spec's file; "-": standard input; empty: none
  std::string output_file;             ///< -o: the file to write on this machine; empty: none
  bool needs_source_code = false;      ///< the command works on the code around the spec
  bool submits = false;                ///< submit or resubmit, without --dry-run or --test-only
  bool watches = false;                ///< --watch
  std::vector<std::string> value_options;  ///< as in ParsedCall
};

/// Where a command runs if the user gives a host (-H).
enum class CommandPlace {
  kHost,          ///< on the host
  kHostWithCode,  ///< on the host, in the copy of the code around the spec
  kHere,          ///< on this machine
};

/// The parts of this machine's parsed command line from which call_for_host() makes a HostCall.
struct ParsedCall {
  std::string command;
  std::string spec, output_file;  ///< empty: not given
  bool is_trial = false;          ///< --dry-run or --test-only
  bool watches = false;           ///< --watch
  /// The names of the command's options whose value may be the next argument, such as "--runs".
  std::vector<std::string> value_options{};
};

/// Returns the call for the host. Returns nullopt if `host` is empty, or if the command always runs
/// on this machine, as `explain KEY` does. argv: the whole command line.
/// folder: the current folder.
[[nodiscard]] std::optional<HostCall> call_for_host(const std::string& host, CommandPlace place,
                                                    const ParsedCall& parsed,
                                                    const std::vector<std::string>& argv,
                                                    const std::filesystem::path& folder);

/// Returns the arguments for the host: argv without the program's name, without -H, and without
/// --log-file, because the log's file is on this machine.
[[nodiscard]] std::vector<std::string> arguments_for_host(const std::vector<std::string>& argv);

/// Returns the call's arguments for the host. The value of -o becomes `-`. The spec's path becomes
/// `spec_there`, the spec's path on the host; nullptr: the spec's path stays. The values of other
/// options stay, even if one equals the spec's path.
[[nodiscard]] std::vector<std::string> adapted_arguments(const HostCall& call,
                                                         const std::string* spec_there);

/// Returns true for the commands that take over the caller's terminal if there is one.
[[nodiscard]] bool can_use_terminal(const HostCall& call);
/// Returns true if the command reads standard input, which cannot be read twice.
[[nodiscard]] bool reads_input(const HostCall& call);
/// Returns true if the command exits with the code of the user's own program, which may be 255.
/// ssh uses this code for a lost connection.
[[nodiscard]] bool returns_users_exit_code(const HostCall& call);

}  // namespace dlrun
