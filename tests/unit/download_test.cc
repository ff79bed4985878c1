// Tests downloads from a real HTTP server on loopback, including its faults.

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <iterator>
#include <set>
#include <thread>

#include <doctest/doctest.h>

#include "common/files.h"
#include "common/sha256.h"
#include "launcher/download/downloader.h"
#include "tests/contains.h"
#include "tests/python_server.h"

namespace dlrun {
namespace {

namespace fs = std::filesystem;

const std::string kText = "some bytes that a model is trained on\n";

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.insert(entry.path().filename().string());
  return names;
}

/// Returns the value. Fails the test if there is an error instead.
template <typename T>
T value_or_fail(const Result<T>& result) {
  if (!result) FAIL(result.error().message);
  return *result;
}

/// A server with the file `f`, and a folder for the downloads.
struct DownloaderScene {
  PythonServer server;
  TemporaryDirectory folder;
  DownloadOptions options;

  DownloaderScene() { server.serve("f", kText); }

  [[nodiscard]] Download download_of(const std::string& path) const {
    return {server.url(path), sha256_of_text(kText), "f", {}};
  }

  [[nodiscard]] Result<std::int64_t> fetch(const Download& download) const {
    auto downloader = Downloader::in(folder.path(), options);
    REQUIRE(downloader.has_value());
    return downloader->fetch(download);
  }

