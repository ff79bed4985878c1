// Accounts without the C library's modules: the files of the machine first, then programs of the
// machine, which can load its modules.
#include <chrono>
#include <string_view>

#include "common/accounts.h"
#include "common/env.h"
#include "common/files.h"
#include "common/subprocess.h"
#include "common/text.h"

namespace dlrun {
namespace {

constexpr std::size_t kLargestFile = 64U << 20U;  ///< bytes, of /etc/passwd
constexpr std::chrono::seconds kLimit{20};        ///< a directory service may be slow

/// Returns the output of a program; an empty text if it fails or does not exist.
std::string output_of(std::vector<std::string> argv) {
  Command command;
  command.argv = std::move(argv);
  command.env = Env::of_process();
  command.timeout = kLimit;
  const auto finished = run_command(command);
  return finished && finished->exit_code == 0 ? finished->out : std::string();
}

/// Returns the fields of the first line "NAME:x:NUMBER:..." with this number; empty if there is
/// none.
std::vector<std::string_view> fields_of(std::string_view text, std::uint64_t number) {
  for (const std::string_view line : split(text, '\n')) {
    auto fields = split(line, ':');
    if (fields.size() < 4 || fields[0].empty()) continue;
    if (const auto value = parse_int(fields[2]);
        value && *value >= 0 && static_cast<std::uint64_t>(*value) == number)
      return {fields.begin(), fields.end()};
  }
  return {};
}

/// Calls make(fields) for the entry of this number in the file, or else in the answer of getent.
/// Returns false if neither has it.
template <typename F>
bool find_entry(const char* file, const char* database, std::uint64_t number, const F& make) {
  const auto text = read_file(file, kLargestFile);
  if (text) {
    if (const auto fields = fields_of(*text, number); !fields.empty()) {
      make(fields);
      return true;
    }
  }
  const std::string answer = output_of({"getent", database, std::to_string(number)});
  const auto fields = fields_of(answer, number);
  if (!fields.empty()) make(fields);
  return !fields.empty();
}

}  // namespace

std::optional<Account> account_of(uid_t uid) {
  std::optional<Account> account;
  const auto make = [&](const std::vector<std::string_view>& fields) {
    account =
        Account{std::string(fields[0]), static_cast<gid_t>(parse_int(fields[3]).value_or(uid))};
  };
  if (find_entry("/etc/passwd", "passwd", uid, make)) return account;
  // A system without getent may still have id.
  const std::string answer = output_of({"id", "-un", std::to_string(uid)});
  const std::string name(trim(answer));
  const auto group = parse_int(trim(output_of({"id", "-g", std::to_string(uid)})));
  if (name.empty() || !group) return std::nullopt;
  return Account{name, static_cast<gid_t>(*group)};
}

std::optional<AccountGroup> account_group(gid_t gid) {
  std::optional<AccountGroup> group;
  find_entry("/etc/group", "group", gid, [&](const std::vector<std::string_view>& fields) {
    group = AccountGroup{std::string(fields[0]), {}};
    for (const std::string_view member : split(fields[3], ',')) {
      if (!member.empty()) group->members.emplace_back(member);
    }
  });
  return group;
}

}  // namespace dlrun
