#include "runtime/agent/profile.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "common/files.h"
#include "common/quoting.h"
#include "common/subprocess.h"
#include "common/text.h"

namespace dlrun::agent {
namespace {

/// Shortest delay, in seconds, of a profiler that attaches to the program. At first the program's
/// process is a shell, which py-spy cannot profile.
constexpr int kShortestAttachDelaySeconds = 1;

std::vector<std::string> nsys_words(const ProfileOptions& options, const std::string& profiler,
                                    const std::string& output) {
  std::vector<std::string> words{profiler, "profile", "--output=" + output,
                                 "--force-overwrite=true", "--wait=all"};
  if (options.delay_s > 0) words.push_back(fmt::format("--delay={}", options.delay_s));
  // Without --kill=none, nsys ends the program at the end of the profile.
  if (options.length_s > 0) {
    words.push_back(fmt::format("--duration={}", options.length_s));
    words.emplace_back("--kill=none");
  }
  return words;
}

/// Returns the shell command of a profiler that attaches to the process $$.
std::string attach_command(const ProfileOptions& options, const std::string& profiler,
                           const std::string& output) {
  if (options.tool == "perf")
    return fmt::format(R"({} record -g --output {} --pid "$$"{})", shell_quote(profiler),
                       shell_quote(output + ".perf.data"),
                       options.length_s > 0 ? fmt::format(" -- sleep {}", options.length_s) : "");
  return fmt::format(R"({} record --format speedscope --subprocesses --output {} --pid "$$"{})",
                     shell_quote(profiler), shell_quote(output + ".speedscope.json"),
                     options.length_s > 0 ? fmt::format(" --duration {}", options.length_s) : "");
}

}  // namespace

bool ProfileOptions::includes(int rank) const {
  return !tool.empty() && std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

Result<> ProfileOptions::set_ranks(std::string_view text) {
  ranks.clear();
  for (const auto word : split(text, ',')) {
    const auto rank = parse_int(word);
    if (!rank || *rank < 0 || *rank > 1'000'000'000)
      return fail(Errc::kUsage, "--profile-ranks '{}' is not the number of a rank",
                  printable(word));
    ranks.push_back(static_cast<int>(*rank));
  }
  return {};
}

std::vector<std::string> argv_under_profiler(const ProfileOptions& options,
                                             const std::string& profiler,
                                             const std::filesystem::path& output,
                                             const std::vector<std::string>& argv) {
  std::vector<std::string> words;
  if (!options.attaches()) {
    words = nsys_words(options, profiler, output.string());
  } else {
    // The profiler must not be a child of the program, which may wait for all its children. The
    // subshell ends immediately, so the profiler becomes a child of the agent.
    words = {"sh", "-c",
             fmt::format("( {{ sleep {}; exec {}; }} >{} 2>&1 </dev/null & )\nexec \"$@\"",
                         std::max(options.delay_s, kShortestAttachDelaySeconds),
                         attach_command(options, profiler, output.string()),
                         shell_quote(output.string() + ".log")),
             "dlrun-profile"};
  }
  words.insert(words.end(), argv.begin(), argv.end());
  return words;
}

Result<std::vector<std::string>> prepare_profiling(const ProfileOptions& options, const Env& env,
                                                   const std::filesystem::path& folder, int rank,
                                                   const std::vector<std::string>& argv) {
  const auto profiler = find_program(options.tool, env);
  if (!profiler)
    return fail(Errc::kNotFound,
                "profile.tool: {} is not on the PATH of this rank; load the module that brings it "
                "(environment.modules.load), or put it into the image (PATH={})",
                options.tool, printable(env.get_or("PATH", "")));
  if (folder.empty())
    return fail(Errc::kNotFound, "profile: there is no run directory for the result (DLRUN_RUN)");
  DLRUN_TRY(make_private_directories(folder));
  return argv_under_profiler(options, *profiler, folder / fmt::format("rank-{:04}", rank), argv);
}

}  // namespace dlrun::agent
