// Reads a host's file with the reader of site files. read_keys() reads the keys; the table kKeys
// describes the same keys for docs/remote.md.

#include "launcher/remote/host_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "common/text.h"
#include "common/unix_accounts.h"
#include "launcher/spec/config_reader.h"
#include "launcher/spec/map_reader.h"
#include "launcher/spec/value_syntax.h"

namespace dlrun {
namespace {

/// One key of a host's file, for docs/remote.md.
struct HostFileKey {
  std::string_view path, fallback, help;
};

constexpr std::array<HostFileKey, 7> kKeys{{
    {"ssh", "the file's name",
     "A `Host` of `~/.ssh/config`, or `USER@HOST`. Keys, jump hosts and "
     "ssh-agent stay in ssh's configuration."},
    {"root", "~/dlrun",
     "The folder on the host for copies of your code. The host expands `~` and "
     "`$NAME`. Your runs are below it unless `--runs`, `DLRUN_RUNS` or the site names another "
     "folder."},
    {"dlrun", "auto",
     "`auto`: dlrun copies itself to `~/.cache/dlrun/HASH` on the host. Otherwise "
     "the path of a dlrun that is installed there."},
    {"master", "auto",
     "`auto`: calls share one connection, which dlrun opens. `existing`: only "
     "`dlrun host login NAME` opens it. `none`: every call connects anew, which needs a "
     "key, or ssh-agent."},
    {"persist", "4h",
     "How long a shared connection stays open without use, such as `30m` or `4h`."},
    {"login_shell", "false",
     "`true` if the host finds Slurm's commands only after it has read `/etc/profile`."},
    {"sync", "",
     "The files that are copied to the host: `from: git` (the files that git lists, the "
     "default) or `none`; `also`: files and folders that git ignores; `exclude`: patterns of "
     "files that are not copied; `max`: the largest total size (200M)."},
}};

bool is_letter_digit_or(char c, std::string_view others) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         others.find(c) != std::string_view::npos;
}

/// Returns true if the text has only letters, digits and the characters in `others`.
bool has_only_letters_digits_and(std::string_view text, std::string_view others) {
  return std::all_of(text.begin(), text.end(),
                     [&](char c) { return is_letter_digit_or(c, others); });
}

/// Refuses a name that ssh would take as an option, or that a shell would change.
Result<> check_alias(const std::string& alias) {
  if (!alias.starts_with('-') && has_only_letters_digits_and(alias, "._-@:")) return {};
  return fail(Errc::kInvalid,
              "'{}' is not the name of a host: expected letters, digits, '.', '_', '-', '@' and "
              "':', and no '-' at the start; other settings belong in ~/.ssh/config",
              printable(alias));
}

/// Refuses a path that different shells would read differently.
Result<> check_program(const std::string& path) {
  if (path == "auto") return {};
  const bool is_path = path.starts_with('/') || path.starts_with("~/") || path.starts_with("$");
  if (is_path && has_only_letters_digits_and(path, "/._-+~$")) return {};
  return fail(
      Errc::kInvalid,
      "'{}': expected auto, or the path of dlrun on the host, which starts with /, ~/ or $NAME "
      "and has only letters, digits and / . _ - + ~ $",
      printable(path));
}

Result<> check_root(const std::string& root) {
  if (root.starts_with('/') || root.starts_with('~') || root.starts_with('$')) return {};
  return fail(Errc::kInvalid, "'{}': expected an absolute path, or one that starts with ~ or $NAME",
              printable(root));
}

/// Accepts a number of seconds, or a number with s, m, h or d after it; at most eight characters.
/// ssh reads these durations in the same way, so it gets the value unchanged.
Result<> check_duration(const std::string& text) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const bool begins_with_short_number = !text.empty() && text.size() <= 8 &&
                                        is_digit(text.front()) &&
                                        std::all_of(text.begin(), text.end() - 1, is_digit);
  if (begins_with_short_number &&
      std::string_view("0123456789smhd").find(text.back()) != std::string::npos)
    return {};
  return fail(
      Errc::kInvalid,
      "'{}': expected a duration of at most eight characters, such as 90 (seconds), 30m, 4h or 1d",
      printable(text));
}

Result<> check_size(const std::string& text) {
  if (memory_mib(text)) return {};
  return fail(Errc::kInvalid, "'{}' is not a size; expected one such as 200M or 2G",
              printable(text));
}

/// Refuses a path or a pattern that is absolute or has a part "..".
Result<> check_inside(const std::string& path) {
  const std::filesystem::path given(path);
  const bool can_leave_repository =
      given.is_absolute() ||
      std::any_of(given.begin(), given.end(), [](const auto& part) { return part == ".."; });
  if (!can_leave_repository) return {};
  return fail(Errc::kInvalid,
              "'{}': expected a path relative to the repository's top folder, without '..'",
              printable(path));
}

