// Tests the requests and frames of -H, the file of a host, and the copy of the code on a host.

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
#include "launcher/remote/code_copy.h"
#include "launcher/remote/code_rsync.h"
#include "launcher/remote/code_state.h"
#include "launcher/remote/host_call.h"
#include "launcher/remote/host_file.h"
#include "launcher/remote/host_program.h"
#include "launcher/remote/host_side.h"
#include "launcher/remote/mirror_lock.h"
#include "launcher/remote/pending.h"
#include "launcher/remote/request.h"
#include "launcher/remote/ssh.h"
#include "launcher/submit/token_claim.h"
#include "tests/temporary_directory.h"

namespace dlrun {
namespace {

constexpr const char* kNonce = "0123456789abcdef0123456789abcdef";

void write(const std::filesystem::path& file, std::string_view text) {
  std::filesystem::create_directories(file.parent_path());
  REQUIRE(write_file_atomic(file, text));
}

/// Returns the message and the places of an error.
template <typename T>
std::string error_text(const Result<T>& result) {
  if (result) return "";
  std::string text = result.error().message;
  for (const Diagnostic& one : result.error().diagnostics.all())
    text += fmt::format("[{}:{}] {}", one.where.line, one.where.column, one.message);
  return text;
}

struct HostFolder {
  TemporaryDirectory folder;
  Result<HostFile> read(std::string_view text) {
    write(folder.path() / "hosts/far.yaml", text);
    return read_host("far", {folder.path()});
  }
};

/// A repository with one file.
struct Repository {
  TemporaryDirectory folder;
  Env env = Env::of_process();
  std::filesystem::path top = std::filesystem::canonical(folder.path()) / "code";
  HostFile host;
  Repository() {
    env.set("HOME", folder.path().string());
    env.set("XDG_STATE_HOME", (folder.path() / "state").string());
    write(top / "exp.yaml", "launch: {command: [true]}\n");
    git({"init", "-q"});
    host.name = "far";
    host.source = "far.yaml";
  }
  void git(std::vector<std::string> words) {
    Command command;
    command.argv = {"git",
                    "-C",
                    top.string(),
                    "-c",
                    "user.name=a",
                    "-c",
                    "user.email=a@b",
                    "-c",
                    "protocol.file.allow=always"};
    command.argv.insert(command.argv.end(), words.begin(), words.end());
    command.env = env;
    const auto ended = run_command(command);
    REQUIRE(ended);
    CAPTURE(ended->err);
    REQUIRE(ended->exit_code == 0);
  }
  Result<CodeToCopy> prepare(const std::string& spec = "exp.yaml") {
    return prepare_code(host, top, spec, env);
  }
};

}  // namespace

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
  request.state = "5eed";
  request.files = std::string("a\0b c\0", 6);
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
  CHECK(back->state == request.state);
  CHECK(back->files == request.files);
  CHECK(back->colour_out);
  CHECK_FALSE(back->colour_err);
  CHECK(back->has_input);
  CHECK(back->paths == request.paths);
  CHECK(back->argv == request.argv);
  CHECK(word_of(*back) == word);
}

