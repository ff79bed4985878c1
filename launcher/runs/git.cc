#include "launcher/runs/git.h"

#include <string_view>

#include "common/text.h"

namespace dlrun {
namespace {

/// Returns the options that precede the command in every call.
const std::vector<std::string>& safe_options() {
  static const std::vector<std::string> kOptions = {
      "--no-pager",     "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c",
      "core.pager=cat", "-c", "diff.external=",       "-c", "submodule.recurse=false"};
  return kOptions;
}

Env safe_environment(Env env) {
  // Removes the variables that a hook or another repository may have set. Keeps the variables for
  // - the user's and the system's configuration, because git reads `safe.directory` only there;
  // - the limits of git's search for a repository;
  // - the folder of git's programs.
  env.remove_matching(
      {"GIT_*"}, {"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM",
                  "GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM", "GIT_EXEC_PATH"});
  env.set("GIT_OPTIONAL_LOCKS", "0");
  env.set("GIT_TERMINAL_PROMPT", "0");
  // Prevents a partial clone from fetching missing objects: its configuration chooses the remote
  // and the program that fetches.
  env.set("GIT_NO_LAZY_FETCH", "1");
  env.set("GIT_ALLOW_PROTOCOL", "none");
  env.set("LC_ALL", "C");
  return env;
}

Result<FinishedCommand> call_git(const std::filesystem::path& folder, const Env& env,
                                 const std::vector<std::string>& options,
                                 const std::vector<std::string>& arguments,
                                 std::chrono::milliseconds timeout) {
  Command command;
  command.argv = {"git", "-C", folder.string()};
  command.argv.insert(command.argv.end(), safe_options().begin(), safe_options().end());
  command.argv.insert(command.argv.end(), options.begin(), options.end());
  command.argv.insert(command.argv.end(), arguments.begin(), arguments.end());
  command.env = env;
  command.timeout = timeout;
  return run_command(command);
}

/// Returns the options that switch off every configured filter. Otherwise git would run the filters
/// to compare a file that looks changed. The user's own filters are switched off, too, because a
/// repository can redefine their names.
Result<std::vector<std::string>> options_that_disable_filters(const std::filesystem::path& folder,
                                                              const Env& env,
                                                              std::chrono::milliseconds timeout) {
  constexpr std::size_t kMostFilterSettings = 256;
  DLRUN_TRY_ASSIGN(const auto listed,
                   call_git(folder, env, {},
                            {"config", "--includes", "--name-only", "-z", "--get-regexp",
                             "^filter\\..*\\.(clean|smudge|process|required)$"},
                            timeout));
  std::vector<std::string> options;
  if (listed.exit_code == 1) return options;  // there are no filters
  if (listed.exit_code != 0)
    return fail(Errc::kInvalid, "git config: {}", printable(trim(listed.err)));
  for (const std::string_view name : split(listed.out, '\0')) {
    if (name.empty()) continue;
    // `-c NAME=VALUE` takes the text before the first '=' as the name.
    if (name.find('=') != std::string_view::npos)
      return fail(Errc::kInvalid,
                  "git's configuration has a filter that cannot be switched off, because its name "
                  "has a '=': '{}'",
                  printable(name));
    if (options.size() >= 2 * kMostFilterSettings)
      return fail(
          Errc::kInvalid,
          "git's configuration has more than {} settings of filters, and dlrun switches off "
          "no more than that",
          kMostFilterSettings);
    options.emplace_back("-c");
    options.push_back(std::string(name) + (name.ends_with(".required") ? "=false" : "="));
  }
  return options;
}

}  // namespace

Result<FinishedCommand> run_git(const std::filesystem::path& folder, const Env& env,
                                const std::vector<std::string>& arguments,
                                std::chrono::milliseconds timeout) {
  const Env safe = safe_environment(env);
  DLRUN_TRY_ASSIGN(const auto options, options_that_disable_filters(folder, safe, timeout));
  return call_git(folder, safe, options, arguments, timeout);
}

}  // namespace dlrun
