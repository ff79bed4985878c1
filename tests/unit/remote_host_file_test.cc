// Tests the file of a host, hosts/NAME.yaml.

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "common/files.h"
#include "launcher/remote/host_file.h"
#include "launcher/remote/host_side.h"
#include "tests/temporary_directory.h"
#include "tests/unit/remote_helpers.h"

namespace dlrun {
namespace {

/// A folder of configuration in which the file of the host "far" can be written.
struct HostFileScene {
  TemporaryDirectory folder;
  Result<HostFile> write_and_read(std::string_view text) {
    write(folder.path() / "hosts/far.yaml", text);
    return read_host("far", {folder.path()});
  }
};

}  // namespace

TEST_CASE("a host's file can set every key, and a missing key has its default") {
  HostFileScene scene;
  const auto plain = scene.write_and_read("");
  REQUIRE(plain);
  CHECK(plain->ssh_destination == "far");
  CHECK(plain->root == "~/dlrun");
  CHECK(plain->program == "auto");
  CHECK(plain->sync_max_bytes == std::int64_t{200} << 20);
  const auto host = scene.write_and_read(
      "ssh: me@juwels\nroot: $PROJECT/me\ndlrun: ~/bin/dlrun\nmaster: existing\npersist: 30m\n"
      "login_shell: true\nsync: {from: none, also: [data/a], exclude: ['*.bin'], max: 2G}\n");
  REQUIRE(host);
  CHECK(host->ssh_destination == "me@juwels");
  CHECK(host->root == "$PROJECT/me");
  CHECK(host->program == "~/bin/dlrun");
  CHECK(host->master == MasterUse::kExisting);
  CHECK(host->persist == "30m");
  CHECK(host->uses_login_shell);
  CHECK(host->sync_from == CodeSource::kNone);
  CHECK(host->sync_also == std::vector<std::string>{"data/a"});
  CHECK(host->sync_max_bytes == std::int64_t{2} << 30);
}

TEST_CASE(
    "a host's file: every mistake has its position, and text that a shell would run is refused") {
  HostFileScene scene;
  CHECK(error_text(scene.write_and_read("ssh: -oProxyCommand=reboot\n")).find("[1:6]") == 0);
  CHECK(error_text(scene.write_and_read("ssh: 'a b'\n")).find("is not the name of a host") !=
        std::string::npos);
  CHECK(error_text(scene.write_and_read("dlrun: /bin/dlrun;reboot\n")).find("expected auto") !=
        std::string::npos);
  CHECK(error_text(scene.write_and_read("dlrun: dlrun\n")).find("the path of dlrun on the host") !=
        std::string::npos);
  CHECK(error_text(scene.write_and_read("root: here\n")).find("absolute path") !=
        std::string::npos);
  CHECK(error_text(scene.write_and_read("persist: 4h -oX\n")).find("duration") !=
        std::string::npos);
  for (const char* path : {"../up", "/data", "a/../b"}) {
    CAPTURE(path);
    CHECK(error_text(scene.write_and_read(fmt::format("sync: {{also: [{}]}}\n", path)))
              .find("relative to the repository's top folder, without '..'") != std::string::npos);
  }
  CHECK(error_text(scene.write_and_read("sync: {max: lots}\n")).find("is not a size") !=
        std::string::npos);
  const auto all = error_text(scene.write_and_read("shh: a\nmaster: maybe\n"));
  CHECK(all.find("did you mean 'ssh'?") != std::string::npos);
  CHECK(all.find("[2:9]") != std::string::npos);
  CHECK(error_text(read_host("fat", {scene.folder.path()})).find("did you mean 'far'?") !=
        std::string::npos);
  CHECK_FALSE(read_host("../far", {scene.folder.path()}));
}

TEST_CASE("a mistake in a host's file has an origin of the kind file, not preset") {
  HostFileScene scene;
  for (const char* text : {"shh: a\n", "ssh: [\n"}) {
    const auto host = scene.write_and_read(text);
    REQUIRE_FALSE(host);
    for (const Diagnostic& one : host.error().diagnostics.all())
      CHECK(one.where.kind == Origin::Kind::kFile);
    CHECK_FALSE(host.error().diagnostics.all().empty());
  }
}

TEST_CASE("a host's file that every user can write is refused") {
  HostFileScene scene;
  REQUIRE(scene.write_and_read("ssh: a\n"));
  const auto file = scene.folder.path() / "hosts/far.yaml";
  REQUIRE(::chmod(file.c_str(), 0666) == 0);
  CHECK(error_text(read_host("far", {scene.folder.path()})).find("chmod go-w") !=
        std::string::npos);
}

TEST_CASE("a host's file is refused if a group of several users can write it or its folder") {
  HostFileScene scene;
  REQUIRE(scene.write_and_read("ssh: a\n"));
  const auto hosts = scene.folder.path() / "hosts", file = hosts / "far.yaml";
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
    CHECK(error_text(read_host("far", {scene.folder.path()})).find("chmod go-w") !=
          std::string::npos);
    REQUIRE(::chmod(path.c_str(), before) == 0);
    CHECK(read_host("far", {scene.folder.path()}));
  }
}

TEST_CASE("docs/remote.md has the table of the keys of a host's file") {
  const auto page = read_file(std::string(DLRUN_SOURCE_DIR) + "/docs/remote.md", 1U << 20U);
  REQUIRE(page);
  CAPTURE(host_file_keys_markdown());
  CHECK(page->find(host_file_keys_markdown()) != std::string::npos);
}

TEST_CASE(
    "a host's file: ~ and $NAME in `root` are replaced, and the error names a variable that is not "
    "set") {
  Env env;
  env.set("HOME", "/home/me");
  env.set("PROJECT", "/p/x");
  CHECK(expand_root("~/dlrun", env).value() == "/home/me/dlrun");
  CHECK(expand_root("$PROJECT/me", env).value() == "/p/x/me");
  CHECK(expand_root("${PROJECT}/me", env).value() == "/p/x/me");
  CHECK(error_text(expand_root("$SCRATCH/me", env)).find("SCRATCH") != std::string::npos);
  for (const char* root : {"${PROJECT/me", "/p/$", "/p/${}"}) {
    CAPTURE(root);
    CHECK(error_text(expand_root(root, env)).find("expected $NAME or ${NAME}") !=
          std::string::npos);
  }
}

}  // namespace dlrun
