#include "launcher/runs/git.h"

#include <string_view>

#include "common/text.h"

namespace dlrun {
namespace {

/// The options that stand before the command of every call.
const std::vector<std::string>& safe_words() {
  static const std::vector<std::string> kWords = {
      "--no-pager",     "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c",
      "core.pager=cat", "-c", "diff.external=",       "-c", "submodule.recurse=false"};
  return kWords;
}

Env safe_environment(Env env) {
  // The user's own and the system's configuration stay: `safe.directory` is read from these alone.
  // What a hook or another repository has set is not about this folder.
  env.remove_matching(
      {"GIT_*"}, {"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM",
                  "GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM", "GIT_EXEC_PATH"});
  env.set("GIT_OPTIONAL_LOCKS", "0");
  env.set("GIT_TERMINAL_PROMPT", "0");
  // A partial clone fetches what it lacks from a remote that its configuration names, by a program
  // that it names, too.
  env.set("GIT_NO_LAZY_FETCH", "1");
  env.set("GIT_ALLOW_PROTOCOL", "none");
  env.set("LC_ALL", "C");
  return env;
}

Result<Finished> call(const std::filesystem::path& folder, const Env& env,
                      const std::vector<std::string>& options,
                      const std::vector<std::string>& words, std::chrono::milliseconds timeout) {
  Command command;
  command.argv = {"git", "-C", folder.string()};
  command.argv.insert(command.argv.end(), safe_words().begin(), safe_words().end());
  command.argv.insert(command.argv.end(), options.begin(), options.end());
  command.argv.insert(command.argv.end(), words.begin(), words.end());
  command.env = env;
  command.timeout = timeout;
  return run_command(command);
}

/// Options that switch off every filter that some configuration defines: git runs them to compare a
/// file that looks changed. Those of the user's own configuration go, too: a repository can give
/// their names another meaning.
Result<std::vector<std::string>> without_filters(const std::filesystem::path& folder,
                                                 const Env& env,
                                                 std::chrono::milliseconds timeout) {
  constexpr std::size_t kMost = 256;
  const auto listed = call(folder, env, {},
                           {"config", "--includes", "--name-only", "-z", "--get-regexp",
                            "^filter\\..*\\.(clean|smudge|process|required)$"},
                           timeout);
  if (!listed) return tl::unexpected(listed.error());
  std::vector<std::string> options;
  if (listed->exit_code == 1) return options;  // there is none
  if (listed->exit_code != 0)
    return fail(Errc::kInvalid, "git config: {}", printable(trim(listed->err)));
  for (const std::string_view name : split(listed->out, '\0')) {
    if (name.empty()) continue;
    // `-c NAME=VALUE` ends the name at its first '='.
    if (name.find('=') != std::string_view::npos || options.size() >= 2 * kMost)
      return fail(Errc::kInvalid,
                  "the repository defines filters that cannot be switched off: '{}'",
                  printable(name));
    options.emplace_back("-c");
    options.push_back(std::string(name) + (name.ends_with(".required") ? "=false" : "="));
  }
  return options;
}

}  // namespace

Result<Finished> run_git(const std::filesystem::path& folder, const Env& env,
                         const std::vector<std::string>& words, std::chrono::milliseconds timeout) {
  const Env safe = safe_environment(env);
  const auto options = without_filters(folder, safe, timeout);
  if (!options) return tl::unexpected(options.error());
  return call(folder, safe, *options, words, timeout);
}

}  // namespace dlrun
