#include "common/bad_nodes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/files.h"
#include "common/hostlist.h"
#include "common/json_lines.h"
#include "common/text.h"
#include "common/untrusted_file.h"

namespace dlrun {
namespace {

using Json = nlohmann::ordered_json;

constexpr off_t kTailBytes = 1 << 20;
/// Writers write only this many bytes of BadNode::reason, so that a line stays short. Readers use
/// only this many bytes of each text in a line, because another user may have written the line.
constexpr std::size_t kTextLimitBytes = 400;

/// Opens or creates a regular file for appending. Does not block if the path is a FIFO without a
/// reader. Fails with kIo, and with kInvalid if the path is not a regular file, is a symbolic link,
/// has several hard links or is replaced meanwhile: another user who owns the folder could use
/// links to redirect the lines into another file of this user.
Result<UniqueFd> open_to_append(const std::filesystem::path& file) {
  constexpr int kFlags =
      O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  UniqueFd fd(::open(file.c_str(), kFlags, 0666));
  if (!fd.is_open() && errno == ELOOP)
    return fail(Errc::kInvalid,
                "{}: is a symbolic link, which dlrun does not follow; name the file itself",
                printable(file.string()));
  if (!fd.is_open()) return fail(Errc::kIo, "{}: {}", printable(file.string()), errno_text(errno));
  struct stat opened {
  }, named{};
  if (::fstat(fd.get(), &opened) != 0 || !S_ISREG(opened.st_mode))
    return fail(Errc::kInvalid, "{}: is not a regular file", printable(file.string()));
  // Another user of the folder could make the path a hard link to one of this user's files before
  // open(), and remove the link afterwards. The opened file then has only one link again. Therefore
  // the path must still lead to the opened file.
  if (::lstat(file.c_str(), &named) != 0 || named.st_dev != opened.st_dev ||
      named.st_ino != opened.st_ino || named.st_nlink != 1)
    return fail(Errc::kInvalid,
                "{}: was replaced just now, or has several hard links; dlrun writes only to a file "
                "with one name",
                printable(file.string()));
  return fd;
}

/// Returns true if the file's last line has no newline, because its writer was interrupted.
bool lacks_final_newline(int fd) {
  char last = '\n';
  const off_t size = ::lseek(fd, 0, SEEK_END);
  return size > 0 && ::pread(fd, &last, 1, size - 1) == 1 && last != '\n';
}

/// Appends the lines and syncs the file. First ends an incomplete line.
Result<> append_lines(const std::filesystem::path& file, std::string lines) {
  DLRUN_TRY_ASSIGN(const auto fd, open_to_append(file));
  if (lacks_final_newline(fd.get())) lines.insert(0, 1, '\n');
  if (auto written = write_all(fd.get(), lines); !written)
    return within(printable(file.string()), written.error());
  if (::fsync(fd.get()) != 0)
    return fail(Errc::kIo, "{}: {}", printable(file.string()), errno_text(errno));
  return {};
}

/// Returns the beginning of the text in a field, at most kTextLimitBytes bytes; "" if the field is
/// missing or is not a text.
std::string bounded_text(const Json& json, std::string_view key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_string()) return {};
  return cut_text(found->get_ref<const std::string&>(), kTextLimitBytes);
}

/// Returns the time in a field, moved into the years from 1970 to 9999. Returns the beginning of
/// 1970 if the field is missing or is not a whole number.
std::chrono::sys_seconds bounded_time(const Json& json, std::string_view key) {
  const auto found = json.find(key);
  // End of the year 9999, so that the time can be printed.
  constexpr std::int64_t kLatest = 253'402'300'799;
  const bool is_number = found != json.end() && found->is_number_integer();
  const auto seconds =
      is_number ? std::clamp<std::int64_t>(found->get<std::int64_t>(), 0, kLatest) : 0;
  return std::chrono::sys_seconds(std::chrono::seconds(seconds));
}

/// Returns true if the text is the name of a single node. dlrun never writes a range or a name that
/// looks like an option into the file.
bool is_node_name(const std::string& name) {
  return !name.empty() && name.size() <= 255 && name.front() != '-' &&
         name.find_first_of("[],") == std::string::npos && check_hostlist(name).has_value();
}

/// Returns the lines in the last kTailBytes bytes of the file.
Result<std::string> read_tail(const std::filesystem::path& file) {
  DLRUN_TRY_ASSIGN(const auto fd, open_untrusted(file, Links::kRefuse));
  const off_t size = ::lseek(fd.get(), 0, SEEK_END);
  const off_t from = std::max<off_t>(size - kTailBytes, 0);
  std::string tail(static_cast<std::size_t>(std::max<off_t>(size - from, 0)), '\0');
  const ssize_t got = ::pread(fd.get(), tail.data(), tail.size(), from);
  if (got < 0) return fail(Errc::kIo, "{}: {}", printable(file.string()), errno_text(errno));
  tail.resize(static_cast<std::size_t>(got));
  if (from > 0) tail.erase(0, tail.find('\n') + 1);  // the first line is probably incomplete
  return tail;
}

}  // namespace

Result<> remember_bad_nodes(const std::filesystem::path& file, std::span<const BadNode> nodes) {
  std::string lines;
  for (const BadNode& bad : nodes) {
    lines += to_checked_line(Json{{"node", bad.node},
                                  {"cluster", bad.cluster},
                                  {"reason", bad.reason.substr(0, kTextLimitBytes)},
                                  {"run", bad.run},
                                  {"job", bad.job},
                                  {"since", bad.since.time_since_epoch().count()},
                                  {"until", bad.until.time_since_epoch().count()}});
  }
  return lines.empty() ? Result<>() : append_lines(file, std::move(lines));
}

Result<> forget_bad_node(const std::filesystem::path& file, const std::string& node,
                         std::chrono::sys_seconds now) {
  return append_lines(
      file, to_checked_line(Json{{"forget", node}, {"since", now.time_since_epoch().count()}}));
}

Result<std::vector<BadNode>> read_bad_nodes(const std::filesystem::path& file,
                                            std::chrono::sys_seconds now) {
  const auto tail = read_tail(file);
  if (!tail && tail.error().code == Errc::kNotFound) return std::vector<BadNode>();
  if (!tail) return tl::unexpected(tail.error());
  std::map<std::pair<std::string, std::string>, BadNode> known;
  for (const auto& line : parse_checked_lines(*tail).objects) {
    if (const auto forgotten = bounded_text(line, "forget"); !forgotten.empty()) {
      std::erase_if(known, [&](const auto& entry) { return entry.second.node == forgotten; });
      continue;
    }
    BadNode bad{bounded_text(line, "node"),   bounded_text(line, "cluster"),
                bounded_text(line, "reason"), bounded_text(line, "run"),
                bounded_text(line, "job"),    bounded_time(line, "since"),
                bounded_time(line, "until")};
    if (is_node_name(bad.node)) known[{bad.cluster, bad.node}] = std::move(bad);
  }
  std::vector<BadNode> nodes;
  for (auto& [key, bad] : known) {
    if (bad.until > now) nodes.push_back(std::move(bad));
  }
  return nodes;
}

}  // namespace dlrun