TEST_CASE("a word that is no request is refused") {
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

TEST_CASE("more than a mebibyte before the marker is an error") {
  MarkerFilter filter(kNonce);
  const std::string piece(1U << 16U, 'x');
  Result<std::string> passed = std::string();
  for (int i = 0; i < 40 && passed; ++i) passed = filter.pass(piece);
  CHECK(error_text(passed).find(".bashrc") != std::string::npos);
}

TEST_CASE("frames are read whole from pieces of any size, and a wrong or a huge frame is refused") {
  std::string stream;
  stream += encode({Frame::Kind::kInput, "some\nbytes"});
  stream += encode({Frame::Kind::kSignal, "2"});
  stream += encode({Frame::Kind::kInputEnd, ""});
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

TEST_CASE("a host's file can set every key, and a missing key has its default") {
  HostFolder folder;
  const auto plain = folder.read("");
  REQUIRE(plain);
  CHECK(plain->ssh == "far");
  CHECK(plain->root == "~/dlrun");
  CHECK(plain->program == "auto");
  CHECK(plain->sync_max_bytes == std::int64_t{200} << 20);
  const auto host = folder.read(
      "ssh: me@juwels\nroot: $PROJECT/me\ndlrun: ~/bin/dlrun\nmaster: existing\npersist: 30m\n"
      "login_shell: true\nsync: {from: none, also: [data/a], exclude: ['*.bin'], max: 2G}\n");
  REQUIRE(host);
  CHECK(host->ssh == "me@juwels");
  CHECK(host->root == "$PROJECT/me");
  CHECK(host->program == "~/bin/dlrun");
  CHECK(host->master == MasterUse::kExisting);
  CHECK(host->persist == "30m");
  CHECK(host->login_shell);
  CHECK(host->sync_from == CodeSource::kNone);
  CHECK(host->sync_also == std::vector<std::string>{"data/a"});
  CHECK(host->sync_max_bytes == std::int64_t{2} << 30);
}

TEST_CASE(
    "a host's file: every mistake has its place, and text that a shell would run is refused") {
  HostFolder folder;
  CHECK(error_text(folder.read("ssh: -oProxyCommand=reboot\n")).find("[1:6]") == 0);
  CHECK(error_text(folder.read("ssh: 'a b'\n")).find("is not the name of a host") !=
        std::string::npos);
  CHECK(error_text(folder.read("dlrun: /bin/dlrun;reboot\n")).find("expected auto") !=
        std::string::npos);
  CHECK(error_text(folder.read("dlrun: dlrun\n")).find("absolute path") != std::string::npos);
  CHECK(error_text(folder.read("root: here\n")).find("absolute path") != std::string::npos);
  CHECK(error_text(folder.read("persist: 4h -oX\n")).find("duration") != std::string::npos);
  CHECK(error_text(folder.read("sync: {also: [../up]}\n")).find("leaves the tree") !=
        std::string::npos);
  CHECK(error_text(folder.read("sync: {max: lots}\n")).find("is not a size") != std::string::npos);
  const auto all = error_text(folder.read("shh: a\nmaster: maybe\n"));
  CHECK(all.find("did you mean 'ssh'?") != std::string::npos);
  CHECK(all.find("[2:9]") != std::string::npos);
  CHECK(error_text(read_host("fat", {folder.folder.path()})).find("did you mean 'far'?") !=
        std::string::npos);
  CHECK_FALSE(read_host("../far", {folder.folder.path()}));
}

TEST_CASE("a host's file that every user can write is refused") {
  HostFolder folder;
  REQUIRE(folder.read("ssh: a\n"));
  const auto file = folder.folder.path() / "hosts/far.yaml";
  REQUIRE(::chmod(file.c_str(), 0666) == 0);
  CHECK(error_text(read_host("far", {folder.folder.path()})).find("chmod go-w") !=
        std::string::npos);
}

TEST_CASE("a host's file is refused if a group of several users can write it or its folder") {
  HostFolder folder;
  REQUIRE(folder.read("ssh: a\n"));
  const auto hosts = folder.folder.path() / "hosts", file = hosts / "far.yaml";
  // A group that is not the user's first one has other members, or may get some.
  std::vector<gid_t> groups(64);
  const int count = ::getgroups(static_cast<int>(groups.size()), groups.data());
  groups.resize(static_cast<std::size_t>(std::max(count, 0)));
  if (::geteuid() == 0) groups.push_back(1);  // root may give the file to any group
  const auto other =
      std::find_if(groups.begin(), groups.end(), [](gid_t one) { return one != ::getegid(); });
  if (other == groups.end()) return;  // this user has one group only
  for (const auto& path : {hosts, file}) {
    CAPTURE(path.string());
    const mode_t before = path == hosts ? 0700 : 0600;
    REQUIRE(::chown(path.c_str(), static_cast<uid_t>(-1), *other) == 0);
    REQUIRE(::chmod(path.c_str(), before | 0070) == 0);
    CHECK(error_text(read_host("far", {folder.folder.path()})).find("chmod go-w") !=
          std::string::npos);
    REQUIRE(::chmod(path.c_str(), before) == 0);
    CHECK(read_host("far", {folder.folder.path()}));
  }
}

TEST_CASE("docs/remote.md has the table of the keys of a host's file") {
  const auto page = read_file(std::string(DLRUN_SOURCE_DIR) + "/docs/remote.md", 1U << 20U);
  REQUIRE(page);
  CAPTURE(host_keys_markdown());
  CHECK(page->find(host_keys_markdown()) != std::string::npos);
}

TEST_CASE("ssh: the socket's path is short, and differs between aliases that begin alike") {
  Env env;
  env.set("HOME", "/home/me");
  HostFile one, other;
  one.ssh = "a-very-long-name-of-a-host-at-a-site.example.org";
  other.ssh = one.ssh + ".de";
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
  host.ssh = "far";
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

TEST_CASE("ssh: the wait for another command that opens the connection ends, and names it") {
  TemporaryDirectory folder;
  Env env;
  env.set("HOME", folder.path().string());
  env.set("XDG_RUNTIME_DIR", folder.path().string());
  HostFile host;
  host.name = host.ssh = "far";
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
  host.ssh = "far";
  const auto asks = [&](bool can_ask) {
    const auto ssh = Ssh::of_host(host, env, can_ask);
    REQUIRE(ssh);
    const auto argv =
        host.master == MasterUse::kNone ? ssh->command({"true"}, false) : ssh->opener();
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
  const auto argv = ssh->command({"true"}, false);
  CHECK(std::find(argv.begin(), argv.end(), "ProxyCommand=false") != argv.end());
}

TEST_CASE("a connection has six sessions for commands and two more for rsync") {
  TemporaryDirectory folder;
  Env env;
  env.set("HOME", folder.path().string());
  env.set("XDG_RUNTIME_DIR", folder.path().string());
  HostFile host;
  host.ssh = "far";
  const auto ssh = Ssh::of_host(host, env, false);
  REQUIRE(ssh);
  std::vector<UniqueFd> held;
  for (int i = 0; i < 6; ++i) {
    auto session = ssh->take_session(false, std::chrono::seconds(0));
    REQUIRE(session);
    held.push_back(std::move(*session));
  }
  CHECK(error_text(ssh->take_session(false, std::chrono::seconds(0))).find("6 commands") !=
        std::string::npos);
  CHECK(ssh->take_session(true, std::chrono::seconds(0)));
  held.pop_back();
  CHECK(ssh->take_session(false, std::chrono::seconds(0)));
  host.master = MasterUse::kNone;
  const auto unshared = Ssh::of_host(host, env, false);
  REQUIRE(unshared);
  CHECK_FALSE(unshared->take_session(false)->is_open());
}

TEST_CASE("root: ~ and $NAME are replaced, and a variable that is not set is named") {
  Env env;
  env.set("HOME", "/home/me");
  env.set("PROJECT", "/p/x");
  CHECK(expand_root("~/dlrun", env).value() == "/home/me/dlrun");
  CHECK(expand_root("$PROJECT/me", env).value() == "/p/x/me");
  CHECK(expand_root("${PROJECT}/me", env).value() == "/p/x/me");
  CHECK(error_text(expand_root("$SCRATCH/me", env)).find("SCRATCH") != std::string::npos);
  CHECK_FALSE(expand_root("${PROJECT/me", env));
}

TEST_CASE("a mirror's lock refuses a second holder, and names that leave the root") {
  TemporaryDirectory folder;
  {
    const auto lock = MirrorLock::take(folder.path(), "code-1");
    REQUIRE(lock);
    CHECK(std::filesystem::is_directory(folder.path() / "code-1"));
    const auto second = MirrorLock::take(folder.path(), "code-1", std::chrono::seconds(0));
    CHECK(error_text(second).find("another submission") != std::string::npos);
  }
  CHECK(MirrorLock::take(folder.path(), "code-1"));
  for (const char* name : {"", "..", ".", "a/b", "../a", ".hidden"}) {
    CAPTURE(name);
    CHECK_FALSE(MirrorLock::take(folder.path(), name));
  }
}

TEST_CASE("a copy that others can write, or that is a link, is refused") {
  TemporaryDirectory folder;
  const auto open_to_all = folder.path() / "code-2";
  std::filesystem::create_directory(open_to_all);
  std::filesystem::permissions(open_to_all, std::filesystem::perms::all);
  CHECK(error_text(MirrorLock::take(folder.path(), "code-2")).find("others may write it") !=
        std::string::npos);
  std::filesystem::create_directory(folder.path() / "elsewhere");
  std::filesystem::create_directory_symlink(folder.path() / "elsewhere", folder.path() / "code-3");
  CHECK_FALSE(MirrorLock::take(folder.path(), "code-3"));
}

TEST_CASE("a malformed answer of a host about its mirror is refused") {
  CHECK(parse_mirror_answer(mirror_answer("/a", {"/", "/no/such"}, false))->missing ==
        std::vector<std::string>{"/no/such"});
  CHECK_FALSE(parse_mirror_answer(mirror_answer("/a", {}, false))->is_current);
  CHECK(parse_mirror_answer(mirror_answer("/a", {}, true))->is_current);
  for (const char* line : {"", "{", "[]", "{}", R"({"mirror": 3})", R"({"mirror": "rel"})"}) {
    CAPTURE(line);
    CHECK_FALSE(parse_mirror_answer(line));
  }
}

TEST_CASE("a copy is current until a file differs in a way that rsync notices, or is missing") {
  TemporaryDirectory folder;
  const auto here = folder.path() / "here", there = folder.path() / "code-1";
  const std::vector<std::string> names{"gone", "link", "src/deep/a.py", "src/run.sh"};
  for (const auto& top : {here, there}) {
    write(top / "src/deep/a.py", "print()");
    write(top / "src/run.sh", "true");
    std::filesystem::create_symlink("src/run.sh", top / "link");
    for (const char* one : {"src/deep/a.py", "src/run.sh"})
      std::filesystem::last_write_time(top / one, std::filesystem::file_time_type());
    for (const char* one : {"src", "src/deep"}) REQUIRE(::chmod((top / one).c_str(), 0755) == 0);
  }
  const std::string state = state_of_files(here, names);
  CHECK_FALSE(is_current(folder.path(), "code-1", state));  // the host has no list of files yet
  REQUIRE(keep_file_list(folder.path(), "code-1", joined_names(names)));
  CHECK(is_current(folder.path(), "code-1", state));
  CHECK_FALSE(is_current(folder.path(), "code-1", ""));
  write(there / "result.txt", "a file that the job has made");
  CHECK(is_current(folder.path(), "code-1", state));

  const auto differs_after = [&](const auto& change, const auto& undo) {
    change();
    const bool differs = !is_current(folder.path(), "code-1", state);
    undo();
    return differs && is_current(folder.path(), "code-1", state);
  };
  const auto file = there / "src/run.sh", deep = there / "src/deep", link = there / "link";
  const auto set_old = [&] {
    std::filesystem::last_write_time(file, std::filesystem::file_time_type());
  };
  const auto rewrite = [&](std::string_view text) {
    return [&, text] {
      write(file, text);
      set_old();
    };
  };
  const auto mode = [](const std::filesystem::path& path, mode_t wanted) {
    return [path, wanted] { REQUIRE(::chmod(path.c_str(), wanted) == 0); };
  };
  CHECK(differs_after(rewrite("false"), rewrite("true")));
  CHECK(differs_after([&] { write(file, "eurt"); }, rewrite("true")));  // a new modification time
  CHECK(differs_after(mode(file, 0755), mode(file, 0600)));
  CHECK(differs_after(mode(deep, 0700), mode(deep, 0755)));
  CHECK(differs_after([&] { write(there / "gone", ""); },
                      [&] { std::filesystem::remove(there / "gone"); }));
  CHECK(differs_after(
      [&] {
        std::filesystem::remove(link);
        std::filesystem::create_symlink("src/deep", link);
      },
      [&] {
        std::filesystem::remove(link);
        std::filesystem::create_symlink("src/run.sh", link);
      }));
  REQUIRE(keep_file_list(folder.path(), "code-1", joined_names({"link"})));
  CHECK_FALSE(is_current(folder.path(), "code-1", state));
}

TEST_CASE("values of --set reach the host by standard input and not in an argument") {
  TemporaryDirectory folder;
  const auto pretended = folder.path() / "ssh";
  write(pretended,
        fmt::format("#!/bin/sh\necho \"$*\" >{0}/args\ncat >{0}/input\n", folder.path().string()));
  REQUIRE(::chmod(pretended.c_str(), 0700) == 0);
  Env env;
  env.set("HOME", folder.path().string());
  env.set("XDG_RUNTIME_DIR", folder.path().string());
  env.set("PATH", folder.path().string() + ":/usr/bin:/bin");
  HostFile host;
  host.ssh = "far";
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
    REQUIRE(process->finish(accept, accept, interrupt));
  };
  const auto holds = [&](const char* file, const std::string& text) {
    return read_file(folder.path() / file, 65536).value().find(text) != std::string::npos;
  };
  for (const char* option : {"--set", "--set=environment.vars.KEY=hidden"}) {
    request.argv = {"submit", "exp.yaml", option, "environment.vars.KEY=hidden"};
    send();
    CHECK(holds("args", "--remote -"));
    CHECK_FALSE(holds("args", word_of(request)));
    CHECK(holds("input", word_of(request) + "\n"));
  }
  request.argv = {"status", "last"};
  send();
  CHECK(holds("args", "--remote " + word_of(request)));
}

TEST_CASE(
    "the code has the files of git's list, of submodules and of `also`, without those of "
    "`exclude`") {
  Repository code;
  write(code.top / ".gitignore", "*.log\ndata/\n");
  write(code.top / "new file\nof two lines", "x");
  write(code.top / "a.log", "x");
  write(code.top / "data/big", "x");
  write(code.top / "sub/notes.md", "x");
  Repository module;
  module.git({"add", "."});
  module.git({"commit", "-qm", "one"});
  code.git({"submodule", "add", "-q", module.top.string(), "lib"});
  std::filesystem::create_directories(code.top / "other/.git");
  code.host.sync_also = {"data"};
  code.host.sync_exclude = {"*.md"};
  const auto prepared = code.prepare();
  REQUIRE(prepared);
  CHECK(prepared->list.files == std::vector<std::string>{".gitignore", ".gitmodules", "data/big",
                                                         "exp.yaml", "lib/exp.yaml",
                                                         "new file\nof two lines"});
}

TEST_CASE(
    "the code: the command starts in the current folder if the code contains it, else in the "
    "spec's folder") {
  Repository code;
  write(code.top / "runs/deep/b.yaml", "name: b\n");
  const auto from_top = prepare_code(code.host, code.top, "runs/deep/b.yaml", code.env);
  REQUIRE(from_top);
  CHECK(from_top->subfolder == ".");
  CHECK(from_top->spec == "runs/deep/b.yaml");
  const auto absolute =
      prepare_code(code.host, code.top / "runs", (code.top / "exp.yaml").string(), code.env);
  REQUIRE(absolute);
  CHECK(absolute->subfolder == "runs");
  CHECK(absolute->spec == "../exp.yaml");
  const auto outside =
      prepare_code(code.host, code.top.parent_path(), "code/runs/deep/b.yaml", code.env);
  REQUIRE(outside);
  CHECK(outside->subfolder == "runs/deep");
  CHECK(outside->spec == "b.yaml");
  const auto nowhere = prepare_code(code.host, code.top.parent_path(), "exp.yaml", code.env);
  CHECK(error_text(nowhere).find("not in a git repository") != std::string::npos);
}

TEST_CASE("code larger than sync.max is refused with its largest files") {
  Repository code;
  write(code.top / "weights.bin", std::string(2U << 20U, 'x'));
  code.host.sync_max_bytes = 1 << 20;
  const auto text = error_text(code.prepare());
  CHECK(text.find("weights.bin") != std::string::npos);
  CHECK(text.find("sync.max") != std::string::npos);
}

TEST_CASE("paths of a spec that are wrong on a host are refused by key, with their places") {
  Repository code;
  write(code.top / "exp.yaml", fmt::format("base: ../common.yaml\n"
                                           "environment: {{venv: {0}/venv, pixi: {0}/pixi}}\n"
                                           "container: {{image: ../image.sqsh}}\n"
                                           "stage: [{{from: {0}/data, to: $TMPDIR/data}}]\n",
                                           code.top.string()));
  const auto text = error_text(code.prepare());
  CHECK(text.find("[1:7] base: '../common.yaml' leaves the tree") != std::string::npos);
  for (const char* key : {"environment.venv", "environment.pixi", "stage.from"}) {
    CAPTURE(key);
    CHECK(text.find(fmt::format("{}: '{}/", key, code.top.string())) != std::string::npos);
  }
  CHECK(text.find("is a path of this machine") != std::string::npos);
  CHECK(text.find("[3:20] container.image") != std::string::npos);
}

TEST_CASE("absolute paths that are missing on the host are refused") {
  Repository code;
  const auto venv = code.folder.path() / "venv";
  std::filesystem::create_directories(venv);
  write(code.top / "common.yaml", fmt::format("environment: {{venv: {}}}\n", venv.string()));
  write(code.top / "exp.yaml", "base: common.yaml\ncontainer: {image: /no/such.sqsh}\n");
  const auto prepared = code.prepare();
  REQUIRE(prepared);
  REQUIRE(prepared->paths.size() == 1);
  CHECK(prepared->paths[0].path == venv.string());
  CHECK(refuse_missing(prepared->paths, {}, "far"));
  CHECK(error_text(refuse_missing(prepared->paths, {venv.string()}, "far")).find("not on far") !=
        std::string::npos);
}

TEST_CASE("after a submission without an answer, only the same command gets its token again") {
  TemporaryDirectory folder;
  Env env;
  env.set("XDG_STATE_HOME", folder.path().string());
  std::string token;
  {
    auto first = PendingSubmission::find_or_make(env, "far", "submit exp.yaml", "submit");
    REQUIRE(first);
    CHECK_FALSE(first->is_repeated());
    token = first->token();
    // The first is still in progress, so the same command is another submission.
    auto beside = PendingSubmission::find_or_make(env, "far", "submit exp.yaml", "submit");
    REQUIRE(beside);
    CHECK(beside->token() != token);
    beside->settle();
  }
  auto other = PendingSubmission::find_or_make(env, "far", "submit exp.yaml --set a=b", "submit");
  REQUIRE(other);
  CHECK_FALSE(other->is_repeated());
  other->settle();
  auto again = PendingSubmission::find_or_make(env, "far", "submit exp.yaml", "submit");
  REQUIRE(again);
  CHECK(again->is_repeated());
  CHECK(again->token() == token);
  CHECK(open_submissions(env, "far").size() == 1);
  again->settle();
  CHECK(open_submissions(env, "far").empty());
}

TEST_CASE("the run of a token is remembered, and a token has 32 hexadecimal digits") {
  TemporaryDirectory folder;
  Env env;
  env.set("XDG_STATE_HOME", folder.path().string());
  {
    auto claim = TokenClaim::take(env, kNonce);
    REQUIRE(claim);
    CHECK(claim->run().empty());
    REQUIRE(claim->set_run("/runs/a-1", true));
  }
  auto again = TokenClaim::take(env, kNonce);
  REQUIRE(again);
  CHECK(again->run() == "/runs/a-1");
  CHECK(again->has_created_run());
  REQUIRE(again->set_run("/runs/sweep", false));
  CHECK_FALSE(again->has_created_run());
  for (const char* token : {"", "abc", "../../../../../../../../../../etc", "0123456789ABCDEFg"}) {
    CAPTURE(token);
    CHECK_FALSE(TokenClaim::take(env, token));
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

TEST_CASE("a host writes to its standard output and gets the path of the spec there") {
  HostCall call;
  call.arguments = {"render", "-vo", "job.sh", "exp.yaml", "--", "exp.yaml"};
  call.spec = "exp.yaml";
  call.output = "job.sh";
  const std::string there = "sub/exp.yaml";
  CHECK(adapted_arguments(call, &there) ==
        std::vector<std::string>{"render", "-vo", "-", "sub/exp.yaml", "--", "exp.yaml"});
  call.arguments = {"render", "--output=job.sh", "exp.yaml"};
  CHECK(adapted_arguments(call, nullptr) ==
        std::vector<std::string>{"render", "--output=-", "exp.yaml"});
  call.output.clear();
  CHECK(adapted_arguments(call, nullptr) == call.arguments);
}

}  // namespace dlrun
