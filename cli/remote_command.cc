#include "cli/remote_command.h"

#include <algorithm>
#include <array>
#include <optional>

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

/// The commands that take over the terminal, if there is one.
constexpr std::array<std::string_view, 3> kWithTerminal{"interactive", "attach", "top"};
/// The commands that end with the code of the user's own program, which may be 255.
constexpr std::array<std::string_view, 3> kWithOwnCodes{"interactive", "attach", "run"};

template <std::size_t N>
bool is_among(const std::array<std::string_view, N>& all, std::string_view word) {
  return std::find(all.begin(), all.end(), word) != all.end();
}

/// Returns the request of a command: its words, and the folder where it starts.
RemoteRequest request_for(const Cli& cli, const HostCall& call, const HostFile& host) {
  RemoteRequest request;
  request.nonce = random_hex(16);
  request.root = host.root;
  request.colour_out = cli.colour_out;
  request.colour_err = cli.colour_err;
  request.has_input =
      call.spec == "-" || (is_among(kWithTerminal, call.command) && call.command != "top");
  request.argv = call.words;
  if (host.sync_from == CodeSource::kNone) return request;
  if (const auto tree = find_tree(cli.current_dir)) {
    request.mirror = tree->mirror;
    request.subfolder = cli.current_dir.lexically_relative(tree->top).string();
  }
  return request;
}

/// Writes `-` in place of the file that the command writes, and the spec as the host has it.
void adapt_words(const HostCall& call, const CodeCopy* code, std::vector<std::string>& words) {
  for (std::size_t at = 0; at < words.size() && words[at] != "--"; ++at) {
    std::string& word = words[at];
    const bool is_output = !call.output.empty() && (word == "-o" || word == "--output");
    if (is_output && at + 1 < words.size()) {
      words[++at] = "-";
    } else if (!call.output.empty() && word.starts_with("--output=")) {
      word = "--output=-";
    } else if (!call.output.empty() && word.starts_with("-o") && !word.starts_with("--")) {
      word = "-o-";
    } else if (code != nullptr && at > 0 && word == call.spec) {
      word = code->spec;
    }
  }
}

}  // namespace

bool may_ask() {
  return is_error_terminal() || is_input_terminal();
}

Result<> check_end(const HostCall& call, const Ssh& ssh, const RemoteEnd& end) {
  const HostFile& host = ssh.host();
  if (!end.has_begun && end.exit_code == kSshFailed)
    return fail(Errc::kUnavailable, "{}", connection_text(host, end.words, may_ask()));
  if (!end.has_begun) {
    return fail(Errc::kNotFound,
                "{}: dlrun does not start there as {}: {}\nInstall dlrun on the host and write its "
                "path into {}, such as dlrun: ~/.local/bin/dlrun",
                host.name, host.program, trim(end.words), host.source);
  }
  if (end.exit_code != kSshFailed || is_among(kWithOwnCodes, call.command)) return {};
  if (call.submits) {
    return fail(Errc::kUnavailable,
                "{0}: the job is submitted, but the connection was lost while dlrun followed it; "
                "`dlrun -H {0} logs -f last` follows it again",
                host.name);
  }
  return fail(Errc::kUnavailable,
              "{}: the connection was lost while `dlrun {}` ran there. What runs in Slurm goes on; "
              "the same command asks again",
              host.name, call.command);
}

