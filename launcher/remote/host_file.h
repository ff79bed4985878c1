#pragma once
// The hosts that `dlrun -H NAME` reaches over ssh: hosts/NAME.yaml in the user's configuration.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"

namespace dlrun {

/// How connections to a host are opened.
enum class MasterUse {
  kAuto,      ///< dlrun opens a connection, which later calls share
  kExisting,  ///< calls share a connection that only `dlrun host login` opens
  kNone,      ///< every call opens a connection of its own
};

/// How the code of a spec reaches the host.
enum class CodeSource {
  kGit,   ///< the files that git lists
  kNone,  ///< nothing is copied; paths of specs are paths of the host
};

/// The contents of a host's file.
struct HostFile {
  std::string name;
  std::string source;            ///< the file's path
  std::string ssh_destination;   ///< a Host of ~/.ssh/config, or USER@HOST
  std::string root = "~/dlrun";  ///< the folder of the mirrors; the host expands ~ and $NAME
  std::string program = "auto";  ///< dlrun's path on the host; "auto": dlrun copies itself there
  MasterUse master = MasterUse::kAuto;
  std::string persist = "4h";     ///< how long an unused connection stays open
  bool uses_login_shell = false;  ///< commands start through `bash -l`
  CodeSource sync_from = CodeSource::kGit;
  std::vector<std::string> sync_also;     ///< files and folders to copy although git ignores them
  std::vector<std::string> sync_exclude;  ///< patterns of files that are not copied
  std::int64_t sync_max_bytes = std::int64_t{200} << 20;
};

/// Returns the table of the keys of a host's file in Markdown, as docs/remote.md has it.
[[nodiscard]] std::string host_file_keys_markdown();

/// Reads hosts/NAME.yaml of the first of `dirs` that has it. Fails with kNotFound if there is none,
/// and with kInvalid and all problems if the file is wrong. The file decides which host gets the
/// user's commands; therefore also fails with kInvalid if another user owns the file or its folder,
/// or can write to it.
[[nodiscard]] Result<HostFile> read_host(std::string_view name,
                                         const std::vector<std::filesystem::path>& dirs);

/// Returns the names of all hosts, sorted.
[[nodiscard]] std::vector<std::string> host_names(const std::vector<std::filesystem::path>& dirs);

}  // namespace dlrun
