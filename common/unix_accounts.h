#pragma once
// Looks up Unix users and groups of this machine. There are two implementations:
//
// - unix_accounts.cc asks the C library, which loads modules for directory services (SSSD, LDAP).
// - unix_accounts_portable.cc is for the portable dlrun. A static program cannot load the modules,
//   because they need the machine's version of the C library. This implementation looks up users in
//   /etc/passwd, then with `getent`, then with `id`. It looks up groups with `getent`, or in
//   /etc/group if the machine has no getent.

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace dlrun {

struct UnixAccount {
  std::string name;
  gid_t group = 0;  ///< the user's primary group
};

struct UnixGroup {
  std::string name;
  /// The users that the group's own entry lists. A user who has this group as primary group is
  /// usually missing from the list.
  std::vector<std::string> members;
};

/// Returns the account with this number; nullopt if there is none, or if the look-up fails.
/// Thread-safe. The portable dlrun caches each answer until the process ends.
[[nodiscard]] std::optional<UnixAccount> unix_account_of(uid_t uid);

/// Returns the group with this number; nullopt if there is none, or if the look-up fails.
/// Thread-safe.
[[nodiscard]] std::optional<UnixGroup> unix_group_of(gid_t gid);

}  // namespace dlrun
