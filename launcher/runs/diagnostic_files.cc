// The file names are those of the table in runtime/ENVIRONMENT.md, "The run directory".

#include "launcher/runs/diagnostic_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/json_read.h"
#include "common/text.h"
#include "common/untrusted_file.h"
#include "launcher/runs/directory_tree.h"

namespace dlrun {
namespace {

/// Removes all digits at the front. Returns false if there are none.
bool take_digits(std::string_view& text) {
  const auto end = text.find_first_not_of("0123456789");
  const std::size_t count = end == std::string_view::npos ? text.size() : end;
  text.remove_prefix(count);
  return count > 0;
}

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

/// Returns true for PREFIX, digits, SUFFIX.
bool is_numbered(std::string_view name, std::string_view prefix, std::string_view suffix) {
  return take_prefix(name, prefix) && take_digits(name) && name == suffix;
}

/// Returns true for local.out, slurm-42.out, slurm-42_7.out and task-7.out.
bool is_output(std::string_view name) {
  if (name == "local.out" || is_numbered(name, "task-", ".out")) return true;
  if (!take_prefix(name, "slurm-") || !take_digits(name)) return false;
  if (take_prefix(name, "_") && !take_digits(name)) return false;
  return name == ".out";
}

bool is_rank_log(std::string_view name) {
  return is_numbered(name, "rank-", ".log");
}

bool is_autopsy(std::string_view name) {
  return is_numbered(name, "rank-", ".txt") || is_numbered(name, "rank-", ".nccl-trace");
}

bool is_profile(std::string_view name) {
  return take_prefix(name, "rank-") && take_digits(name) && name.size() > 1 &&
         name.starts_with('.');
}

/// Returns true for lead.log, rank-0003.log, trainer-0003.log, server-rank-0003.log.
bool is_debug_log(std::string_view name) {
  if (name == "lead.log") return true;
  for (const std::string_view prefix : {"rank-", "trainer-"}) {
    const auto at = name.rfind(prefix);
    if (at != std::string_view::npos && (at == 0 || name[at - 1] == '-') &&
        is_numbered(name.substr(at), prefix, ".log"))
      return true;
  }
  return false;
}

/// Returns true for attempt-0.json and attempt-0-rank-0003.json.
bool is_trace(std::string_view name) {
  if (!take_prefix(name, "attempt-") || !take_digits(name)) return false;
  if (take_prefix(name, "-rank-") && !take_digits(name)) return false;
  return name == ".json";
}

bool is_attempt_folder(std::string_view name) {
  return is_numbered(name, "attempt-", "");
}

using NameRule = bool (*)(std::string_view);

/// The identity of a directory; nullopt if it does not exist.
using Identity = std::optional<std::pair<dev_t, ino_t>>;

/// Visits the diagnostic files in one directory.
class Finder {
 public:
  Finder(int directory, const std::string& checkpoint_folder, const DiagnosticVisitor& visitor)
      : directory_(directory), visitor_(visitor) {
    struct stat info {};
    if (!checkpoint_folder.empty() &&
        ::fstatat(directory, checkpoint_folder.c_str(), &info, 0) == 0)
      checkpoint_folder_ = {info.st_dev, info.st_ino};
  }

  Result<> find() {
    DLRUN_TRY(visit_files(directory_, is_output));
    for (const auto& [folder, rule] : {std::pair<const char*, NameRule>{"debug", is_debug_log},
                                       std::pair<const char*, NameRule>{"trace", is_trace}}) {
      const UniqueFd below = open(directory_, folder, folder);
      if (below.is_open()) DLRUN_TRY(visit_files(below.get(), rule));
    }
    for (const auto& [folder, rule] : {std::pair<const char*, NameRule>{"logs", is_rank_log},
                                       std::pair<const char*, NameRule>{"autopsy", is_autopsy},
                                       std::pair<const char*, NameRule>{"profile", is_profile}}) {
      const UniqueFd below = open(directory_, folder, folder);
      if (below.is_open()) DLRUN_TRY(visit_attempts(below.get(), folder, rule));
    }
    return {};
  }

 private:
  /// Opens a folder if it may be entered; otherwise returns a UniqueFd without a descriptor.
  /// Reports a mounted folder to visitor_. where: the folder's path in the directory.
  UniqueFd open(int parent, const std::string& name, const std::string& where) {
    struct stat above {
    }, info{};
    if (::fstatat(parent, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(info.st_mode))
      return {};
    if (::fstat(parent, &above) != 0 || above.st_dev != info.st_dev ||
        is_mount_point(parent, name)) {
      visitor_.mounted(where);
      return {};
    }
    UniqueFd below = open_below(parent, name);
    if (!below.is_open() || ::fstat(below.get(), &info) != 0 || info.st_dev != above.st_dev)
      return {};
    return checkpoint_folder_ == std::pair(info.st_dev, info.st_ino) ? UniqueFd()
                                                                     : std::move(below);
  }

  Result<> visit_files(int folder, NameRule rule) {
    DLRUN_TRY_ASSIGN(const auto names, names_in(folder));
    for (const std::string& name : names) {
      struct stat info {};
      if (rule(name) && ::fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
          S_ISREG(info.st_mode))
        visitor_.file(folder, name);
    }
    return {};
  }

  /// Visits the files in attempt-K/ and attempt-K/COMPONENT/.
  Result<> visit_attempts(int folder, const std::string& where, NameRule rule) {
    DLRUN_TRY_ASSIGN(const auto names, names_in(folder));
    for (const std::string& name : names) {
      if (!is_attempt_folder(name)) continue;
      const UniqueFd attempt = open(folder, name, where + "/" + name);
      if (!attempt.is_open()) continue;
      DLRUN_TRY(visit_files(attempt.get(), rule));
      DLRUN_TRY_ASSIGN(const auto inside, names_in(attempt.get()));
      for (const std::string& component : inside) {
        const UniqueFd below =
            open(attempt.get(), component, fmt::format("{}/{}/{}", where, name, component));
        if (!below.is_open()) continue;
        DLRUN_TRY(visit_files(below.get(), rule));
        visitor_.folder(attempt.get(), component);
      }
      visitor_.folder(folder, name);
    }
    return {};
  }

  int directory_;
  const DiagnosticVisitor& visitor_;
  Identity checkpoint_folder_;
};

/// Searches all lists in the JSON value, at any depth, for the text --checkpoint-dir. Returns the
/// text after the first one in its list; empty if there is none.
std::string value_of_checkpoint_option(const nlohmann::ordered_json& json) {
  constexpr std::string_view kOption = "--checkpoint-dir";
  const nlohmann::ordered_json* before = nullptr;
  for (const auto& value : json) {
    if (before != nullptr && before->is_string() && value.is_string() &&
        before->get_ref<const std::string&>() == kOption)
      return value.get<std::string>();
    if (value.is_structured()) {
      if (std::string found = value_of_checkpoint_option(value); !found.empty()) return found;
    }
    before = &value;
  }
  return {};
}

}  // namespace

std::string checkpoint_folder_of(const std::filesystem::path& run) {
  constexpr std::size_t kLimit = 16U << 20U;
  const auto text = read_untrusted(run / "plan.json", kLimit, Links::kRefuse);
  const auto json = text ? json_read::object_of(*text) : std::nullopt;
  return json ? value_of_checkpoint_option(*json) : std::string();
}

Result<> visit_diagnostic_files(int directory, const std::string& checkpoint_folder,
                                const DiagnosticVisitor& visitor) {
  return Finder(directory, checkpoint_folder, visitor).find();
}

}  // namespace dlrun
