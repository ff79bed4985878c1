#include "launcher/remote/host_program.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <link.h>

#include "common/files.h"
#include "common/sha256.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "common/untrusted_file.h"
#include "launcher/executors/foreground.h"
#include "launcher/remote/host_records.h"

namespace dlrun {
namespace {

constexpr std::size_t kLongestArgument = 100'000;  ///< bytes; Linux allows 131,071

/// Appends the build id of a loaded program (the ELF note NT_GNU_BUILD_ID) to the text at `to`.
int add_build_id(struct dl_phdr_info* info, std::size_t, void* to) {
  auto& text = *static_cast<std::string*>(to);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type != PT_NOTE) continue;
    const auto* at = reinterpret_cast<const char*>(info->dlpi_addr + header.p_vaddr);
    const auto* end = at + header.p_memsz;
    while (at + sizeof(ElfW(Nhdr)) <= end) {
      ElfW(Nhdr) note;
      std::memcpy(&note, at, sizeof note);
      const auto padded = [](std::size_t size) { return (size + 3) & ~std::size_t{3}; };
      const char* name = at + sizeof note;
      const char* id = name + padded(note.n_namesz);
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0)
        text.append(id, note.n_descsz);
      at = id + padded(note.n_descsz);
    }
  }
  return 1;  // ends the iteration: the first object is the program itself
}

/// Returns a hash of this dlrun and its tools. The hash changes if a missing tool, such as the
/// trainer, is installed later, so that the host gets this tool too.
std::string hash_of_programs(const Context& context) {
  constexpr std::size_t kDigits = 16;
  std::string build;
  std::error_code error;
  ::dl_iterate_phdr(add_build_id, &build);
  if (build.empty()) {  // linked without a build id
    const auto file = context.bin_dir / "dlrun";
    const auto changed = std::filesystem::last_write_time(file, error).time_since_epoch().count();
    build = fmt::format("{} {}", std::filesystem::file_size(file, error), changed);
  }
  build += context.tools.hash;
  for (const auto& file : context.tools.files) {
    if (!std::filesystem::exists(context.bin_dir.parent_path() / file.relative_path, error))
      build += "\nwithout " + file.relative_path;
  }
  return sha256_of_text(build).substr(0, kDigits);
}

}  // namespace

std::string program_on_host(const Context& context, const HostFile& host) {
  if (host.program != "auto") return host.program;
  return fmt::format("~/.cache/dlrun/{}/bin/dlrun", hash_of_programs(context));
}

namespace {

/// Returns true if the request has an argument --set, whose value may be a secret. Such a request
/// is sent over standard input, because `ps` shows the arguments of a process to all users.
bool may_hold_secret(const RemoteRequest& request) {
  return std::any_of(request.argv.begin(), request.argv.end(),
                     [](const std::string& word) { return word.starts_with("--set"); });
}

}  // namespace

Result<RemoteProcess> start_on_host(const Ssh& ssh, const std::string& program,
                                    const RemoteRequest& request) {
  const std::string word = word_of(request);
  const bool is_sent_as_input = word.size() > kLongestArgument || may_hold_secret(request);
  const auto argv =
      ssh.command_argv(ssh.arguments_that_start(program, is_sent_as_input ? "-" : word), false);
  constexpr std::chrono::seconds kRsyncPatience{600}, kPatience{20};
  const bool is_rsync = request.mode == RemoteMode::kPipe;
  DLRUN_TRY_ASSIGN(auto session,
                   ssh.lock_session_slot(is_rsync, is_rsync ? kRsyncPatience : kPatience));
  DLRUN_TRY_ASSIGN(auto process,
                   RemoteProcess::start(argv, ssh.env(), request.nonce, ssh.asks_each_time()));
  process.hold_session(std::move(session));
  if (is_sent_as_input) process.send(word + "\n");
  return process;
}

Result<int> run_with_terminal(const Ssh& ssh, const std::string& program, RemoteRequest request) {
  request.mode = RemoteMode::kTerminal;
  DLRUN_TRY_ASSIGN(const auto session, ssh.lock_session_slot(false));
  const auto argv = ssh.command_argv(ssh.arguments_that_start(program, word_of(request)), true);
  DLRUN_TRY_ASSIGN(auto process,
                   ForegroundProcess::start(argv, ssh.env(), "", OnSignal::kTermThenKill));
  DLRUN_TRY_ASSIGN(const auto end, process.wait());
  return end.exit_code;
}

