// Tests the requests and frames of -H, the calls of ssh, the arguments that the host gets, and the
// tokens of submissions.

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "common/files.h"
#include "common/subprocess.h"
#include "launcher/remote/code_rsync.h"
#include "launcher/remote/host_call.h"
#include "launcher/remote/host_command.h"
#include "launcher/remote/host_file.h"
#include "launcher/remote/host_program.h"
#include "launcher/remote/host_side.h"
#include "launcher/remote/mirror_lock.h"
#include "launcher/remote/request.h"
#include "launcher/remote/ssh.h"
#include "launcher/remote/unanswered_submission.h"
#include "launcher/submit/held_token.h"
#include "tests/temporary_directory.h"
#include "tests/unit/remote_helpers.h"

namespace dlrun {
namespace {

constexpr const char* kNonce = "0123456789abcdef0123456789abcdef";

}  // namespace

TEST_CASE("dlrun is copied to a host again after the trainer was installed on this machine") {
  const TemporaryDirectory root;
  Context context;
  context.bin_dir = root.path() / "bin";
  context.tools = {"abc", {{"bin/dlrun-agent", ""}, {"bin/dlrun-trainer", ""}}};
  write(context.bin_dir / "dlrun-agent", "agent");
  const std::string path_without_trainer = program_on_host(context, {});
  CHECK(program_on_host(context, {}) == path_without_trainer);
  write(context.bin_dir / "dlrun-trainer", "trainer");
  CHECK(program_on_host(context, {}) != path_without_trainer);
}

TEST_CASE(
    "a request becomes one word of letters, digits, - and _, and can be read back unchanged") {
  RemoteRequest request;
  request.mode = RemoteMode::kMirror;
  request.nonce = kNonce;
  request.root = "$PROJECT/a b";
  request.mirror = "code-12345678";
  request.subfolder = "deep/er";
  request.token = kNonce;
  request.git_state = std::string("root\0commit\0\0patch", 18);
  request.code_state = "5eed";
  request.file_list = std::string("a\0b c\0", 6);
  request.colour_out = true;
  request.has_input = true;
  request.paths = {"/a", "/b c"};
  std::string all;
  for (int c = 1; c < 256; ++c) all += static_cast<char>(c);
  request.argv = {"submit", all, "", "--set=x=$(reboot)", "!!"};
  const std::string word = word_of(request);
  CHECK(
      word.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") ==
      std::string::npos);
  const auto back = parse_request(word);
  REQUIRE(back);
  CHECK(back->mode == RemoteMode::kMirror);
  CHECK(back->root == request.root);
  CHECK(back->mirror == request.mirror);
  CHECK(back->subfolder == request.subfolder);
  CHECK(back->token == request.token);
  CHECK(back->git_state == request.git_state);
  CHECK(back->code_state == request.code_state);
  CHECK(back->file_list == request.file_list);
  CHECK(back->colour_out);
  CHECK_FALSE(back->colour_err);
  CHECK(back->has_input);
  CHECK(back->paths == request.paths);
  CHECK(back->argv == request.argv);
  CHECK(word_of(*back) == word);
}

TEST_CASE("a word that cannot be read back as a request is refused") {
  for (const std::string_view word : {"", "-", "a", "####", "YWJj", "dmVyc2lvbj05"}) {
    CAPTURE(word);
    CHECK_FALSE(parse_request(word));
  }
}

TEST_CASE("base64url: bytes of any length can be read back, and other characters are refused") {
  std::string bytes;
  for (int length = 0; length < 70; ++length) {
    CHECK(from_base64url(base64url(bytes)) == bytes);
    bytes += static_cast<char>(length * 37);
  }
  CHECK(base64url("\xff\xfe") == "__4");
  CHECK_FALSE(from_base64url("a+b/"));
  CHECK_FALSE(from_base64url("abcde"));
}

TEST_CASE("text that a shell prints before the marker is dropped, wherever the pieces end") {
  const std::string text =
      "Welcome!\n<dlrun ffff 1>\nnoise" + marker_of(kNonce, "9.9") + "out\nput";
  for (std::size_t piece = 1; piece < 40; ++piece) {
    MarkerFilter filter(kNonce);
    std::string passed;
    for (std::size_t at = 0; at < text.size(); at += piece) {
      const auto part = filter.pass(std::string_view(text).substr(at, piece));
      REQUIRE(part);
      passed += *part;
    }
    CHECK(passed == "out\nput");
    CHECK(filter.version() == "9.9");
    CHECK(filter.noise() == "Welcome!\n<dlrun ffff 1>\nnoise");
  }
}

TEST_CASE("more than a mebibyte of text before the marker is an error") {
  MarkerFilter filter(kNonce);
  const std::string piece(1U << 16U, 'x');
  Result<std::string> passed = std::string();
  for (int i = 0; i < 40 && passed; ++i) passed = filter.pass(piece);
  CHECK(error_text(passed).find(".bashrc") != std::string::npos);
}

TEST_CASE("frames are read whole from pieces of any size, and a wrong or a huge frame is refused") {
  std::string stream;
  stream += encode({RemoteFrame::Kind::kInput, "some\nbytes"});
  stream += encode({RemoteFrame::Kind::kSignal, "2"});
  stream += encode({RemoteFrame::Kind::kInputEnd, ""});
  for (std::size_t piece = 1; piece < stream.size(); ++piece) {
    FrameReader reader;
    std::string kinds, bytes;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
      reader.add(std::string_view(stream).substr(at, piece));
      for (;;) {
        const auto frame = reader.next();
        REQUIRE(frame);
        if (!*frame) break;
        kinds += static_cast<char>((*frame)->kind);
        bytes += (*frame)->bytes;
      }
    }
    CHECK(kinds == "ise");
    CHECK(bytes == "some\nbytes2");
  }
  FrameReader wrong;
  wrong.add("xxxxxxxx");
  CHECK_FALSE(wrong.next());
  FrameReader huge;
  huge.add(std::string_view("i\xff\xff\xff\xff", 5));
  CHECK_FALSE(huge.next());
}

