#include "cli/remote_command.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "cli/terminal/print.h"
#include "cli/terminal/remote_output.h"
#include "common/files.h"
#include "common/interrupt.h"
#include "common/text.h"
#include "launcher/remote/bootstrap.h"
#include "launcher/submit/places.h"

namespace dlrun {
namespace {

constexpr std::size_t kLargestOutput = 256U << 20U;

/// The commands that take over the terminal if dlrun has one.
constexpr std::array<std::string_view, 3> kWithTerminal{"interactive", "attach", "top"};
/// The commands that exit with the code of the user's own program, which may be 255.
constexpr std::array<std::string_view, 3> kWithOwnCodes{"interactive", "attach", "run"};

template <std::size_t N>
bool is_one_of(const std::array<std::string_view, N>& commands, std::string_view command) {
  return std::find(commands.begin(), commands.end(), command) != commands.end();
}

bool uses_terminal(const HostCall& call) {
  return is_one_of(kWithTerminal, call.command) && is_output_terminal() && is_input_terminal();
}

/// Returns true if the command reads standard input, which cannot be read twice.
bool reads_input(const HostCall& call) {
  return call.spec == "-" || (is_one_of(kWithTerminal, call.command) && call.command != "top");
}

/// Returns the request of a command that starts in the copy of the current folder.
RemoteRequest request_for(const Cli& cli, const HostCall& call, const HostFile& host) {
  RemoteRequest request;
  request.nonce = random_hex(16);
  request.root = host.root;
  request.colour_out = cli.colour_out;
  request.colour_err = cli.colour_err;
  request.has_input = reads_input(call);
  request.argv = call.arguments;
  if (host.sync_from == CodeSource::kNone) return request;
  if (const auto tree = find_tree(cli.current_dir)) {
    request.mirror = tree->mirror;
    request.subfolder = cli.current_dir.lexically_relative(tree->top).string();
  }
  return request;
}

/// Returns the position of a short option that takes a value in an argument such as -o, -oFILE or
/// -vo; npos if the argument does not have it. Only -v can precede it.
std::size_t position_of(char option, std::string_view argument) {
  if (!argument.starts_with('-')) return std::string_view::npos;
  const auto at = argument.find_first_not_of('v', 1);
  return at < argument.size() && argument[at] == option ? at : std::string_view::npos;
}

/// Replaces the file that the command writes by `-`, and the spec by its path on the host.
void adapt_arguments(const HostCall& call, const CodeCopy* code,
                     std::vector<std::string>& arguments) {
  for (std::size_t at = 0; at < arguments.size() && arguments[at] != "--"; ++at) {
    std::string& argument = arguments[at];
    const auto output = position_of('o', argument);
    const bool is_next = argument == "--output" ||
                         (output != std::string_view::npos && output + 1 == argument.size());
    if (!call.output.empty() && is_next) {
      if (at + 1 < arguments.size()) arguments[++at] = "-";
    } else if (!call.output.empty() && argument.starts_with("--output=")) {
      argument = "--output=-";
    } else if (!call.output.empty() && output != std::string_view::npos) {
      argument = argument.substr(0, output + 1) + "-";
    } else if (code != nullptr && at > 0 && argument == call.spec) {
      argument = code->spec;
    }
  }
}

}  // namespace

Result<Ssh> ssh_of(const Cli& cli, const std::string& host) {
  DLRUN_TRY_ASSIGN(auto file, read_host(host, config_folders(cli)));
  return Ssh::of_host(std::move(file), cli.env, is_error_terminal() || is_input_terminal());
}

Result<> check_end(const HostCall& call, const Ssh& ssh, const RemoteEnd& end) {
  const HostFile& host = ssh.host();
  if (!end.has_begun && end.exit_code == kSshFailed)
    return fail(Errc::kUnavailable, "{}", connection_text(ssh, end.printed));
  if (!end.has_begun) {
    return fail(Errc::kNotFound,
                "{}: dlrun does not start there as {}: {}\nInstall dlrun on the host and write its "
                "path into {}, such as dlrun: ~/.local/bin/dlrun",
                host.name, host.program, trim(end.printed), host.source);
  }
  if (end.exit_code != kSshFailed || is_one_of(kWithOwnCodes, call.command)) return {};
  if (call.submits) {
    return fail(Errc::kUnavailable,
                "{0}: the job is submitted, but the connection was lost while dlrun followed it; "
                "`dlrun -H {0} logs -f last` follows it again",
                host.name);
  }
  return fail(Errc::kUnavailable,
              "{}: the connection was lost while `dlrun {}` ran there. Jobs in Slurm are not "
              "affected; run the same command again",
              host.name, call.command);
}

namespace {

/// Passes on the output of a command that was started on the host, or writes it to call.output.
Result<int> follow_command(const Cli& cli, const Ssh& ssh, const HostCall& call,
                           RemoteProcess& process, const Interrupt& interrupt,
                           std::function<void()> on_output) {
  RemoteOutput output(cli);
  std::string document;
  const auto keep = [&](std::string_view bytes) {
    document += bytes;
    return document.size() <= kLargestOutput;
  };
  bool is_printed = true;
  const auto show = [&](std::string_view bytes) {
    is_printed = output.out(bytes);
    if (on_output) std::exchange(on_output, {})();
    return is_printed;
  };
  const auto show_err = [&](std::string_view bytes) { return output.err(bytes); };
  DLRUN_TRY_ASSIGN(const auto end, process.finish(call.output.empty() ? Sink(show) : Sink(keep),
                                                  show_err, interrupt));
  output.finish();
  if (end.interrupted != 0) return kExitInterrupted;
  if (!is_printed && is_reader_gone()) return kExitReaderLeft;
  DLRUN_TRY(check_end(call, ssh, end));
  if (document.size() > kLargestOutput) {
    return fail(Errc::kInvalid,
                "{}: the output of `dlrun {}` is larger than {} bytes; nothing was "
                "written to {}",
                ssh.host().name, call.command, kLargestOutput, call.output);
  }
  if (call.output.empty() || document.empty() || end.exit_code != kExitOk) return end.exit_code;
  const auto file = cli.current_dir / call.output;
  DLRUN_TRY(write_file_atomic(file, document));
  print(cli, "{}\n", file.lexically_normal().string());
  return end.exit_code;
}

/// Copies the code, and runs the command in the session that has locked the copy. A session of its
/// own would cost two round trips.
Result<int> run_with_code(const Cli& cli, const Ssh& ssh, const HostCall& call,
                          const CodeCopy& code, RemoteRequest request) {
  const Interrupt interrupt;
  DLRUN_TRY_ASSIGN(auto locked, copy_under_lock(ssh, program_there(cli, ssh.host()), code,
                                                cli.bin_dir / "dlrun", interrupt));
  request.files = std::move(locked.files);
  locked.process.send(Frame{Frame::Kind::kGo, word_of(request)});
  if (request.has_input) locked.process.forward_input(RemoteProcess::Input::kFramed);
  return follow_command(cli, ssh, call, locked.process, interrupt, {});
}

}  // namespace

Result<int> run_request(const Cli& cli, const Ssh& ssh, const HostCall& call,
                        const RemoteRequest& request, std::function<void()> on_output) {
  const Interrupt interrupt;
  DLRUN_TRY_ASSIGN(auto process, start_on_host(ssh, program_there(cli, ssh.host()), request));
  if (request.has_input) process.forward_input(RemoteProcess::Input::kFramed);
  return follow_command(cli, ssh, call, process, interrupt, std::move(on_output));
}

std::vector<std::string> arguments_for_host(const std::vector<std::string>& argv) {
  std::vector<std::string> arguments;
  bool is_after_command = false, is_after_dashes = false;
  for (std::size_t at = 1; at < argv.size(); ++at) {
    const std::string& argument = argv[at];
    const auto host = is_after_command ? std::string_view::npos : position_of('H', argument);
    const bool is_host_name = !is_after_command && argument == "--host";
    if (!is_after_dashes && (is_host_name || argument == "--log-file")) {
      ++at;
      continue;
    }
    if (!is_after_dashes && (argument.starts_with("--log-file=") ||
                             (!is_after_command && argument.starts_with("--host="))))
      continue;
    if (host != std::string_view::npos) {
      if (host > 1) arguments.push_back(argument.substr(0, host));  // the -v before H
      if (host + 1 == argument.size()) ++at;
      continue;
    }
    is_after_command = is_after_command || !argument.starts_with('-');
    is_after_dashes = is_after_dashes || argument == "--";
    arguments.push_back(argument);
  }
  return arguments;
}

namespace {

/// Runs a command on the caller's terminal.
Result<int> run_with_own_terminal(const Ssh& ssh, const HostCall& call, const std::string& program,
                                  RemoteRequest request) {
  DLRUN_TRY_ASSIGN(const int code, run_with_terminal(ssh, program, std::move(request)));
  RemoteEnd end;
  end.has_begun = true;
  end.exit_code = code;
  DLRUN_TRY(check_end(call, ssh, end));
  return code;
}

/// Runs the command on the host, which has dlrun.
Result<int> run_there(const Cli& cli, const Ssh& ssh, const HostCall& call) {
  const HostFile& host = ssh.host();
  std::optional<CodeCopy> code;
  if (call.takes_code && host.sync_from == CodeSource::kGit) {
    DLRUN_TRY_ASSIGN(code, prepare_code(host, cli.current_dir, call.spec, cli.env));
    for (const std::string& name : code->list.skipped) {
      print_warning(cli, fmt::format("{} is a repository inside {} and no submodule, so its files "
                                     "are not copied. Add it to sync.also if the job needs it",
                                     name, code->tree.top.string()));
    }
  }
  RemoteRequest request = request_for(cli, call, host);
  adapt_arguments(call, code ? &*code : nullptr, request.argv);
  if (code) {
    request.mirror = code->tree.mirror;
    request.subfolder = code->subfolder;
  }
  if (call.submits)
    return submit_on_host(cli, ssh, call, std::move(request), code ? &*code : nullptr);
  if (code && !uses_terminal(call)) return run_with_code(cli, ssh, call, *code, std::move(request));
  const std::string program = program_there(cli, host);
  if (code) {
    const Interrupt interrupt;
    // The returned process is destroyed at once, which releases the lock. The command needs no
    // lock, because it queues no job.
    DLRUN_TRY(copy_under_lock(ssh, program, *code, cli.bin_dir / "dlrun", interrupt));
  }
  if (uses_terminal(call)) return run_with_own_terminal(ssh, call, program, std::move(request));
  return run_request(cli, ssh, call, request);
}

}  // namespace

Result<std::optional<int>> run_on_host(const Cli& cli, const HostCall& call) {
  DLRUN_TRY_ASSIGN(const auto ssh, ssh_of(cli, call.host));
  if (is_this_machine(ssh)) return std::optional<int>();
  DLRUN_TRY(ssh.open());
  // A command with a terminal has no marker that would show that dlrun is missing there, and one
  // that reads standard input cannot be tried again.
  DLRUN_TRY(ensure_installed(cli, ssh, uses_terminal(call) || reads_input(call)));
  auto code = run_there(cli, ssh, call);
  if (!code && code.error().code == Errc::kNotFound) {
    // Somebody may have deleted the copy of dlrun on the host.
    DLRUN_TRY_ASSIGN(const bool is_new, ensure_installed(cli, ssh, true));
    if (is_new) code = run_there(cli, ssh, call);
  }
  if (!code) return tl::unexpected(std::move(code.error()));
  return std::optional(*code);
}

}  // namespace dlrun
