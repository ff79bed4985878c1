#include "launcher/remote/host_command.h"

#include <utility>

#include "common/files.h"
#include "common/interrupt.h"
#include "common/text.h"
#include "launcher/remote/host_program.h"
#include "launcher/submit/user_settings.h"
#include "launcher/view/exit_code.h"

namespace dlrun {
namespace {

/// Limits in bytes: of the file that -o writes, and of each output stream in an answer of dlrun on
/// the host.
constexpr std::size_t kLargestOutput = 256U << 20U, kLargestAnswer = 16U << 20U;

/// Returns true if the command takes over the caller's terminal: it can use one, and there is one.
bool uses_terminal(const HostCaller& caller, const HostCall& call) {
  return can_use_terminal(call) && caller.streams.has_terminal;
}

/// Returns the request to run the command. If `code` is not nullptr, the command starts in
/// code->subfolder of the mirror, which is the copy of the code on the host. If `code` is nullptr,
/// the command starts in the copy of the current folder. It starts in the home directory if the
/// current folder is in no repository, if `sync.from` is none, or if the host has no such copy.
RemoteRequest request_of(const HostCaller& caller, const HostCall& call, const HostFile& host,
                         const CodeToCopy* code) {
  RemoteRequest request;
  request.nonce = random_hex(16);
  request.root = host.root;
  request.colour_out = caller.streams.colour_out;
  request.colour_err = caller.streams.colour_err;
  request.has_input = reads_input(call);
  request.argv = adapted_arguments(call, code != nullptr ? &code->spec : nullptr);
  if (code != nullptr) {
    request.mirror = code->tree.mirror;
    request.subfolder = code->subfolder;
    return request;
  }
  if (host.sync_from == CodeSource::kNone) return request;
  const auto& folder = caller.context.current_dir;
  if (const auto tree = find_tree(folder)) {
    request.mirror = tree->mirror;
    request.subfolder = folder.lexically_relative(tree->top).string();
  }
  return request;
}

}  // namespace

Result<Ssh> ssh_of(const Context& context, const std::string& host, bool can_ask) {
  DLRUN_TRY_ASSIGN(auto file, read_host(host, config_folders(context)));
  return Ssh::of_host(std::move(file), context.env, can_ask);
}

Sink answer_sink(std::string& text) {
  return [&text](std::string_view bytes) {
    text += bytes;
    return text.size() <= kLargestAnswer;
  };
}

Result<> check_end(const HostCall& call, const Ssh& ssh, const RemoteOutcome& end) {
  const HostFile& host = ssh.host();
  if (!end.has_begun && end.exit_code == kSshFailed) {
    // A call that submits comes here only while dlrun follows the run: the job is submitted.
    const std::string about_job =
        call.submits ? fmt::format(
                           "\nThe job is submitted. `dlrun -H {} logs -f last` follows the newest "
                           "run",
                           host.name)
                     : "";
    return fail(Errc::kUnavailable, "{}{}", connection_error_text(ssh, end.printed), about_job);
  }
  if (!end.has_begun && host.program == "auto") {
    return fail(Errc::kNotFound,
                "{}: the copy of dlrun in ~/.cache/dlrun on the host does not start: {}\nIf this "
                "happens again, install dlrun on the host and write its path into {}, such as "
                "dlrun: ~/.local/bin/dlrun",
                host.name, trim(end.printed), host.source);
  }
  if (!end.has_begun) {
    return fail(Errc::kNotFound,
                "{}: dlrun does not start there as {}: {}\nInstall dlrun at this path on the host, "
                "or correct the key `dlrun` in {}",
                host.name, host.program, trim(end.printed), host.source);
  }
  if (end.exit_code != kSshFailed || returns_users_exit_code(call)) return {};
  if (call.submits) {
    return fail(Errc::kUnavailable,
                "{0}: the job is submitted, but the connection was lost while dlrun followed the "
                "run; `dlrun -H {0} logs -f last` follows the newest run again",
                host.name);
  }
  // If the connection is lost, `bench scaling` cancels the job that it submitted last, and ends.
  // So its message leaves out the sentence about jobs in Slurm.
  return fail(
      Errc::kUnavailable,
      "{}: the connection was lost while `dlrun {}` ran there.{} Run the same command again",
      host.name, call.command,
      call.command == "bench" ? "" : " The lost connection ends no job in Slurm.");
}

namespace {

/// Shows the output of a command that was started on the host, or writes the output to
/// call.output_file. on_output: called once, after the first output was shown; may be empty.
/// Returns the exit code.
Result<int> follow_command(const HostCaller& caller, const Ssh& ssh, const HostCall& call,
                           RemoteProcess& process, const Interrupt& interrupt,
                           std::function<void()> on_output) {
  HostOutput& output = caller.output;
  std::string document;
  const auto keep = [&](std::string_view bytes) {
    document += bytes;
    return document.size() <= kLargestOutput;
  };
  bool accepts_more = true;
  const auto show = [&](std::string_view bytes) {
    accepts_more = output.out(bytes);
    if (on_output) std::exchange(on_output, {})();
    return accepts_more;
  };
  const auto show_err = [&](std::string_view bytes) { return output.err(bytes); };
  DLRUN_TRY_ASSIGN(const auto end,
                   process.follow_to_end(call.output_file.empty() ? Sink(show) : Sink(keep),
                                         show_err, interrupt));
  output.finish();
  if (end.first_signal != 0) return kExitInterrupted;
  if (!accepts_more && output.has_lost_reader()) return kExitReaderLeft;
  DLRUN_TRY(check_end(call, ssh, end));
  if (document.size() > kLargestOutput) {
    return fail(Errc::kInvalid,
                "{}: the output of `dlrun {}` is larger than {} bytes; nothing was "
                "written to {}",
                ssh.host().name, call.command, kLargestOutput, call.output_file);
  }
  if (call.output_file.empty() || document.empty() || end.exit_code != kExitOk)
    return end.exit_code;
  const auto file = caller.context.current_dir / call.output_file;
  DLRUN_TRY(write_file_atomic(file, document));
  output.on_written(file.lexically_normal());
  return end.exit_code;
}

}  // namespace

Result<int> run_request(const HostCaller& caller, const Ssh& ssh, const HostCall& call,
                        const RemoteRequest& request, std::function<void()> on_output) {
  const Interrupt interrupt;
  DLRUN_TRY_ASSIGN(auto process,
                   start_on_host(ssh, program_on_host(caller.context, ssh.host()), request));
  if (request.has_input) process.forward_input(RemoteProcess::Input::kFramed);
  return follow_command(caller, ssh, call, process, interrupt, std::move(on_output));
}

namespace {

/// Copies the code, and runs the command in the same ssh session that has locked the copy. A second
/// session would cost two round trips.
Result<int> run_with_code(const HostCaller& caller, const Ssh& ssh, const HostCall& call,
                          const CodeToCopy& code, RemoteRequest request) {
  const Context& context = caller.context;
  const Interrupt interrupt;
  DLRUN_TRY_ASSIGN(auto locked, copy_under_lock(ssh, program_on_host(context, ssh.host()), code,
                                                context.bin_dir / "dlrun", interrupt));
  request.file_list = std::move(locked.file_list);
  locked.process.send(RemoteFrame{RemoteFrame::Kind::kGo, word_of(request)});
  if (request.has_input) locked.process.forward_input(RemoteProcess::Input::kFramed);
  return follow_command(caller, ssh, call, locked.process, interrupt, {});
}

/// Runs a command on the caller's terminal.
Result<int> run_on_callers_terminal(const Ssh& ssh, const HostCall& call,
                                    const std::string& program, RemoteRequest request) {
  DLRUN_TRY_ASSIGN(const int exit_code, run_with_terminal(ssh, program, std::move(request)));
  RemoteOutcome end;
  end.has_begun = true;
  end.exit_code = exit_code;
  DLRUN_TRY(check_end(call, ssh, end));
  return exit_code;
}

/// Runs the command on a host that has dlrun already.
Result<int> run_there(const HostCaller& caller, const Ssh& ssh, const HostCall& call) {
  const Context& context = caller.context;
  const HostFile& host = ssh.host();
  std::optional<CodeToCopy> code;
  if (call.needs_source_code && host.sync_from == CodeSource::kGit) {
    DLRUN_TRY_ASSIGN(code, prepare_code(host, context.current_dir, call.spec, context.env));
    for (const std::string& name : code->list.skipped_repositories) {
      caller.reporter.warning(
          fmt::format("{} is a repository inside {} and no submodule, so its files are not copied. "
                      "Add it to sync.also if the job needs it",
                      name, printable(code->tree.top.string())));
    }
  }
  RemoteRequest request = request_of(caller, call, host, code ? &*code : nullptr);
  if (call.submits)
    return submit_on_host(caller, ssh, call, std::move(request), code ? &*code : nullptr);
  if (code && !uses_terminal(caller, call))
    return run_with_code(caller, ssh, call, *code, std::move(request));
  const std::string program = program_on_host(context, host);
  if (code) {
    const Interrupt interrupt;
    // The returned process is destroyed immediately, which releases the lock. The command, which is
    // `interactive`, runs in another ssh session, with the terminal. A later submission may change
    // the copy while the command waits or runs.
    DLRUN_TRY(copy_under_lock(ssh, program, *code, context.bin_dir / "dlrun", interrupt));
  }
  if (uses_terminal(caller, call))
    return run_on_callers_terminal(ssh, call, program, std::move(request));
  return run_request(caller, ssh, call, request);
}

}  // namespace

Result<std::optional<int>> run_on_host(const HostCaller& caller, const HostCall& call) {
  DLRUN_TRY_ASSIGN(const auto ssh, ssh_of(caller.context, call.host, caller.streams.can_ask));
  if (is_this_machine(ssh)) return std::optional<int>();
  DLRUN_TRY(ssh.open());
  // Before two kinds of commands, dlrun asks whether the host still has dlrun, because it could not
  // run these commands a second time. One kind uses the terminal: the dlrun on the host then prints
  // no marker (marker_of()), so this dlrun would not notice that dlrun is missing there. The other
  // kind reads standard input, which cannot be read twice.
  DLRUN_TRY(
      ensure_installed(caller.context, ssh, uses_terminal(caller, call) || reads_input(call)));
  auto exit_code = run_there(caller, ssh, call);
  if (!exit_code && exit_code.error().code == Errc::kNotFound) {
    // Somebody may have deleted the copy of dlrun on the host.
    DLRUN_TRY_ASSIGN(const bool is_copied_now, ensure_installed(caller.context, ssh, true));
    if (is_copied_now) exit_code = run_there(caller, ssh, call);
  }
  if (!exit_code) return tl::unexpected(std::move(exit_code.error()));
  return std::optional(*exit_code);
}

Result<HostAnswer> ask_host(const Context& context, const Ssh& ssh, std::vector<std::string> argv) {
  RemoteRequest request;
  request.nonce = random_hex(16);
  request.argv = std::move(argv);
  DLRUN_TRY_ASSIGN(auto process, start_on_host(ssh, program_on_host(context, ssh.host()), request));
  HostAnswer answer;
  const Interrupt interrupt;
  DLRUN_TRY_ASSIGN(answer.end, process.follow_to_end(answer_sink(answer.out),
                                                     answer_sink(answer.err), interrupt));
  if (answer.end.first_signal != 0) return fail(Errc::kInterrupted, "");
  HostCall call;
  call.command = request.argv.front();
  DLRUN_TRY(check_end(call, ssh, answer.end));
  return answer;
}

Result<int> run_as_rsync_shell(const Context& context, HostOutput& output, const std::string& host,
                               std::vector<std::string> argv) {
  // ssh must not ask questions here, because rsync uses the terminal.
  DLRUN_TRY_ASSIGN(const auto ssh, ssh_of(context, host, false));
  DLRUN_TRY(ssh.open());
  RemoteRequest request;
  request.mode = RemoteMode::kPipe;
  request.nonce = random_hex(16);
  request.argv = std::move(argv);
  const Interrupt interrupt;
  DLRUN_TRY_ASSIGN(auto process, start_on_host(ssh, program_on_host(context, ssh.host()), request));
  process.forward_input(RemoteProcess::Input::kRaw);
  DLRUN_TRY_ASSIGN(
      const auto end,
      process.follow_to_end([&](std::string_view bytes) { return output.out(bytes); },
                            [&](std::string_view bytes) { return output.err(bytes); }, interrupt));
  if (!end.has_begun) return fail(Errc::kUnavailable, "{}", trim(end.printed));
  return end.exit_code;
}

}  // namespace dlrun