  /// Fetches the file, and fails the test if this succeeds. Checks the code of the error, and that
  /// the folder has only .dlrun-downloads. Returns the message of the error.
  [[nodiscard]] std::string fetch_error(const Download& download, Errc code) const {
    const auto fetched = fetch(download);
    REQUIRE_FALSE(fetched.has_value());
    CAPTURE(fetched.error().message);
    CHECK(fetched.error().code == code);
    CHECK(names_in(folder.path()) == std::set<std::string>{".dlrun-downloads"});
    return fetched.error().message;
  }
};

TEST_CASE("a file is downloaded once, and dlrun recognises it later without reading it again") {
  const DownloaderScene scene;
  const Download f = scene.download_of("f");
  const fs::path folder = scene.folder / "made/for/it";
  {
    auto downloader = Downloader::in(folder, {});
    REQUIRE(downloader.has_value());
    CHECK_FALSE(value_or_fail(downloader->verify_existing(f)));
    CHECK(value_or_fail(downloader->fetch(f)) == 38);
  }
  CHECK(content_of(folder / "f") == kText);
  CHECK(names_in(folder) == std::set<std::string>{".dlrun-downloads", "f"});
  struct stat status {};
  REQUIRE(::stat((folder / "f").c_str(), &status) == 0);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  // Other users may train on the file, so dlrun lets the umask decide who can read it.
  CHECK((status.st_mode & 0777U) == (0666U & ~mask));
  const std::vector<Download> all{f};
  CHECK(are_verified(folder, all));
  CHECK(value_or_fail(Downloader::in(folder, {})->verify_existing(f)));
  CHECK(scene.server.requests() == std::vector<std::string>{"/f from 0"});
  Download of_changed_spec = f;
  of_changed_spec.sha256 = std::string(64, 'a');
  CHECK_FALSE(are_verified(folder, std::vector{of_changed_spec}));
  CHECK_FALSE(is_downloaded(folder, of_changed_spec).has_value());
  // A recorded checksum is trusted, even this one, which belongs to no file.
  std::string lines = content_of(folder / ".dlrun-downloads");
  Download other = f;
  other.sha256 = std::string(64, 'a');
  std::ofstream(folder / ".dlrun-downloads") << lines.replace(0, 64, other.sha256);
  CHECK(value_or_fail(is_downloaded(folder, other)));
}

TEST_CASE("a .dlrun-downloads that other users could have written is not trusted") {
  const DownloaderScene scene;
  const Download f = scene.download_of("f");
  REQUIRE(scene.fetch(f).has_value());
  const fs::path record = scene.folder / ".dlrun-downloads";
  std::string lines = content_of(record);
  Download other = f;  // a checksum that matches no bytes
  other.sha256 = std::string(64, 'a');
  std::ofstream(record) << lines.replace(0, 64, other.sha256);
  for (const mode_t mode : {0664U, 0646U}) {
    CAPTURE(mode);
    REQUIRE(::chmod(record.c_str(), mode) == 0);
    CHECK_FALSE(are_verified(scene.folder.path(), std::vector{other}));
    CHECK_FALSE(is_downloaded(scene.folder.path(), other).has_value());
  }
  if (::geteuid() == 0) {  // another user's file, which only root can create
    REQUIRE(::chmod(record.c_str(), 0644) == 0);
    REQUIRE(::chown(record.c_str(), 65534, 65534) == 0);
    CHECK_FALSE(are_verified(scene.folder.path(), std::vector{other}));
  }
  fs::remove(record);
  fs::create_symlink(scene.folder / "elsewhere", record);
  std::ofstream(scene.folder / "elsewhere") << lines;
  CHECK_FALSE(are_verified(scene.folder.path(), std::vector{other}));
}

TEST_CASE("if others can write .dlrun-downloads, the next Downloader takes this permission away") {
  const DownloaderScene scene;
  const Download f = scene.download_of("f");
  REQUIRE(scene.fetch(f).has_value());
  const fs::path record = scene.folder / ".dlrun-downloads";
  REQUIRE(::chmod(record.c_str(), 0666) == 0);
  REQUIRE(value_or_fail(Downloader::in(scene.folder.path(), {})->verify_existing(f)));
  CHECK(are_verified(scene.folder.path(), std::vector{f}));
  struct stat status {};
  REQUIRE(::stat(record.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777U) == 0644U);
}

TEST_CASE(
    "a downloaded file that was changed is read again, even if its size and modification time are "
    "unchanged") {
  const DownloaderScene scene;
  const Download f = scene.download_of("f");
  REQUIRE(scene.fetch(f).has_value());
  const fs::path path = scene.folder / "f";
  const auto time = fs::last_write_time(path);
  std::string other = kText;
  other[0] = 'S';
  std::ofstream(path, std::ios::binary) << other;
  fs::last_write_time(path, time);
  CHECK_FALSE(are_verified(scene.folder.path(), std::vector{f}));
  const auto found = is_downloaded(scene.folder.path(), f);
  REQUIRE_FALSE(found.has_value());
  CHECK(has(found.error().message, sha256_of_text(other)));
}

TEST_CASE(
    "an existing file with the right checksum is accepted, without a record or with a damaged "
    "one") {
  const DownloaderScene scene;
  const Download f = scene.download_of("f");
  std::ofstream(scene.folder / "f") << kText;
  for (const std::string_view record :
       {"", "x", "a b c d\n\n \n", "1 99999999999999999999 1 f\n"}) {
    std::ofstream(scene.folder / ".dlrun-downloads") << record;
    CHECK_FALSE(are_verified(scene.folder.path(), std::vector{f}));
    CHECK(value_or_fail(Downloader::in(scene.folder.path(), {})->verify_existing(f)));
    CHECK(are_verified(scene.folder.path(), std::vector{f}));
  }
  CHECK(scene.server.requests().empty());
}

TEST_CASE("an existing file with another checksum or size is refused and stays unchanged") {
  const DownloaderScene scene;
  std::ofstream(scene.folder / "f") << "precious";
  Download f = scene.download_of("f");
  const auto found = is_downloaded(scene.folder.path(), f);
  REQUIRE_FALSE(found.has_value());
  CHECK(found.error().code == Errc::kInvalid);
  CHECK(found.error().message ==
        (scene.folder / "f").string() + ": has the sha256 " + sha256_of_text("precious") +
            ", but the spec says " + f.sha256 +
            ". Move it away, or correct the spec; dlrun does not replace the "
            "file");
  f.bytes = 7;
  CHECK(has(is_downloaded(scene.folder.path(), f).error().message,
            "has 8 bytes, but the spec says 7. Move it away"));
  // A file that appears during the download is not replaced either.
  fs::remove(scene.folder / "f");
  DownloaderScene late;
  late.options.on_progress = [&](const DownloadProgress&) {
    std::ofstream(late.folder / "f") << "precious";
    return true;
  };
  CHECK(late.fetch(late.download_of("f")).error().code == Errc::kInvalid);
  CHECK(content_of(late.folder / "f") == "precious");
  CHECK(names_in(late.folder.path()) == std::set<std::string>{".dlrun-downloads", "f"});
}

TEST_CASE("a download with another checksum or size is refused, and nothing of it is kept") {
  const DownloaderScene scene;
  Download f = scene.download_of("f");
  f.sha256 = std::string(64, 'a');
  CHECK(scene.fetch_error(f, Errc::kInvalid) == f.url + ": its 38 bytes have the sha256 " +
                                                    sha256_of_text(kText) + ", but the spec says " +
                                                    f.sha256 + "; dlrun keeps no part of the file");
  f = scene.download_of("f");
  f.bytes = 37;
  CHECK(scene.fetch_error(f, Errc::kInvalid) == f.url + ": has 38 bytes, but the spec says 37");
  f.bytes = 39;
  CHECK(scene.fetch_error(f, Errc::kInvalid) == f.url + ": has 38 bytes, but the spec says 39");
  // The download fails immediately, although the rest of the body never arrives.
  f = scene.download_of("stall/f");
  f.bytes = 39;
  CHECK(scene.fetch_error(f, Errc::kInvalid) == f.url + ": has 38 bytes, but the spec says 39");
  f = scene.download_of("long/f");  // the server announces no length
  f.bytes = 38;
  CHECK(scene.fetch_error(f, Errc::kInvalid) ==
        f.url + ": has more than 38 bytes, but the spec says 38");
}

TEST_CASE("the error for another checksum or size escapes an invisible character of the URL") {
  const DownloaderScene scene;
  Download f = scene.download_of("f#\u202e");
  f.sha256 = std::string(64, 'a');
  CHECK(has(scene.fetch_error(f, Errc::kInvalid), "/f#\\xe2\\x80\\xae: its 38 bytes have"));
  f = scene.download_of("long/f#\u202e");  // the server announces no length
  f.bytes = 50;
  CHECK(has(scene.fetch_error(f, Errc::kInvalid), "/f#\\xe2\\x80\\xae: has 39 bytes, but"));
}

TEST_CASE("the error for an answer without the file has the URL and the answer") {
  const DownloaderScene scene;
  const auto url = [&](const std::string& path) { return scene.server.url(path); };
  CHECK(scene.fetch_error(scene.download_of("nothing"), Errc::kNotFound) ==
        url("nothing") + ": the server answers 404 (not found)");
  CHECK(scene.fetch_error(scene.download_of("status-403/f"), Errc::kIo) ==
        url("status-403/f") + ": the server answers 403 (forbidden)");
  CHECK(scene.fetch_error(scene.download_of("status-500/f"), Errc::kIo) ==
        url("status-500/f") + ": the server answers 500");
  CHECK(scene.fetch_error(scene.download_of("status-203/f"), Errc::kIo) ==
        url("status-203/f") + ": the server answers 203 instead of the file");
  CHECK(has(scene.fetch_error(scene.download_of("loop/f"), Errc::kIo),
            url("loop/f") + ": Maximum (10) redirects followed"));
  // This response is not HTTP. The message must not call it a redirection.
  CHECK_FALSE(has(scene.fetch_error(scene.download_of("bare/f"), Errc::kIo), "leads to"));
  Download from_closed_port = scene.download_of("f");
  from_closed_port.url = "http://127.0.0.1:1/f";
  CHECK(has(scene.fetch_error(from_closed_port, Errc::kIo), "http://127.0.0.1:1/f: "));
}

TEST_CASE("a download follows redirections only to http and https") {
  const DownloaderScene scene;
  for (const std::string path : {"to-ftp/f", "to-file/f"})
    CHECK(scene.fetch_error(scene.download_of(path), Errc::kIo) ==
          scene.server.url(path) +
              ": leads to an address that does not start with http:// or https://; dlrun does not "
              "follow it");
  // A file:// url is refused even without a redirection, with the same message. Specs cannot have
  // one: complete_download_item() refuses it.
  Download local = scene.download_of("f");
  local.url = "file:///etc/hostname";
  CHECK(has(
      scene.fetch_error(local, Errc::kIo),
      "file:///etc/hostname: leads to an address that does not start with http:// or https://"));
  CHECK(scene.fetch(scene.download_of("here/f")).has_value());
  CHECK(content_of(scene.folder / "f") == kText);
}

TEST_CASE("a download uses the proxy in the environment") {
  const DownloaderScene scene;
  Download through_proxy = scene.download_of("f");
  through_proxy.url = "http://nowhere.invalid/f";
  ::setenv("http_proxy", scene.server.url("").c_str(), 1);
  const auto fetched = scene.fetch(through_proxy);
  ::unsetenv("http_proxy");
  CHECK(value_or_fail(fetched) == 38);
  CHECK(scene.server.requests() == std::vector<std::string>{"http://nowhere.invalid/f from 0"});
}

TEST_CASE(
    "an error of a proxy is not reported as an answer of the server, and the proxy's password is "
    "never shown") {
  const DownloaderScene scene;
  const auto error_through = [&](const std::string& proxy, const std::string& url) {
    Download through_proxy = scene.download_of("f");
    through_proxy.url = url;
    ::setenv("http_proxy", proxy.c_str(), 1);
    ::setenv("https_proxy", proxy.c_str(), 1);
    std::string message = scene.fetch_error(through_proxy, Errc::kIo);
    ::unsetenv("http_proxy");
    ::unsetenv("https_proxy");
    CHECK_FALSE(has(message, "canary"));
    return message;
  };
  CHECK(has(error_through(scene.server.url(""), "https://nowhere.invalid/f"), "403"));
  CHECK_FALSE(
      has(error_through(scene.server.url(""), "https://nowhere.invalid/f"), "the server answers"));
  for (const std::string proxy :
       {"socks9://me:canary@127.0.0.1:1", "http://me:can ary@", "http://me:canary@127.0.0.1:1"})
    CHECK(has(error_through(proxy, "http://nowhere.invalid/f"), "http://nowhere.invalid/f: "));
  CHECK(error_through("socks9://me:canary@127.0.0.1:1", "http://nowhere.invalid/f") ==
        "http://nowhere.invalid/f: libcurl does not support the proxy in http_proxy, "
        "https_proxy or all_proxy");
}

TEST_CASE("the downloaded bytes are kept unchanged, whatever encoding the server declares") {
  const DownloaderScene scene;
  CHECK(scene.fetch(scene.download_of("gzip/f")).has_value());
  CHECK(content_of(scene.folder / "f") == kText);
}

TEST_CASE("after a lost connection a download continues or begins again, and after four it fails") {
  const DownloaderScene scene;
  CHECK(value_or_fail(scene.fetch(scene.download_of("cut/f"))) == 38);
  CHECK(scene.server.requests() == std::vector<std::string>{"/cut/f from 0", "/cut/f from 19"});
  CHECK(content_of(scene.folder / "f") == kText);
  fs::remove(scene.folder / "f");
  CHECK(value_or_fail(scene.fetch(scene.download_of("cut-old/f"))) == 38);
  CHECK(content_of(scene.folder / "f") == kText);
  fs::remove(scene.folder / "f");
  CHECK(value_or_fail(scene.fetch(scene.download_of("cut-other/f"))) == 38);
  CHECK(content_of(scene.folder / "f") == kText);
  fs::remove(scene.folder / "f");
  CHECK(
      has(scene.fetch_error(scene.download_of("cut-ever/f"), Errc::kIo), ", after 12 of 38 bytes"));
}

TEST_CASE(
    "if the joined pieces have another checksum, or the server answers that no bytes are left, the "
    "whole file is downloaded again") {
  const DownloaderScene scene;
  Download f = scene.download_of("cut-wrong/f");
  CHECK(value_or_fail(scene.fetch(f)) == 38);
  CHECK(content_of(scene.folder / "f") == kText);
  CHECK(scene.server.requests() == std::vector<std::string>{"/cut-wrong/f from 0",
                                                            "/cut-wrong/f from 19",
                                                            "/cut-wrong/f from 0"});
  // All bytes of the file have arrived, but not the end of the response, and the server answers the
  // request for the rest with 416.
  fs::remove(scene.folder / "f");
  CHECK(value_or_fail(scene.fetch(scene.download_of("cut-end/f"))) == 38);
  CHECK(content_of(scene.folder / "f") == kText);
}

TEST_CASE(
    "a server that ignores ranges gets four requests for the whole file before the download "
    "fails") {
  const DownloaderScene scene;
  const std::string message = scene.fetch_error(scene.download_of("short/f"), Errc::kIo);
  CAPTURE(message);
  CHECK_FALSE(has(message, "ranges"));
  CHECK(has(message, ", after 38 of 39 bytes"));
  // Four requests for the whole file and one for the rest fail.
  const auto requests = scene.server.requests();
  CHECK(std::count(requests.begin(), requests.end(), "/short/f from 0") == 4);
  CHECK(requests.size() == 5);
}

TEST_CASE("an empty file can be downloaded") {
  const DownloaderScene scene;
  scene.server.serve("empty", "");
  CHECK(value_or_fail(scene.fetch({scene.server.url("empty"), sha256_of_text(""), "empty", 0})) ==
        0);
  CHECK(content_of(scene.folder / "empty").empty());
}

TEST_CASE("a dangling symbolic link in place of a downloaded file or its folder is refused") {
  const DownloaderScene scene;
  fs::create_symlink(scene.folder / "nowhere", scene.folder / "f");
  const auto found =
      Downloader::in(scene.folder.path(), {})->verify_existing(scene.download_of("f"));
  REQUIRE_FALSE(found.has_value());
  CHECK(found.error().code == Errc::kInvalid);
  CHECK(has(found.error().message,
            (scene.folder / "f").string() + ": is a symbolic link that leads nowhere"));
  CHECK_FALSE(scene.fetch(scene.download_of("f")).has_value());
  CHECK(fs::is_symlink(scene.folder / "f"));
  // A folder that is a dangling link is refused as well.
  fs::create_symlink(scene.folder / "nowhere", scene.folder / "folder");
  const auto made = Downloader::in(scene.folder / "folder", {});
  REQUIRE_FALSE(made.has_value());
  CHECK(has(made.error().message, "a symbolic link of that name leads nowhere"));
}

TEST_CASE("a download from a server that stalls is an error after the time limit") {
  DownloaderScene scene;
  scene.options.stall_timeout = std::chrono::seconds(1);
  CHECK(
      scene.fetch_error(scene.download_of("stall/f"), Errc::kIo) ==
      scene.server.url("stall/f") +
          ": after 19 of 38 bytes the server sent nothing, or less than 100 bytes a second, for 1 "
          "s");
  CHECK(has(scene.fetch_error(scene.download_of("silent/f"), Errc::kIo),
            scene.server.url("silent/f") + ": no answer: "));
}

TEST_CASE("an interrupted download stops and leaves no file") {
  DownloaderScene scene;
  scene.options.on_progress = [](const DownloadProgress& progress) { return progress.bytes < 19; };
  CHECK(scene.fetch_error(scene.download_of("stall/f"), Errc::kInterrupted) ==
        "interrupted; nothing of " + scene.server.url("stall/f") + " is kept");
  // A caller can also interrupt the check of an existing file.
  std::ofstream(scene.folder / "f") << kText;
  scene.options.on_progress = [](const DownloadProgress& progress) { return progress.bytes < 38; };
  const auto found =
      Downloader::in(scene.folder.path(), scene.options)->verify_existing(scene.download_of("f"));
  REQUIRE_FALSE(found.has_value());
  CHECK(found.error().code == Errc::kInterrupted);
}

TEST_CASE(
    "if a write fails, here at a limit on the size of files, the error shows the file and the "
    "number of bytes") {
  const DownloaderScene scene;
  scene.server.serve("large", std::string(1U << 20U, 'x'));
  Download large{
      scene.server.url("large"), sha256_of_text(std::string(1U << 20U, 'x')), "large", {}};
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{200'000, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const std::string message = scene.fetch_error(large, Errc::kIo);
  auto downloader = Downloader::in(scene.folder / "two\nlines", {});
  REQUIRE(downloader.has_value());
  const auto in_folder_with_newline = downloader->fetch(large);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, handler);
  REQUIRE_FALSE(in_folder_with_newline.has_value());
  CHECK(has(in_folder_with_newline.error().message, "/two\\x0alines/large, after "));
  CHECK(has(message, (scene.folder / "large").string() + ", after "));
  CHECK(has(message, " of 1048576 bytes: File too large (EFBIG)"));
}

TEST_CASE("a second downloader in the same folder waits, and finds the file") {
  DownloaderScene scene;
  const Download f = scene.download_of("f");
  auto first = Downloader::in(scene.folder.path(), {});
  REQUIRE(first.has_value());
  DownloadOptions waiting;
  waiting.on_progress = [&](const DownloadProgress& progress) {
    REQUIRE(progress.is_waiting);
    if (!first) return true;
    CHECK_FALSE(value_or_fail(first->verify_existing(f)));
    CHECK(first->fetch(f).has_value());
    first = fail(Errc::kInternal, "gone");  // releases the lock
    return true;
  };
  auto second = Downloader::in(scene.folder.path(), waiting);
  REQUIRE(second.has_value());
  CHECK(value_or_fail(second->verify_existing(f)));
  CHECK(scene.server.requests().size() == 1);
  DownloadOptions impatient;
  impatient.on_progress = [](const DownloadProgress&) { return false; };
  const auto third = Downloader::in(scene.folder.path(), impatient);
  REQUIRE_FALSE(third.has_value());
  CHECK(third.error().code == Errc::kInterrupted);
}

TEST_CASE(
    "the partial file of a killed download is removed by the next one, and the user's files are "
    "not") {
  const DownloaderScene scene;
  std::ofstream(scene.folder / ".f.0123456789ab.part") << "half";
  const std::set<std::string> users_files{"f.part", ".f.part", ".f.mine.part",
                                          ".f.0123456789xy.part", ".0123456789ab.part"};
  for (const std::string& name : users_files)
    std::ofstream(scene.folder / name) << "the user's own";
  CHECK(scene.fetch(scene.download_of("f")).has_value());
  std::set<std::string> all{".dlrun-downloads", "f"};
  all.insert(users_files.begin(), users_files.end());
  CHECK(names_in(scene.folder.path()) == all);
}

TEST_CASE("a partial file that is still locked by its writer is not removed") {
  const DownloaderScene scene;
  const fs::path theirs = scene.folder / ".g.0123456789ab.part";
  {
    const UniqueFd writing(::open(theirs.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    REQUIRE(::flock(writing.get(), LOCK_EX) == 0);
    CHECK(scene.fetch(scene.download_of("f")).has_value());
    CHECK(fs::exists(theirs));
  }
  CHECK(Downloader::in(scene.folder.path(), {}).has_value());
  CHECK_FALSE(fs::exists(theirs));
  // A running download holds a lock on its partial file.
  fs::remove(scene.folder / "f");
  DownloaderScene watched;
  bool was_seen = false;
  watched.options.on_progress = [&](const DownloadProgress&) {
    for (const auto& entry : fs::directory_iterator(watched.folder.path())) {
      if (entry.path().extension() != ".part") continue;
      const UniqueFd other(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
      CHECK(::flock(other.get(), LOCK_EX | LOCK_NB) != 0);
      was_seen = true;
    }
    return true;
  };
  CHECK(watched.fetch(watched.download_of("f")).has_value());
  CHECK(was_seen);
}

TEST_CASE(
    "in a shared folder the lock of downloads also works for users who cannot write the lock "
    "file") {
  DownloaderScene scene;
  const fs::path lock = scene.folder / ".dlrun-downloads";
  auto first = Downloader::in(scene.folder.path(), {});
  REQUIRE(first.has_value());
  // Creates a second folder. Others can only read its lock file.
  REQUIRE(Downloader::in(scene.folder / "read", {}).has_value());
  fs::permissions(scene.folder / "read/.dlrun-downloads",
                  fs::perms::owner_read | fs::perms::others_read);
  fs::permissions(scene.folder.path(), fs::perms::all);
  fs::permissions(lock, fs::perms::owner_read | fs::perms::group_read | fs::perms::others_read);
  fs::permissions(scene.folder / "read", fs::perms::owner_all & ~fs::perms::owner_write);
  fs::permissions(scene.folder / "read", fs::perms::others_read | fs::perms::others_exec,
                  fs::perm_options::add);
  const bool is_root = ::geteuid() == 0;
  constexpr uid_t kNobody = 65534;
  if (is_root) REQUIRE(::seteuid(kNobody) == 0);
  int wait_count = 0;
  scene.options.on_progress = [&](const DownloadProgress& progress) {
    // The new value of `first` releases the lock.
    if (progress.is_waiting && ++wait_count == 1) first = fail(Errc::kInternal, "gone");
    return wait_count < 9;
  };
  const auto fetched = scene.fetch(scene.download_of("f"));
  const bool can_lock_without_write =
      Downloader::in(scene.folder / "read", scene.options).has_value();
  if (is_root) REQUIRE(::seteuid(0) == 0);
  // The owner needs these permissions to remove the folder.
  fs::permissions(scene.folder / "read", fs::perms::owner_all);
  CHECK(value_or_fail(fetched) == 38);
  CHECK(wait_count == 1);
  CHECK(can_lock_without_write);
}

}  // namespace
}  // namespace dlrun