void read_sync(MapReader& reader, YamlId id, HostFile& host) {
  std::string from = "git", max;
  reader.read(id, {{"from", reader.choice(from, {"git", "none"})},
                   {"also", reader.list(host.sync_also, check_inside)},
                   {"exclude", reader.list(host.sync_exclude, check_inside)},
                   {"max", reader.checked(max, check_size)}});
  host.sync_from = from == "none" ? CodeSource::kNone : CodeSource::kGit;
  if (!max.empty()) host.sync_max_bytes = *memory_mib(max) << 20;
}

HostFile read_keys(const ConfigFile& file, std::string_view name,
                   std::vector<Diagnostic>& problems) {
  HostFile host;
  host.name = name;
  host.source = file.source;
  host.ssh_destination = name;
  std::string master = "auto";
  MapReader reader(file, problems);
  reader.read(file.document.root, {{"ssh", reader.checked(host.ssh_destination, check_alias)},
                                   {"root", reader.checked(host.root, check_root)},
                                   {"dlrun", reader.checked(host.program, check_program)},
                                   {"master", reader.choice(master, {"auto", "existing", "none"})},
                                   {"persist", reader.checked(host.persist, check_duration)},
                                   {"login_shell", reader.boolean(host.uses_login_shell)},
                                   {"sync", [&](YamlId id) { read_sync(reader, id, host); }}});
  host.master = master == "existing" ? MasterUse::kExisting
                : master == "none"   ? MasterUse::kNone
                                     : MasterUse::kAuto;
  return host;
}

/// Returns true if the group is the user's private group, which is the primary group, has the
/// user's name and has no other members. Many systems give every user such a group and the umask
/// 002.
bool is_private_group(gid_t gid) {
  const auto user = unix_account_of(::geteuid());
  if (!user || user->group != gid) return false;
  const auto group = unix_group_of(gid);
  if (!group || group->name != user->name) return false;
  return std::all_of(group->members.begin(), group->members.end(),
                     [&](const std::string& member) { return member == user->name; });
}

/// Fails if somebody other than the user and root owns the file or folder, or can write to it.
Result<> check_writers(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return {};
  const bool is_owner_trusted = status.st_uid == ::geteuid() || status.st_uid == 0;
  const bool can_group_write = (status.st_mode & S_IWGRP) != 0 && !is_private_group(status.st_gid);
  if (!is_owner_trusted) {
    return fail(
        Errc::kInvalid,
        "{}: belongs to another user, who could change which host gets your commands; copy the "
        "host's file into a folder of yours, such as ~/.config/dlrun/hosts",
        printable(path.string()));
  }
  if ((status.st_mode & S_IWOTH) == 0 && !can_group_write) return {};
  return fail(
      Errc::kInvalid,
      "{}: another user can write to this file or folder, which decides which host gets your "
      "commands; run `chmod go-w` on it",
      printable(path.string()));
}

}  // namespace

std::string host_file_keys_markdown() {
  std::string text = "| key | default | meaning |\n|---|---|---|\n";
  for (const HostFileKey& key : kKeys)
    text += fmt::format("| `{}` | {} | {} |\n", key.path, key.fallback, key.help);
  return text;
}

Result<HostFile> read_host(std::string_view name, const std::vector<std::filesystem::path>& dirs) {
  std::vector<Diagnostic> problems;
  const auto file = is_slug(name) ? find_config("hosts", name, dirs, problems) : std::nullopt;
  if (file) {
    // Users who can write to the folder can replace the file.
    DLRUN_TRY(check_writers(std::filesystem::path(file->source).parent_path()));
    DLRUN_TRY(check_writers(file->source));
  }
  HostFile host;
  if (file) host = read_keys(*file, name, problems);
  if (!problems.empty()) return fail(Errc::kInvalid, std::move(problems));
  if (file) return host;
  const auto known = host_names(dirs);
  const std::vector<std::string_view> candidates(known.begin(), known.end());
  const auto meant = nearest(name, candidates);
  const std::string hint =
      meant ? fmt::format("; did you mean '{}'?", *meant)
            : fmt::format("; known: {}", known.empty() ? "none" : join(known, " "));
  return fail(Errc::kNotFound,
              "there is no host '{}'{}\nA host's file, such as {}, needs only one line: ssh: ALIAS "
              "(a Host of ~/.ssh/config)",
              printable(name), hint,
              ((dirs.empty() ? std::filesystem::path("~/.config/dlrun") : dirs.front()) / "hosts" /
               "NAME.yaml")
                  .string());
}

std::vector<std::string> host_names(const std::vector<std::filesystem::path>& dirs) {
  auto names = config_names("hosts", dirs);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace dlrun