TEST_CASE(
    "exit code 255 means a lost connection, except after commands that exit with the program's "
    "code") {
  TemporaryDirectory home;
  Env env;
  env.set("HOME", home.path().string());
  HostFile host;
  host.name = "far";
  host.ssh_destination = "far";
  const auto ssh = Ssh::of_host(host, env, false);
  REQUIRE(ssh);
  RemoteOutcome end;
  end.has_begun = true;
  end.exit_code = kSshFailed;
  for (const char* command : {"run", "submit", "logs", "bench"}) {
    CAPTURE(command);
    HostCall call;
    call.command = command;
    const auto checked = check_end(call, *ssh, end);
    REQUIRE_FALSE(checked);
    CHECK(checked.error().code == Errc::kUnavailable);
    CHECK(checked.error().message.find("the connection was lost") != std::string::npos);
  }
  for (const char* command : {"interactive", "attach"}) {
    CAPTURE(command);
    HostCall call;
    call.command = command;
    CHECK(check_end(call, *ssh, end));
  }
}

TEST_CASE(
    "if ssh cannot connect again after a submission, the error says that the job is submitted") {
  TemporaryDirectory home;
  Env env;
  env.set("HOME", home.path().string());
  HostFile host;
  host.name = "far";
  host.ssh_destination = "far";
  const auto ssh = Ssh::of_host(host, env, false);
  REQUIRE(ssh);
  RemoteOutcome end;
  end.exit_code = kSshFailed;
  HostCall call;
  call.command = "submit";
  CHECK(error_text(check_end(call, *ssh, end)).find("is submitted") == std::string::npos);
  call.submits = true;
  CHECK(error_text(check_end(call, *ssh, end)).find("The job is submitted") != std::string::npos);
}

TEST_CASE(
    "the error for a dlrun that does not start on the host names ~/.cache/dlrun or the key "
    "`dlrun`") {
  TemporaryDirectory home;
  Env env;
  env.set("HOME", home.path().string());
  HostFile host;
  host.name = "far";
  host.ssh_destination = "far";
  RemoteOutcome end;
  end.exit_code = 127;
  const auto automatic = Ssh::of_host(host, env, false);
  REQUIRE(automatic);
  CHECK(error_text(check_end({}, *automatic, end)).find("~/.cache/dlrun") != std::string::npos);
  host.program = "/opt/dlrun";
  const auto installed = Ssh::of_host(host, env, false);
  REQUIRE(installed);
  CHECK(error_text(check_end({}, *installed, end)).find("correct the key `dlrun`") !=
        std::string::npos);
}