Result<int> run_request(const Cli& cli, const Ssh& ssh, const HostCall& call,
                        const RemoteRequest& request) {
  const Interrupt interrupt;
  DLRUN_TRY_ASSIGN(auto process, start_on_host(ssh, program_there(cli, ssh.host()), request));
  if (request.has_input) process.forward_input(RemoteProcess::Input::kFramed);
  RemoteOutput output(cli);
  std::string document;
  const auto keep = [&](std::string_view bytes) {
    document += bytes;
    return document.size() <= kLargestOutput;
  };
  bool is_printed = true;
  const auto show = [&](std::string_view bytes) { return is_printed = output.out(bytes); };
  const auto tell = [&](std::string_view bytes) { return output.err(bytes); };
  DLRUN_TRY_ASSIGN(const auto end,
                   process.finish(call.output.empty() ? Sink(show) : Sink(keep), tell, interrupt));
  output.finish();
  if (end.interrupted != 0) return kExitInterrupted;
  if (!is_printed && has_reader_left()) return kExitReaderLeft;
  DLRUN_TRY(check_end(call, ssh, end));
  if (call.output.empty() || document.empty()) return end.exit_code;
  const auto file = cli.current_dir / call.output;
  DLRUN_TRY(write_file_atomic(file, document));
  print(cli, "{}\n", file.lexically_normal().string());
  return end.exit_code;
}

std::vector<std::string> words_for_host(const std::vector<std::string>& argv) {
  std::vector<std::string> words;
  bool is_command_known = false, is_rest = false;
  for (std::size_t at = 1; at < argv.size(); ++at) {
    const std::string& word = argv[at];
    const bool is_host = !is_command_known && (word == "-H" || word == "--host");
    if (!is_rest && (is_host || word == "--log-file")) {
      ++at;
      continue;
    }
    const bool is_whole_host =
        !is_command_known && (word.starts_with("--host=") || word.starts_with("-H"));
    if (!is_rest && (word.starts_with("--log-file=") || is_whole_host)) continue;
    is_command_known = is_command_known || !word.starts_with('-');
    is_rest = is_rest || word == "--";
    words.push_back(word);
  }
  return words;
}

namespace {

/// Runs the command on the host, which has dlrun.
Result<int> run_there(const Cli& cli, const Ssh& ssh, const HostCall& call) {
  const HostFile& host = ssh.host();
  std::optional<CodeCopy> code;
  if (call.takes_code && host.sync_from == CodeSource::kGit) {
    DLRUN_TRY_ASSIGN(code, prepare_code(host, cli.current_dir, call.spec, cli.env));
    for (const std::string& name : code->list.skipped) {
      print_warning(cli, fmt::format("{} is a repository inside {}, and no submodule: its files do "
                                     "not go to the host. List it in sync.also if the job needs it",
                                     name, code->tree.top.string()));
    }
  }
  RemoteRequest request = request_for(cli, call, host);
  adapt_words(call, code ? &*code : nullptr, request.argv);
  if (code) {
    request.mirror = code->tree.mirror;
    request.subfolder = code->subfolder;
  }
  if (call.submits)
    return submit_on_host(cli, ssh, call, std::move(request), code ? &*code : nullptr);
  const std::string program = program_there(cli, host);
  if (code) {
    const Interrupt interrupt;
    // The process ends here, and with it the lock: what follows changes nothing in the queue.
    DLRUN_TRY(copy_under_lock(ssh, program, *code, cli.bin_dir / "dlrun", interrupt));
  }
  if (is_among(kWithTerminal, call.command) && is_output_terminal() && is_input_terminal())
    return run_with_terminal(ssh, program, std::move(request));
  return run_request(cli, ssh, call, request);
}

}  // namespace

Result<std::optional<int>> run_on_host(const Cli& cli, const HostCall& call) {
  DLRUN_TRY_ASSIGN(auto file, read_host(call.host, config_folders(cli)));
  DLRUN_TRY_ASSIGN(const auto ssh, Ssh::of_host(std::move(file), cli.env));
  if (is_this_machine(ssh)) return std::optional<int>();
  DLRUN_TRY(ssh.open(may_ask()));
  DLRUN_TRY(ensure_installed(cli, ssh, false));
  auto code = run_there(cli, ssh, call);
  if (!code && code.error().code == Errc::kNotFound) {
    // The host may have lost its copy of dlrun.
    DLRUN_TRY_ASSIGN(const bool is_new, ensure_installed(cli, ssh, true));
    if (is_new) code = run_there(cli, ssh, call);
  }
  if (!code) return tl::unexpected(std::move(code.error()));
  return std::optional(*code);
}

}  // namespace dlrun
