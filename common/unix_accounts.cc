// Asks the C library for Unix users and groups. The C library loads the modules that
// /etc/nsswitch.conf lists.
#include "common/unix_accounts.h"

#include <grp.h>
#include <pwd.h>

#include <cerrno>

namespace dlrun {
namespace {

constexpr std::size_t kFirstBufferBytes = 4096;
/// A group may have tens of thousands of members.
constexpr std::size_t kLargestBufferBytes = 4U << 20U;

/// Calls look_up(buffer, size) with larger and larger buffers until the entry fits. Gives up if the
/// entry does not fit into kLargestBufferBytes.
template <typename F>
void with_buffer(const F& look_up) {
  for (std::vector<char> buffer(kFirstBufferBytes); buffer.size() <= kLargestBufferBytes;
       buffer.resize(buffer.size() * 4)) {
    if (look_up(buffer.data(), buffer.size()) != ERANGE) return;
  }
}

}  // namespace

std::optional<UnixAccount> unix_account_of(uid_t uid) {
  std::optional<UnixAccount> account;
  with_buffer([&](char* buffer, std::size_t size) {
    struct passwd entry {};
    struct passwd* found = nullptr;
    const int code = ::getpwuid_r(uid, &entry, buffer, size, &found);
    if (code == 0 && found != nullptr) account = UnixAccount{found->pw_name, found->pw_gid};
    return code;
  });
  return account;
}

std::optional<UnixGroup> unix_group_of(gid_t gid) {
  std::optional<UnixGroup> group;
  with_buffer([&](char* buffer, std::size_t size) {
    struct group entry {};
    struct group* found = nullptr;
    const int code = ::getgrgid_r(gid, &entry, buffer, size, &found);
    if (code != 0 || found == nullptr) return code;
    group = UnixGroup{found->gr_name, {}};
    for (char** member = found->gr_mem; *member != nullptr; ++member)
      group->members.emplace_back(*member);
    return code;
  });
  return group;
}

}  // namespace dlrun