TEST_CASE("ssh: the socket's path is short, and differs between destinations that begin alike") {
  Env env;
  env.set("HOME", "/home/me");
  HostFile one, other;
  one.ssh_destination = "a-very-long-name-of-a-host-at-a-site.example.org";
  other.ssh_destination = one.ssh_destination + ".de";
  const auto first = Ssh::of_host(one, env, false), second = Ssh::of_host(other, env, false);
  REQUIRE(first);
  REQUIRE(second);
  CHECK(first->socket().string().size() < 90);
  CHECK(first->socket() != second->socket());
  CHECK_FALSE(first->is_open());
}

TEST_CASE("ssh: the socket is in ~/.cache if others can enter the usual folder") {
  TemporaryDirectory home, shared;
  Env env;
  env.set("HOME", home.path().string());
  HostFile host;
  host.ssh_destination = "far";
  const auto usual = shared.path() / fmt::format("dlrun-ssh-{}", ::geteuid());
  const auto first = Ssh::of_host(host, env, false, shared.path());
  REQUIRE(first);
  CHECK(first->socket().parent_path() == usual);
  REQUIRE(::chmod(usual.c_str(), 0777) == 0);
  const auto second = Ssh::of_host(host, env, false, shared.path());
  REQUIRE(second);
  CHECK(second->socket().parent_path() == home.path() / ".cache/dlrun/ssh");
  env.set("HOME", "/" + std::string(100, 'x'));  // too long for the path of a socket
  CHECK(error_text(Ssh::of_host(host, env, false, shared.path())).find("Set XDG_RUNTIME_DIR") !=
        std::string::npos);
}

