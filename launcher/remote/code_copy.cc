#include "launcher/remote/code_copy.h"

#include "common/text.h"
#include "launcher/remote/code_rsync.h"
#include "launcher/remote/code_state.h"
#include "launcher/remote/host_program.h"
#include "launcher/remote/mirror_lock.h"

namespace dlrun {
namespace {

constexpr std::size_t kLongestAnswer = 1U << 20U;  ///< bytes
constexpr std::chrono::seconds kAnswerLimit{120};
/// The longest list of files that copy_under_lock() returns, in bytes; it returns an empty list
/// instead of a longer one. The list is sent in a frame of at most 16 MiB, beside the other fields
/// of the request, and base64url makes the list longer.
constexpr std::size_t kLongestSentList = 4U << 20U;

/// Returns true if the path, which is relative to the repository's top, does not leave the
/// repository.
bool is_in_repository(const std::filesystem::path& relative) {
  return !relative.empty() && *relative.begin() != "..";
}

}  // namespace

Result<CodeToCopy> prepare_code(const HostFile& host, const std::filesystem::path& current_dir,
                                const std::string& spec, const Env& env) {
  const bool is_stdin = spec == "-";
  const auto file = (current_dir / spec).lexically_normal();
  const auto folder = is_stdin ? current_dir : file.parent_path();
  auto tree = find_tree(folder);
  if (!tree) {
    return fail(
        Errc::kInvalid,
        "{0} is not in a git repository, and dlrun copies to {1} only files that git lists. "
        "Run `git init` in this folder. If the host has the files already, write `sync: {{from: "
        "none}}` into {2}; paths of specs are then paths on the host",
        printable(folder.string()), host.name, host.source);
  }
  CodeToCopy code;
  code.tree = std::move(*tree);
  code.spec = spec;
  const auto from_top = current_dir.lexically_relative(code.tree.top);
  if (is_in_repository(from_top)) {
    code.subfolder = from_top.string();
    if (std::filesystem::path(spec).is_absolute())
      code.spec = file.lexically_relative(current_dir).string();
  } else {
    code.subfolder = folder.lexically_relative(code.tree.top).string();
    code.spec = file.filename().string();
  }
  if (!is_stdin) {
    DLRUN_TRY_ASSIGN(code.paths, check_spec_paths(file, code.tree));
  }
  DLRUN_TRY_ASSIGN(code.list, list_code(code.tree, host, env));
  return code;
}

Result<StartedProcess> copy_under_lock(const Ssh& ssh, const std::string& program,
                                       const CodeToCopy& code,
                                       const std::filesystem::path& own_program,
                                       const Interrupt& interrupt) {
  RemoteRequest request;
  request.mode = RemoteMode::kMirror;
  request.nonce = random_hex(16);
  request.root = ssh.host().root;
  request.mirror = code.tree.mirror;
  for (const LocalPath& local : code.paths) request.paths.push_back(local.path);
  // With the hash of the files, the host can answer that its copy is current. rsync then does not
  // start; it needs seven round trips or more even if there is nothing to copy.
  if (last_copy_was_of(code.tree, code.list, ssh.host(), ssh.env()))
    request.code_state = state_of_files(code.tree.top, code.list.files);
  DLRUN_TRY_ASSIGN(auto process, start_on_host(ssh, program, request));
  const auto line = process.read_line(kLongestAnswer, kAnswerLimit, interrupt);
  if (!line && line.error().code == Errc::kInterrupted) return tl::unexpected(line.error());
  if (!line) return within(ssh.host().name, line.error());
  auto answer = parse_mirror_answer(*line);
  if (!answer) return within(ssh.host().name, answer.error());
  DLRUN_TRY(refuse_missing(code.paths, answer->missing, ssh.host().name));
  if (answer->is_current && !request.code_state.empty())
    return StartedProcess{std::move(process), {}};
  const auto copied =
      copy_code(code.tree, code.list, ssh.host(), answer->path, own_program, ssh.env());
  // Ctrl-C ends rsync too, so rsync's error is not the cause.
  if (!copied && interrupt.requested()) return fail(Errc::kInterrupted, "");
  if (!copied) return tl::unexpected(copied.error());
  std::string file_list = joined_names(code.list.files);
  if (file_list.size() > kLongestSentList) file_list.clear();
  return StartedProcess{std::move(process), std::move(file_list)};
}

}  // namespace dlrun