namespace {

constexpr std::chrono::seconds kArchiveTimeLimit{600};
constexpr std::size_t kLargestArchive = 256U << 20U;  ///< bytes

/// Runs a POSIX shell script on the host and returns its output. The script must be one line
/// without single quotes, '!' and backslashes: the login shell gets it in single quotes, and all
/// shells then leave it unchanged. Fails with kUnavailable if ssh cannot connect, and with kIo and
/// the script's standard error if the script fails.
Result<std::string> run_script_on_host(const Ssh& ssh, const std::string& script,
                                       std::string_view input) {
  const std::string nonce = random_hex(16);
  const std::string marker = fmt::format("echo \"<dlrun {} 0>\"", nonce);
  const auto argv =
      ssh.command_argv({"sh", "-c", fmt::format("'{0}; {0} >&2; {1}'", marker, script)}, false);
  const Interrupt interrupt;
  DLRUN_TRY_ASSIGN(auto session, ssh.lock_session_slot(false));
  DLRUN_TRY_ASSIGN(auto process,
                   RemoteProcess::start(argv, ssh.env(), nonce, ssh.asks_each_time()));
  process.hold_session(std::move(session));
  process.send(input);
  process.end_input();
  std::string out, err;
  const auto sink_into = [](std::string& text) {
    return [&text](std::string_view bytes) {
      text += bytes;
      return text.size() < (1U << 20U);
    };
  };
  DLRUN_TRY_ASSIGN(const auto end,
                   process.follow_to_end(sink_into(out), sink_into(err), interrupt));
  if (end.first_signal != 0) return fail(Errc::kInterrupted, "");
  if (!end.has_begun) return fail(Errc::kUnavailable, "{}", trim(end.printed));
  if (end.exit_code != 0) return fail(Errc::kIo, "{}", trim(err));
  return out;
}

/// Returns an archive of dlrun and its tools.
Result<std::string> archive_of(const Context& context, const Env& env) {
  Command command;
  command.argv = {"tar", "-C", context.bin_dir.parent_path().string(), "-czf", "-", "bin/dlrun"};
  std::error_code error;
  for (const auto& file : context.tools.files) {
    if (std::filesystem::exists(context.bin_dir.parent_path() / file.relative_path, error))
      command.argv.push_back(file.relative_path);
  }
  command.env = env;
  command.timeout = kArchiveTimeLimit;
  command.output_limit_bytes = kLargestArchive;
  DLRUN_TRY_ASSIGN(auto ended, run_command(command));
  if (ended.exit_code != 0) return fail(Errc::kIo, "tar: {}", trim(ended.err));
  return std::move(ended.out);
}

/// Returns the output of `uname -sm` on this machine.
std::string system_here() {
  struct utsname name {};
  return ::uname(&name) == 0 ? fmt::format("{} {}", name.sysname, name.machine) : "";
}

/// Copies dlrun and its tools to ~/.cache/dlrun/HASH on the host. system: the output of `uname -sm`
/// on the host.
Result<> copy_programs(const Context& context, const Ssh& ssh, const std::string& hash,
                       std::string_view system) {
  const HostFile& host = ssh.host();
  if (system != system_here()) {
    return fail(Errc::kInvalid,
                "{}: the host is '{}' and this machine '{}', so this dlrun does not run there. "
                "Install dlrun on the host and write its path into {}: dlrun: PATH",
                host.name, printable(system), system_here(), host.source);
  }
  DLRUN_TRY_ASSIGN(const auto archive, archive_of(context, ssh.env()));
  const auto copied = run_script_on_host(
      ssh,
      fmt::format(
          "umask 077; d=~/.cache/dlrun; mkdir -p $d && t=$(mktemp -d $d/.new.XXXXXX) || "
          "exit 1; tar -xzf - -C $t && $t/bin/dlrun --version >&2 || {{ rm -rf $t; exit 1; "
          "}}; test -x $d/{0}/bin/dlrun || rm -rf $d/{0}; mv -T $t $d/{0} || {{ rm -rf $t; test -x "
          "$d/{0}/bin/dlrun; }}",
          hash),
      archive);
  if (copied) return {};
  return fail(copied.error().code,
              "{}: dlrun could not be copied to ~/.cache/dlrun there, or does not start from there "
              "(a full quota? a file system mounted noexec?): {}\nInstall dlrun elsewhere on the "
              "host and write its path into {}: dlrun: PATH",
              host.name, copied.error().message, host.source);
}

}  // namespace

Result<bool> ensure_installed(const Context& context, const Ssh& ssh, bool checks_again) {
  const HostFile& host = ssh.host();
  if (host.program != "auto") return false;
  constexpr std::size_t kLongest = 4096;
  const std::string hash = hash_of_programs(context);
  DLRUN_TRY_ASSIGN(const auto folder, host_records_folder(ssh.env(), host.name));
  const auto record = folder / "installed";
  const std::string wanted = host.ssh_destination + " " + hash;
  if (!checks_again && read_untrusted(record, kLongest, Links::kRefuse).value_or("") == wanted)
    return false;
  const auto found = run_script_on_host(
      ssh, fmt::format("uname -sm; test -x ~/.cache/dlrun/{}/bin/dlrun && echo there; :", hash),
      "");
  if (!found) return within(host.name, found.error());
  const bool is_there = found->find("\nthere\n") != std::string::npos;
  if (!is_there) DLRUN_TRY(copy_programs(context, ssh, hash, trim(*found)));
  DLRUN_TRY(make_private_directories(folder));
  DLRUN_TRY(write_file_atomic(record, wanted));
  return !is_there;
}

bool is_this_machine(const Ssh& ssh) {
  if (!find_program("sbatch", ssh.env())) return false;
  Command command;
  command.argv = {"ssh", "-G", "--", ssh.host().ssh_destination};
  command.env = ssh.env();
  const auto ended = run_command(command);
  std::array<char, 256> name{};
  if (!ended || ended->exit_code != 0 || ::gethostname(name.data(), name.size() - 1) != 0)
    return false;
  std::string hostname;
  for (const std::string_view line : split(ended->out, '\n')) {
    if (line.starts_with("hostname ")) hostname = line.substr(9);
    const bool is_through_another =
        (line.starts_with("proxycommand ") || line.starts_with("proxyjump ")) &&
        !line.ends_with(" none");
    if (is_through_another) return false;
  }
  const std::string here = name.data();
  return hostname == here || hostname.starts_with(here + ".") || here.starts_with(hostname + ".");
}

}  // namespace dlrun