TEST_CASE(
    "ssh: the wait for a command that opens the connection has a limit, and the error has its "
    "process id") {
  TemporaryDirectory folder;
  Env env;
  env.set("HOME", folder.path().string());
  env.set("XDG_RUNTIME_DIR", folder.path().string());
  HostFile host;
  host.name = host.ssh_destination = "far";
  const auto ssh = Ssh::of_host(host, env, false);
  REQUIRE(ssh);
  const std::string file = ssh->socket().string() + ".lock";
  write(file, fmt::format("{}\n", ::getpid()));
  const UniqueFd held(::open(file.c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(::flock(held.get(), LOCK_EX) == 0);
  const auto opened = ssh->open(false, std::chrono::seconds(0));
  REQUIRE_FALSE(opened);
  CHECK(opened.error().code == Errc::kUnavailable);
  CHECK(opened.error().message.find(fmt::format("(process {})", ::getpid())) != std::string::npos);
}

TEST_CASE("ssh never stops at a question if nobody can answer it") {
  Env env;
  env.set("HOME", "/home/me");
  HostFile host;
  host.ssh_destination = "far";
  const auto asks = [&](bool can_ask) {
    const auto ssh = Ssh::of_host(host, env, can_ask);
    REQUIRE(ssh);
    const auto argv =
        host.master == MasterUse::kNone ? ssh->command_argv({"true"}, false) : ssh->opener_argv();
    return std::find(argv.begin(), argv.end(), "BatchMode=yes") == argv.end();
  };
  for (const MasterUse master : {MasterUse::kAuto, MasterUse::kNone}) {
    host.master = master;
    CHECK(asks(true));
    CHECK_FALSE(asks(false));
  }
  // A call over the shared connection never connects by itself.
  host.master = MasterUse::kAuto;
  const auto ssh = Ssh::of_host(host, env, true);
  REQUIRE(ssh);
  const auto argv = ssh->command_argv({"true"}, false);
  CHECK(std::find(argv.begin(), argv.end(), "ProxyCommand=false") != argv.end());
}

TEST_CASE("a connection has six sessions for commands and two for rsync") {
  TemporaryDirectory folder;
  Env env;
  env.set("HOME", folder.path().string());
  env.set("XDG_RUNTIME_DIR", folder.path().string());
  HostFile host;
  host.ssh_destination = "far";
  const auto ssh = Ssh::of_host(host, env, false);
  REQUIRE(ssh);
  std::vector<UniqueFd> held;
  for (int i = 0; i < 6; ++i) {
    auto session = ssh->lock_session_slot(false, std::chrono::seconds(0));
    REQUIRE(session);
    held.push_back(std::move(*session));
  }
  CHECK(error_text(ssh->lock_session_slot(false, std::chrono::seconds(0))).find("6 commands") !=
        std::string::npos);
  {
    const auto first = ssh->lock_session_slot(true, std::chrono::seconds(0));
    const auto second = ssh->lock_session_slot(true, std::chrono::seconds(0));
    REQUIRE(first);
    REQUIRE(second);
    CHECK(error_text(ssh->lock_session_slot(true, std::chrono::seconds(0)))
              .find("2 copies by rsync") != std::string::npos);
  }
  held.pop_back();
  CHECK(ssh->lock_session_slot(false, std::chrono::seconds(0)));
  host.master = MasterUse::kNone;
  const auto unshared = Ssh::of_host(host, env, false);
  REQUIRE(unshared);
  CHECK_FALSE(unshared->lock_session_slot(false)->is_open());
}

TEST_CASE("values of --set reach the host by standard input and not in an argument") {
  TemporaryDirectory folder;
  const auto fake_ssh = folder.path() / "ssh";
  write(fake_ssh,
        fmt::format("#!/bin/sh\necho \"$*\" >{0}/args\ncat >{0}/input\n", folder.path().string()));
  REQUIRE(::chmod(fake_ssh.c_str(), 0700) == 0);
  Env env;
  env.set("HOME", folder.path().string());
  env.set("XDG_RUNTIME_DIR", folder.path().string());
  env.set("PATH", folder.path().string() + ":/usr/bin:/bin");
  HostFile host;
  host.ssh_destination = "far";
  host.master = MasterUse::kNone;
  const auto ssh = Ssh::of_host(host, env, false);
  REQUIRE(ssh);
  RemoteRequest request;
  request.nonce = kNonce;
  const auto send = [&] {
    auto process = start_on_host(*ssh, "/bin/dlrun", request);
    REQUIRE(process);
    process->end_input();
    const Interrupt interrupt;
    const auto accept = [](std::string_view) { return true; };
    REQUIRE(process->follow_to_end(accept, accept, interrupt));
  };
  const auto file_has = [&](const char* file, const std::string& text) {
    return read_file(folder.path() / file, 65536).value().find(text) != std::string::npos;
  };
  for (const char* option : {"--set", "--set=environment.vars.KEY=hidden"}) {
    request.argv = {"submit", "exp.yaml", option, "environment.vars.KEY=hidden"};
    send();
    CHECK(file_has("args", "--remote -"));
    CHECK_FALSE(file_has("args", word_of(request)));
    CHECK(file_has("input", word_of(request) + "\n"));
  }
  request.argv = {"status", "last"};
  send();
  CHECK(file_has("args", "--remote " + word_of(request)));
}

TEST_CASE("after a submission without an answer, only the same command uses its token again") {
  TemporaryDirectory folder;
  Env env;
  env.set("XDG_STATE_HOME", folder.path().string());
  std::string token;
  {
    auto first = UnansweredSubmission::find_or_make(env, "far", "submit exp.yaml", "submit");
    REQUIRE(first);
    CHECK_FALSE(first->is_from_earlier_call());
    token = first->token();
    // The first is still in progress, so the same command is another submission.
    auto concurrent = UnansweredSubmission::find_or_make(env, "far", "submit exp.yaml", "submit");
    REQUIRE(concurrent);
    CHECK(concurrent->token() != token);
    concurrent->remove();
  }
  auto other =
      UnansweredSubmission::find_or_make(env, "far", "submit exp.yaml --set a=b", "submit");
  REQUIRE(other);
  CHECK_FALSE(other->is_from_earlier_call());
  other->remove();
  auto again = UnansweredSubmission::find_or_make(env, "far", "submit exp.yaml", "submit");
  REQUIRE(again);
  CHECK(again->is_from_earlier_call());
  CHECK(again->token() == token);
  CHECK(unanswered_commands(env, "far").size() == 1);
  again->remove();
  CHECK(unanswered_commands(env, "far").empty());
}

TEST_CASE("the run of a token is remembered, and a token has 32 hexadecimal digits") {
  TemporaryDirectory folder;
  Env env;
  env.set("XDG_STATE_HOME", folder.path().string());
  {
    auto held = HeldToken::take(env, kNonce);
    REQUIRE(held);
    CHECK(held->run().empty());
    REQUIRE(held->store_run("/runs/a-1", true));
  }
  auto again = HeldToken::take(env, kNonce);
  REQUIRE(again);
  CHECK(again->run() == "/runs/a-1");
  CHECK(again->has_created_run());
  REQUIRE(again->store_run("/runs/sweep", false));
  CHECK_FALSE(again->has_created_run());
  for (const char* token : {"", "abc", "../../../../../../../../../../etc", "0123456789ABCDEFg"}) {
    CAPTURE(token);
    CHECK_FALSE(HeldToken::take(env, token));
  }
}

TEST_CASE("a host gets the command without -H and --log-file") {
  using Arguments = std::vector<std::string>;
  CHECK(arguments_for_host({"dlrun", "-H", "far", "submit", "-v", "x.yaml", "--log-file", "l", "--",
                            "-H", "--log-file"}) ==
        Arguments{"submit", "-v", "x.yaml", "--", "-H", "--log-file"});
  CHECK(arguments_for_host({"dlrun", "--host=far", "--log-file=l", "ls", "-Hx"}) ==
        Arguments{"ls", "-Hx"});
  CHECK(arguments_for_host({"dlrun", "-vHfar", "ls"}) == Arguments{"-v", "ls"});
  CHECK(arguments_for_host({"dlrun", "-vH", "far", "ls"}) == Arguments{"-v", "ls"});
  CHECK(arguments_for_host({"dlrun", "-Hfar", "ls"}) == Arguments{"ls"});
}

TEST_CASE("a command runs on the host unless it only concerns this machine or explains a key") {
  const TemporaryDirectory folder;
  REQUIRE(write_file_atomic(folder / "exp.yaml", "name: x\n"));
  const auto call = [&](const char* host, CommandPlace place, const ParsedCall& parsed) {
    return call_for_host(host, place, parsed, {"dlrun", parsed.command}, folder.path());
  };
  CHECK_FALSE(call("", CommandPlace::kHost, {"ls", "", ""}));
  CHECK_FALSE(call("far", CommandPlace::kHere, {"init", "", ""}));
  CHECK_FALSE(call("far", CommandPlace::kHostWithCode, {"explain", "resources.nodes", ""}));
  CHECK(call("far", CommandPlace::kHostWithCode, {"explain", "exp.yaml", ""})->needs_source_code);
  CHECK_FALSE(call("far", CommandPlace::kHost, {"ls", "", ""})->needs_source_code);
  const auto render = call("far", CommandPlace::kHostWithCode, {"render", "exp.yaml", "-"});
  REQUIRE(render.has_value());
  CHECK(render->output_file.empty());
  CHECK_FALSE(render->submits);
  CHECK(call("far", CommandPlace::kHostWithCode, {"submit", "exp.yaml", ""})->submits);
  CHECK_FALSE(
      call("far", CommandPlace::kHostWithCode, {"submit", "exp.yaml", "", /*is_trial=*/true})
          ->submits);
}

TEST_CASE("the arguments for a host have `--output -` and the spec's path on the host") {
  HostCall call;
  call.arguments = {"render", "-vo", "job.sh", "exp.yaml", "--", "exp.yaml"};
  call.spec = "exp.yaml";
  call.output_file = "job.sh";
  const std::string path_on_host = "sub/exp.yaml";
  CHECK(adapted_arguments(call, &path_on_host) ==
        std::vector<std::string>{"render", "-vo", "-", "sub/exp.yaml", "--", "exp.yaml"});
  call.arguments = {"render", "--output=job.sh", "exp.yaml"};
  CHECK(adapted_arguments(call, nullptr) ==
        std::vector<std::string>{"render", "--output=-", "exp.yaml"});
  call.output_file.clear();
  CHECK(adapted_arguments(call, nullptr) == call.arguments);
}

TEST_CASE("an option's value that equals the spec's path is not replaced by the path on the host") {
  HostCall call;
  call.arguments = {"submit", "exp.yaml", "--runs", "exp.yaml", "--watch", "--name=exp.yaml"};
  call.spec = "exp.yaml";
  call.value_options = {"--runs", "--name"};
  const std::string path_on_host = "sub/exp.yaml";
  CHECK(adapted_arguments(call, &path_on_host) ==
        std::vector<std::string>{"submit", "sub/exp.yaml", "--runs", "exp.yaml", "--watch",
                                 "--name=exp.yaml"});
  call.arguments = {"submit", "--runs", "exp.yaml", "exp.yaml"};
  CHECK(adapted_arguments(call, &path_on_host) ==
        std::vector<std::string>{"submit", "--runs", "exp.yaml", "sub/exp.yaml"});
}

}  // namespace dlrun
