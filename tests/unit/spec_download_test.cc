// Tests train.data.download in a spec.

#include <doctest/doctest.h>

#include "launcher/spec/load.h"
#include "load_checks.h"
#include "tests/contains.h"

namespace dlrun {
namespace {

const std::string kSha256(64, 'a');

LoadRequest download_request(const std::string& downloads,
                             const std::string& data = "dataset: mnist, path: ./data",
                             const std::string& more = "") {
  LoadRequest request;
  request.file = "exp.yaml";
  request.text = "resources: {time: 1m}\ntrain:\n  data:\n    {" + data +
                 ", download: " + downloads + "}\n" + more;
  request.current_dir = "/exp";
  return request;
}

std::string list_with(const std::string& url, const std::string& more = "") {
  return "[{url: \"" + url + "\", sha256: " + kSha256 + more + "}]";
}

TEST_CASE(
    "a download has a url and a checksum, and its file name is the last part of the url unless the "
    "spec sets one") {
  const auto loaded = load_spec(download_request(
      "[{url: https://h.org:8080/a/b.gz?v=1#x, sha256: " + std::string(64, 'A') +
      "}, {url: http://h/get%20it, sha256: " + kSha256 + ", file: c.gz, bytes: 42}]"));
  REQUIRE(loaded.has_value());
  const auto& downloads = loaded->spec.train.downloads;
  REQUIRE(downloads.size() == 2);
  CHECK(downloads[0].url == "https://h.org:8080/a/b.gz?v=1#x");
  CHECK(downloads[0].sha256 == kSha256);
  CHECK(downloads[0].file == "b.gz");
  CHECK_FALSE(downloads[0].bytes.has_value());
  CHECK(downloads[1].file == "c.gz");
  CHECK(downloads[1].bytes == 42);

  // The resolved spec in the run's directory has the same downloads.
  LoadRequest again;
  again.file = "resolved.yaml";
  again.current_dir = "/elsewhere";
  again.text = resolved_yaml(*loaded);
  const auto resolved = load_spec(again);
  REQUIRE(resolved.has_value());
  REQUIRE(resolved->spec.train.downloads.size() == 2);
  CHECK(resolved->spec.train.downloads[0].url == downloads[0].url);
  CHECK(resolved->spec.train.downloads[1].bytes == 42);
  CHECK(resolved->spec.train.downloads[1].file == "c.gz");
}

TEST_CASE("a user or a password in a url is refused, and never shown") {
  for (const std::string url :
       {"https://me:canary@h/f", "https://canary@h/f", "ftp://me:canary@h/f", "me:canary@h/f",
        "https:/me:canary@h/f", "https:me:canary@h/f", "https://me:can/ary@h/f",
        "https://me:can?ary@h/f", "https://me:canary#1@h/f", "https://canary@[::1]:80/f",
        "https://me:$can/ary@h/f", "https://me:can:80/ary@h/f",
        "https://h/f?to=https://me:canary@h2/f"}) {
    const std::string errors = refused(download_request(list_with(url)));
    CAPTURE(url);
    CHECK(has(errors, "exp.yaml:4:"));
    CHECK(has(errors, "train.data.download: this url holds a user or a password"));
    CHECK_FALSE(has(errors, "can"));
    auto by_set = download_request("[]");
    by_set.set_arguments = {"train.data.download=" + list_with(url)};
    const std::string errors_by_set = refused(by_set);
    CHECK(has(errors_by_set, "a user or a password"));
    CHECK_FALSE(has(errors_by_set, "can"));
  }
  for (const std::string url : {"https://h/f@2", "https://h:80/@scope/f", "https://[::1]/@/f",
                                "https://[::1]:8080/@/f", "https://h/it's@f"})
    CHECK(load_spec(download_request(list_with(url))).has_value());
  CHECK(has(refused(download_request(list_with("h.org/@scope/f"))),
            "'h.org/@scope/f' is not an https:// or http:// url"));
}

TEST_CASE("an error elsewhere in the line of a url does not show the url's password") {
  const std::string url = "https://me:canary@h/f", sum = ", sha256: " + kSha256;
  for (const std::string& downloads :
       {"[{url: \"" + url + "\", md5: x" + sum + "}]",
        "[{bytes: 4KB, url: \"" + url + "\"" + sum + "}]", "[\"" + url + "\"]", "\"" + url + "\"",
        "{url: \"" + url + "\"}", "[{url: [\"" + url + "\"]}]", "[{url: '" + url + "', url: x}]",
        "[{Url: " + url + "}]", "[{url: \"" + url + "\" x}]"}) {
    CAPTURE(downloads);
    const std::string errors = refused(download_request(downloads));
    CHECK(has(errors, "    4 | (not shown)\n"));
    CHECK_FALSE(has(errors, "canary"));
    auto by_set = download_request("[]");
    by_set.set_arguments = {"train.data.download=" + downloads};
    const std::string errors_by_set = refused(by_set);
    CHECK(has(errors_by_set, "--set train.data.download=...: error: "));
    CHECK_FALSE(has(errors_by_set, "canary"));
  }
  // A registry's user name alone is no secret.
  CHECK(has(refused(download_request("[]", "dataset: mnist, path: ./d",
                                     "container: {imago: docker://me@nvcr.io#a}\n")),
            "docker://me@nvcr.io#a"));
}

TEST_CASE("a malformed download is refused, and the error shows the line") {
  const auto refusal_of = [](const std::string& downloads) {
    return refused(download_request(downloads));
  };
  CHECK(has(refusal_of("[{sha256: " + kSha256 + "}]"),
            "exp.yaml:4:47: error: train.data.download: url is missing"));
  CHECK(has(refusal_of("[{url: https://h/f}]"),
            "sha256 is missing: set the file's checksum; `sha256sum FILE` prints it"));
  CHECK(has(refusal_of("[{url: https://h/f, sha256: abc}]"),
            "sha256 is 'abc', expected 64 hexadecimal digits"));
  CHECK(has(refusal_of("[{url: https://h/f, sha256: " + std::string(64, 'g') + "}]"),
            "expected 64 hexadecimal digits"));
  CHECK(has(refusal_of(list_with("ftp://h/f")), "'ftp://h/f' is not an https:// or http:// url"));
  CHECK(has(refusal_of(list_with("file:///etc/passwd")), "is not an https:// or http:// url"));
  CHECK(has(refusal_of(list_with("https:///f")), "is not the url of a file"));
  CHECK(has(refusal_of(list_with("https://h/a b")), "'https://h/a b' has a space"));
  CHECK(has(refusal_of(list_with("https://h/" + std::string(4096, 'a'))),
            "the url has 4106 bytes; the longest url has 4096"));
  CHECK(has(refusal_of(list_with("https://h/d/")),
            "does not end with a file's name (without '%', not starting with '.', at most 200 "
            "bytes); give one with file: NAME"));
  CHECK(has(refusal_of(list_with("https://h/a%2Fb")), "does not end with a file's name"));
  CHECK(has(refusal_of(list_with("https://h/.hidden")), "does not end with a file's name"));
  for (const char* name : {"../up", "/etc/passwd", ".dlrun-downloads", ".."})
    CHECK(has(refusal_of(list_with("https://h/f", std::string(", file: ") + name)),
              "expected a name of at most 200 bytes"));
  CHECK(has(refusal_of(list_with("https://h/f", ", bytes: -1")),
            "bytes: expected a whole number, 0 or more, not '-1'"));
  CHECK(has(refusal_of(list_with("https://h/f", ", md5: abc")),
            "unknown key 'md5'; a download has the keys url, sha256, file and bytes"));
  CHECK(has(refusal_of("[https://h/f]"),
            "expected {url: https://..., sha256: ...}, not a single value"));
  CHECK(has(refusal_of("https://h/f"), "expected a list of {url, sha256}, not a single value"));
  CHECK(has(refusal_of("[{url: https://h/f, sha256: " + kSha256 +
                       "}, {url: https://i/f, sha256: " + kSha256 + "}]"),
            "two downloads have the file name 'f'"));
}

TEST_CASE(
    "downloads need a data folder and a dataset other than digits, and a sweep cannot change "
    "them") {
  const std::string downloads = list_with("https://h/f");
  CHECK(has(refused(download_request(downloads, "dataset: mnist")),
            "train.data.download: train.data.path is missing"));
  CHECK(has(refused(download_request(downloads, "path: ./d")),
            "train.data.download does not support the dataset digits"));
  CHECK(has(refused(download_request(downloads, "dataset: digits, path: ./d")),
            "does not support the dataset"));
  CHECK(has(refused(download_request(downloads, "dataset: mnist, path: ./d",
                                     "sweep: {parameters: {train.data.path: [a, b]}}\n")),
            "the sweep sets several values of train.data.path"));
  CHECK(has(refused(download_request(downloads, "dataset: mnist, path: ./d",
                                     "sweep: {points: [{train.data.path: a}]}\n")),
            "the sweep sets several values of train.data.path"));
  CHECK(has(refused(download_request(downloads, "dataset: mnist, path: ./d",
                                     "sweep: {points: [{train.data.download: []}]}\n")),
            "'train.data.download' cannot be swept: all points of a sweep have the same files"));
  const auto other = load_spec(
      download_request(downloads, "dataset: mnist, path: ./d", "launch: {command: [x]}\n"));
  REQUIRE(other.has_value());
  CHECK(has(format_diagnostics(other->warnings),
            "train.data.download has no effect: the key is for the preset 'trainer'"));
}

}  // namespace
}  // namespace dlrun
