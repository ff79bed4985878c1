// Looks up Unix users and groups for the portable dlrun, which cannot load the modules of the C
// library. The programs getent and id load these modules, so they find users and groups that are in
// no file.
#include <chrono>
#include <map>
#include <mutex>
#include <string_view>

#include "common/env.h"
#include "common/files.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "common/unix_accounts.h"

namespace dlrun {
namespace {

constexpr std::size_t kLargestFileBytes = 64U << 20U;  ///< limit for /etc/passwd and /etc/group
constexpr std::chrono::seconds kProgramTimeout{20};    ///< a directory service may be slow

/// Returns the output of a program; an empty text if the program fails or does not exist.
std::string output_of(std::vector<std::string> argv) {
  Command command;
  command.argv = std::move(argv);
  command.env = Env::of_process();
  command.timeout = kProgramTimeout;
  const auto finished = run_command(command);
  return finished && finished->exit_code == 0 ? finished->out : std::string();
}

/// Returns the fields of the first line "NAME:x:ID:..." with this id; empty if no line has this id.
std::vector<std::string_view> fields_of_id(std::string_view text, std::uint64_t id) {
  for (const std::string_view line : split(text, '\n')) {
    auto fields = split(line, ':');
    if (fields.size() < 4 || fields[0].empty()) continue;
    if (const auto value = parse_int(fields[2]);
        value && *value >= 0 && static_cast<std::uint64_t>(*value) == id)
      return {fields.begin(), fields.end()};
  }
  return {};
}

/// Returns the account with this number in a text of passwd lines; nullopt if there is none.
std::optional<UnixAccount> account_in(std::string_view text, uid_t uid) {
  const auto fields = fields_of_id(text, uid);
  if (fields.empty()) return std::nullopt;
  return UnixAccount{std::string(fields[0]),
                     static_cast<gid_t>(parse_int(fields[3]).value_or(uid))};
}

/// Looks up an account in /etc/passwd, then with getent, then with id, which a system without
/// getent may have.
std::optional<UnixAccount> look_up_account(uid_t uid) {
  if (const auto text = read_file("/etc/passwd", kLargestFileBytes)) {
    if (auto account = account_in(*text, uid)) return account;
  }
  const std::string number = std::to_string(uid);
  if (auto account = account_in(output_of({"getent", "passwd", number}), uid)) return account;
  const std::string answer = output_of({"id", "-un", number});
  const std::string_view name = trim(answer);
  if (name.empty()) return std::nullopt;
  const auto group = parse_int(trim(output_of({"id", "-g", number})));
  if (!group) return std::nullopt;
  return UnixAccount{std::string(name), static_cast<gid_t>(*group)};
}

}  // namespace

std::optional<UnixAccount> unix_account_of(uid_t uid) {
  // A list of runs asks for the same users again and again, and each look-up starts processes.
  // While one thread looks up a user, the other threads wait.
  static std::mutex mutex;
  static std::map<uid_t, std::optional<UnixAccount>> answers;
  const std::scoped_lock lock(mutex);
  const auto found = answers.find(uid);
  if (found != answers.end()) return found->second;
  return answers.emplace(uid, look_up_account(uid)).first->second;
}

std::optional<UnixGroup> unix_group_of(gid_t gid) {
  // /etc/nsswitch.conf may merge the members from several sources, so /etc/group alone may lack
  // some of them.
  std::string text;
  if (find_program("getent", Env::of_process())) {
    text = output_of({"getent", "group", std::to_string(gid)});
  } else if (auto file = read_file("/etc/group", kLargestFileBytes)) {
    text = std::move(*file);
  }
  const auto fields = fields_of_id(text, gid);
  if (fields.empty()) return std::nullopt;
  UnixGroup group{std::string(fields[0]), {}};
  for (const std::string_view member : split(fields[3], ',')) {
    if (!member.empty()) group.members.emplace_back(member);
  }
  return group;
}

}  // namespace dlrun
