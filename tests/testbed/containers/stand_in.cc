#include "stand_in.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include <sched.h>

namespace stand_in {

void die_errno(const std::string& what) {
  die(what + ": " + std::strerror(errno));
}

void check(bool is_ok, const std::string& what) {
  if (!is_ok) die_errno(what);
}

std::string variable(const char* name, std::string otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : std::move(otherwise);
}

std::vector<char*> pointers(Words& words) {
  std::vector<char*> list;
  for (std::string& word : words) list.push_back(word.data());
  list.push_back(nullptr);
  return list;
}

void run(Words words) {
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  check(pid >= 0, "fork");
  if (pid == 0) {
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
    ::execvp(words[0].c_str(), pointers(words).data());
    die_errno(words[0]);
  }
  int status = 0;
  check(::waitpid(pid, &status, 0) == pid, "waitpid");
  if (status != 0) die(words[0] + " failed");
}

std::optional<std::string> Arguments::next_option(
    std::initializer_list<std::string_view> with_value) {
  if (words_.empty() || words_[0].size() < 2 || words_[0][0] != '-') return std::nullopt;
  std::string name = take();
  if (name == "--") return std::nullopt;
  const auto equals = name.starts_with("--") ? name.find('=') : std::string::npos;
  value_.clear();
  if (equals != std::string::npos) {
    value_ = name.substr(equals + 1);
    name.resize(equals);
  } else if (std::find(with_value.begin(), with_value.end(), name) != with_value.end()) {
    if (words_.empty()) die(name + " needs a value");
    value_ = take();
  }
  return name;
}

std::string Arguments::take() {
  if (words_.empty()) die("an argument is missing");
  std::string word = std::move(words_.front());
  words_.erase(words_.begin());
  return word;
}

namespace {

void write_text(const char* path, const std::string& text) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  check(fd >= 0 && ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()),
        path);
  ::close(fd);
}

/// Returns the flags of the existing mount. A remount must repeat them: in a user namespace, a
/// process may add flags but not remove them.
[[nodiscard]] unsigned long locked_flags(const fs::path& target) {
  struct statvfs now {};
  check(::statvfs(target.c_str(), &now) == 0, target);
  return now.f_flag &
         (MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY | MS_NOATIME | MS_NODIRATIME | MS_RELATIME);
}

}  // namespace

void enter_namespaces(bool is_root) {
  const auto uid = ::geteuid();
  const auto gid = ::getegid();
  check(::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0, "unshare (are user namespaces allowed here?)");
  write_text("/proc/self/setgroups", "deny");
  write_text("/proc/self/uid_map",
             (is_root ? std::string("0") : std::to_string(uid)) + " " + std::to_string(uid) + " 1");
  write_text("/proc/self/gid_map",
             (is_root ? std::string("0") : std::to_string(gid)) + " " + std::to_string(gid) + " 1");
  check(::mount(nullptr, "/", nullptr, MS_SLAVE | MS_REC, nullptr) == 0, "propagation of /");
}

void bind_mount(const fs::path& source, const fs::path& target, unsigned long flags) {
  check(::mount(source.c_str(), target.c_str(), nullptr, MS_BIND | (flags & MS_REC), nullptr) == 0,
        "failed to mount: " + source.string() + " at " + target.string());
  const unsigned long restrictions = flags & (MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC);
  if (restrictions != 0) restrict_mount(target, restrictions);
}

void restrict_mount(const fs::path& target, unsigned long restrictions) {
  check(::mount(nullptr, target.c_str(), nullptr,
                MS_REMOUNT | MS_BIND | restrictions | locked_flags(target), nullptr) == 0,
        "failed to remount " + target.string());
}

void make_target(const fs::path& source, const fs::path& target) {
  std::error_code error;
  if (fs::exists(target, error)) return;
  if (fs::is_directory(source)) {
    fs::create_directories(target, error);
  } else {
    fs::create_directories(target.parent_path(), error);
    std::ofstream touch(target);
  }
}

void change_root(const fs::path& root) {
  check(::chdir(root.c_str()) == 0 && ::syscall(SYS_pivot_root, ".", ".") == 0,
        "pivot_root " + root.string());
  check(::umount2(".", MNT_DETACH) == 0 && ::chdir("/") == 0, "the old root");
}

}  // namespace stand_in
