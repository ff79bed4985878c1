#pragma once
// Looks up users and groups of this machine. There are two implementations. accounts.cc asks the C
// library, whose modules (SSSD, LDAP) the linker loads. A static program cannot load them: they end
// a program that has another version of the C library. The portable dlrun is linked with
// accounts_portable.cc. This implementation reads users from /etc/passwd and then asks `getent` and
// `id`, and it asks `getent` for groups, or reads /etc/group where there is no getent.

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace dlrun {

struct Account {
  std::string name;
  gid_t group = 0;  ///< the user's first group
};

struct AccountGroup {
  std::string name;
  std::vector<std::string> members;  ///< without the users whose first group it is
};

/// Returns the account of a user; nullopt if the machine has none of this number. Thread-safe. The
/// portable dlrun keeps each answer until the process ends.
[[nodiscard]] std::optional<Account> account_of(uid_t uid);

/// Returns a group; nullopt if the machine has none of this number.
[[nodiscard]] std::optional<AccountGroup> account_group(gid_t gid);

}  // namespace dlrun
