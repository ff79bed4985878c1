#include "runtime/agent/step_on_nodes.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include <fmt/format.h>

#include "common/hostlist.h"
#include "common/text.h"

namespace dlrun::agent {
namespace {

constexpr std::int64_t kStepTasksLimit = 1'000'000;

// Options of srun and pyxis that never take the next argument as their value (srun(1), 22.05 to
// 26.05). Every other option without a '=' takes the next argument as its value.
constexpr std::array kFlagOptions{
    std::string_view("async"),
    std::string_view("bcast"),
    std::string_view("compress"),
    std::string_view("contiguous"),
    std::string_view("disable-status"),
    std::string_view("exact"),
    std::string_view("exclusive"),
    std::string_view("external-launcher"),
    std::string_view("get-user-env"),
    std::string_view("help"),
    std::string_view("hold"),
    std::string_view("ignore-pbs"),
    std::string_view("immediate"),
    std::string_view("interactive"),
    std::string_view("join"),
    std::string_view("kill-on-bad-exit"),
    std::string_view("label"),
    std::string_view("multi-prog"),
    std::string_view("no-allocate"),
    std::string_view("no-kill"),
    std::string_view("overcommit"),
    std::string_view("overlap"),
    std::string_view("oversubscribe"),
    std::string_view("preserve-env"),
    std::string_view("propagate"),
    std::string_view("pty"),
    std::string_view("quiet"),
    std::string_view("quit-on-interrupt"),
    std::string_view("reboot"),
    std::string_view("resv-ports"),
    std::string_view("send-libs"),
    std::string_view("share"),
    std::string_view("spread-job"),
    std::string_view("test-only"),
    std::string_view("unbuffered"),
    std::string_view("usage"),
    std::string_view("use-min-nodes"),
    std::string_view("verbose"),
    std::string_view("version"),
    std::string_view("whole"),
    std::string_view("x11"),
    std::string_view("container-mount-home"),
    std::string_view("container-remap-root"),
    std::string_view("container-entrypoint"),
    std::string_view("container-writable"),
    std::string_view("container-readonly"),
    std::string_view("no-container-mount-home"),
    std::string_view("no-container-remap-root"),
    std::string_view("no-container-entrypoint"),
};
constexpr std::string_view kShortFlags = "EHhIjKklOQqsuVvXZ";
constexpr std::string_view kShortWithOptionalValue = "IKks";  // with the value in the same argument

/// One option on srun's command line.
struct StepOption {
  /// Name without dashes. If one argument has several short options, the letter of the last one.
  std::string name{};
  std::optional<std::string> value{};
  std::size_t argument_count = 1;  ///< 2 if the value is a separate argument
};

/// Parses the option at argv[at], an argument that begins with '-'.
StepOption option_at(const std::vector<std::string>& argv, std::size_t at) {
  const std::string_view word = argv[at];
  const auto with_next = [&](StepOption option) {
    if (at + 1 < argv.size()) {
      option.value = argv[at + 1];
      option.argument_count = 2;
    }
    return option;
  };
  if (word.starts_with("--")) {
    const auto equals = word.find('=');
    StepOption option{.name = std::string(
                          word.substr(2, equals == std::string_view::npos ? equals : equals - 2))};
    if (equals != std::string_view::npos) {
      option.value = std::string(word.substr(equals + 1));
      return option;
    }
    const bool is_flag =
        std::find(kFlagOptions.begin(), kFlagOptions.end(), option.name) != kFlagOptions.end();
    return is_flag ? option : with_next(std::move(option));
  }
  for (std::size_t letter = 1; letter < word.size(); ++letter) {
    StepOption option{.name = std::string(1, word[letter])};
    if (kShortFlags.find(word[letter]) != std::string_view::npos) {
      const bool takes_rest = kShortWithOptionalValue.find(word[letter]) != std::string_view::npos;
      if (takes_rest || letter + 1 == word.size()) return option;
      continue;
    }
    if (letter + 1 == word.size()) return with_next(std::move(option));
    option.value = std::string(word.substr(letter + 1));
    return option;
  }
  return {};
}

/// Returns the position of `dlrun-agent`, or argv.size(). srun's own arguments end before this
/// position, even if a later Slurm has options that this code does not know.
std::size_t agent_at(const std::vector<std::string>& argv) {
  for (std::size_t at = 1; at + 1 < argv.size(); ++at) {
    const std::string_view word = argv[at];
    if (argv[at + 1] == "rank" && word.substr(word.rfind('/') + 1) == "dlrun-agent") return at;
  }
  return argv.size();
}

bool is_replaced(const StepOption& option) {
  constexpr std::array<std::string_view, 10> kNames{"nodes", "N", "ntasks",   "n", "nodelist",
                                                    "w",     "r", "relative", "F", "nodefile"};
  return std::find(kNames.begin(), kNames.end(), option.name) != kNames.end();
}

}  // namespace

std::optional<std::vector<int>> parse_tasks_per_node(std::string_view text) {
  std::vector<int> tasks;
  for (const auto group : split(text, ',')) {
    const auto bracket = group.find("(x");
    const auto count = parse_int(group.substr(0, bracket));
    std::optional<std::int64_t> times = 1;
    if (bracket != std::string_view::npos) {
      if (!group.ends_with(')')) return std::nullopt;
      times = parse_int(group.substr(bracket + 2, group.size() - bracket - 3));
    }
    if (!count || !times || *count < 1 || *count > kStepTasksLimit || *times < 1 ||
        *times > kStepTasksLimit ||
        static_cast<std::int64_t>(tasks.size()) + *times > kStepTasksLimit) {
      return std::nullopt;
    }
    tasks.insert(tasks.end(), static_cast<std::size_t>(*times), static_cast<int>(*count));
  }
  return tasks;
}

std::vector<std::string> step_on_nodes(const std::vector<std::string>& argv, const JobLayout& job,
                                       const std::vector<std::string>& kept) {
  std::vector<std::string> command{argv.front()};
  auto per_node = job.ntasks_per_node;
  bool has_ntasks_per_node = false;
  std::size_t at = 1;
  for (const std::size_t end = agent_at(argv);
       at < end && argv[at].size() > 1 && argv[at][0] == '-';) {
    if (argv[at] == "--") break;
    const auto option = option_at(argv, at);
    const auto next = std::min(at + option.argument_count, end);
    if (option.name == "ntasks-per-node") {
      if (const auto count = parse_int(option.value.value_or(""));
          count && *count > 0 && *count <= kStepTasksLimit) {
        per_node = static_cast<int>(*count);
        has_ntasks_per_node = true;
      }
    }
    for (; at < next; ++at) {
      if (!is_replaced(option)) command.push_back(argv[at]);
    }
  }
  std::size_t tasks = 0;
  for (const auto& node : kept) {
    const auto found = std::find(job.nodes.begin(), job.nodes.end(), node);
    const bool is_known = !has_ntasks_per_node && found != job.nodes.end() &&
                          job.task_counts.size() == job.nodes.size();
    tasks += static_cast<std::size_t>(
        is_known ? job.task_counts[static_cast<std::size_t>(found - job.nodes.begin())]
                 : per_node.value_or(1));
  }
  for (auto& word : {fmt::format("--nodes={}", kept.size()), fmt::format("--ntasks={}", tasks),
                     fmt::format("--nodelist={}", compress_hostlist(kept))}) {
    command.push_back(word);
  }
  command.insert(command.end(), argv.begin() + static_cast<std::ptrdiff_t>(at), argv.end());
  return command;
}

}  // namespace dlrun::agent
