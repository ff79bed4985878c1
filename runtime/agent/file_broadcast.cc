#include "runtime/agent/file_broadcast.h"

#include <sys/stat.h>

#include <chrono>

#include <fmt/format.h>

#include "common/subprocess.h"
#include "common/text.h"
#include "runtime/agent/file_tree.h"

namespace dlrun::agent {
namespace {

constexpr std::chrono::seconds kSbcastStartLimit{60};
constexpr std::int64_t kSlowestBytesPerSecond = 10 << 20;

}  // namespace

std::vector<FileBroadcast> planned_file_broadcasts(const std::vector<StageItem>& items,
                                                   const Env& env, std::int64_t nodes) {
  const auto least = parse_int(env.get_or("DLRUN_SBCAST_NODES", "")).value_or(kLeastBroadcastNodes);
  if (least < 1 || nodes < least || nodes < 2 || !find_program("sbcast", env)) return {};
  std::vector<FileBroadcast> files;
  for (std::size_t i = 0; i < items.size(); ++i) {
    // sbcast writes outside of containers. An agent inside a container would not find the file.
    if (items[i].in_container) continue;
    struct stat info {};
    const auto target = node_path(items[i].to, env);
    // If the folder is on a network file system, all nodes would write the same file at the same
    // time. The agents of the nodes refuse such a folder anyway.
    if (!target || is_on_network(target->base)) continue;
    if (::stat(items[i].from.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    if (static_cast<std::int64_t>(info.st_size) < kLeastBroadcastBytes) continue;
    files.push_back(
        {i, items[i].from,
         target->base / (std::string(kBroadcastPrefix) + random_hex(kBroadcastDigits / 2)),
         static_cast<std::int64_t>(info.st_size)});
  }
  return files;
}

FileBroadcastResult broadcast_files(const std::vector<FileBroadcast>& files, std::size_t item_count,
                                    const Env& env) {
  FileBroadcastResult result{std::vector<std::string>(item_count), {}};
  for (const auto& file : files) {
    Command command;
    // Without --force sbcast does not write to a file that exists, such as a link of another user.
    command.argv = {"sbcast", "--preserve", file.from, file.to.string()};
    command.env = env;
    command.env.remove_matching({"SBCAST_*"}, {});
    command.timeout = kSbcastStartLimit + std::chrono::seconds(file.bytes / kSlowestBytesPerSecond);
    // The agents also get the path of an incomplete copy: they recognise it and remove it.
    result.copies[file.item] = file.to.string();
    const auto done = run_command(command);
    if (done && done->exit_code == 0) continue;
    const auto words = done ? trim(done->err) : std::string_view(done.error().message);
    result.problems.push_back(
        fmt::format("sbcast of {} has failed, so every node copies the file itself: {}",
                    printable(file.from), printable(words.substr(0, words.find('\n')))));
  }
  return result;
}

}  // namespace dlrun::agent
