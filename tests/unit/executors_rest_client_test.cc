// Tests the client of slurmrestd against an HTTP server on loopback that answers like slurmrestd.

#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "common/files.h"
#include "launcher/executors/rest_client.h"
#include "tests/contains.h"
#include "tests/python_server.h"
#include "tests/temporary_directory.h"

namespace dlrun {
namespace {

/// Answers each path with the file whose name is the last part of the path.
struct FakeSlurmrestd {
  PythonServer server;

  FakeSlurmrestd() {
    serve_versions({"v0.0.42", "v0.0.45", "v0.0.46"});
    server.serve("ping", R"({"pings": [{"responding": true}], "meta": {"slurm": {"release":
        "26.05.3"}}})");
  }

  void serve_versions(const std::vector<std::string>& versions) const {
    std::string paths;
    for (const std::string& version : versions)
      paths += (paths.empty() ? "" : ", ") + ("\"/slurm/" + version + "/job/submit\": {}");
    server.serve("v3", "{\"paths\": {" + paths + "}}");
  }

  [[nodiscard]] RestClient client(std::string version = {}) const {
    return RestClient({server.url(""), "", std::move(version)});
  }
};

TEST_CASE(
    "the client uses the newest API version that dlrun and slurmrestd share, or the configured "
    "one") {
  const FakeSlurmrestd fake;
  CHECK(fake.client().version().value() == RestVersion::k45);
  CHECK(fake.client("v0.0.42").version().value() == RestVersion::k42);
  auto client = fake.client();
  CHECK(client.slurm_release_if_ready().value() == "26.05.3");
  CHECK(client.slurm_release_if_ready().has_value());
  const auto requests = fake.server.requests();
  REQUIRE(requests.size() == 5);  // the client asks for the versions only once
  CHECK(requests[2] == "/openapi/v3 from 0");
  CHECK(requests[3] == "/slurm/v0.0.45/ping from 0");
  CHECK(requests[4] == "/slurm/v0.0.45/ping from 0");
}

TEST_CASE(
    "a slurmrestd that root or this user runs is accepted, another user's only if the site file "
    "names that user") {
  const RestServer server{"http://127.0.0.1:6820", "/token"};
  CHECK(check_server_owner(server, std::nullopt));
  CHECK(check_server_owner(server, 0));
  CHECK(check_server_owner(server, ::geteuid()));
  const uid_t other = ::geteuid() + 54321;  // no user has this uid
  const auto refused = check_server_owner(server, other);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::kRefused);
  CHECK(has(refused.error().message, fmt::format("(uid {}) listens there", other)));
  CHECK(has(refused.error().message, fmt::format("`user: {}`", other)));
  RestServer named = server;
  named.accepted_owner = std::to_string(other);
  CHECK(check_server_owner(named, other));
}

TEST_CASE("HttpClient sends no request over a connection that its caller's check refuses") {
  const FakeSlurmrestd fake;
  std::string url = fake.server.url("");
  url.pop_back();  // the '/' of the path
  auto refusing = HttpClient::to({url, {}}, [](int socket) -> Result<> {
    CHECK(socket >= 0);
    return fail(Errc::kRefused, "a stranger listens there");
  });
  REQUIRE(refusing);
  HttpRequest request;
  request.path = "/v3";
  const auto refused = refusing->send(request);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::kRefused);
  CHECK(refused.error().message == "a stranger listens there");
  CHECK(fake.server.requests().empty());
  auto accepting = HttpClient::to({url, {}}, [](int) { return Result<>(); });
  REQUIRE(accepting);
  CHECK(accepting->send(request)->status == 200);
  CHECK(fake.server.requests().size() == 1);
}

TEST_CASE(
    "without an API version that dlrun and slurmrestd share, the error lists the versions of "
    "both") {
  const FakeSlurmrestd fake;
  const auto error_with = [&](const std::string& configured) {
    const auto version = fake.client(configured).version();
    REQUIRE_FALSE(version.has_value());
    CHECK(version.error().code == Errc::kRefused);
    return version.error().message;
  };
  CHECK(has(error_with("v0.0.40"), "your configuration requests v0.0.40"));
  fake.serve_versions({"v0.0.39", "v0.0.46"});
  CHECK(has(error_with(""), "version v0.0.39 and v0.0.46 of its API; dlrun speaks v0.0.38, v0"));
  // The server has this version, and dlrun does not.
  CHECK(has(error_with("v0.0.39"), "your configuration requests v0.0.39"));
  fake.serve_versions({});
  CHECK(has(error_with(""), "describes no Slurm API"));
}

TEST_CASE("if slurmrestd's socket is missing or is another file, the error says so") {
  const TemporaryDirectory folder;
  const std::string path = (folder.path() / "socket").string();
  const auto error_of_version = [&] {
    const auto version = RestClient({"unix:" + path, ""}).version();
    REQUIRE_FALSE(version.has_value());
    CHECK(version.error().code == Errc::kUnavailable);
    return version.error().message;
  };
  CHECK(has(error_of_version(), "unix:" + path + ": no such socket"));
  REQUIRE(write_file_atomic(path, "", 0600));
  CHECK(has(error_of_version(), "unix:" + path + ": the file is not a socket"));
}

TEST_CASE("an incomplete object and a response of 33 MiB from slurmrestd are errors") {
  const FakeSlurmrestd fake;
  const auto error_of_version = [&] {
    const auto version = fake.client().version();
    REQUIRE_FALSE(version.has_value());
    return version.error();
  };
  fake.server.serve("v3", R"({"paths": {"/slu)");
  CHECK(error_of_version().code == Errc::kUnavailable);
  CHECK(has(error_of_version().message, "not a complete JSON object"));
  fake.server.serve("v3", std::string(33U << 20U, ' '));
  CHECK(error_of_version().code == Errc::kUnavailable);
  CHECK(has(error_of_version().message, "larger than 32 MiB"));
}

TEST_CASE("a controller that does not respond is unavailable, although the ping has status 200") {
  const FakeSlurmrestd fake;
  fake.server.serve("ping", R"({"pings": [{"responding": false}]})");
  const auto ready = fake.client().slurm_release_if_ready();
  REQUIRE_FALSE(ready.has_value());
  CHECK(ready.error().code == Errc::kUnavailable);
  CHECK(has(ready.error().message, "Slurm's controller is unreachable"));
}

TEST_CASE("if slurmrestd no longer has the API version, the client asks for the versions again") {
  const FakeSlurmrestd fake;
  auto client = fake.client();
  const auto jobs = client.get("jobs");
  REQUIRE_FALSE(jobs.has_value());
  CHECK(jobs.error().code == Errc::kRefused);
  CHECK(has(jobs.error().message, "has no version v0.0.45 of its API"));
  CHECK(fake.server.requests() ==
        std::vector<std::string>{"/openapi/v3 from 0", "/slurm/v0.0.45/jobs from 0",
                                 "/openapi/v3 from 0", "/slurm/v0.0.45/jobs from 0"});
}

TEST_CASE(
    "each HTTP status of slurmrestd becomes an error that tells whether Slurm may have acted") {
  const FakeSlurmrestd fake;
  const auto client = fake.client();
  const auto error_code = [&](long status, const std::string& body) {
    return client.error_of({status, body}).code;
  };
  const std::string refusal =
      R"({"errors": [{"error_number": 2000, "error": "Invalid partition"}]})";
  const std::string unreachable =
      R"json({"errors": [{"error": "Unable to contact slurm controller (connect failure)"}]})json";
  CHECK(error_code(422, refusal) == Errc::kRefused);
  CHECK(error_code(500, refusal) == Errc::kRefused);
  CHECK(client.error_of({500, refusal}).refusal == SlurmRefusal::kPartition);
  CHECK(error_code(511, "Authentication failure") == Errc::kRefused);
  CHECK(has(client.error_of({511, ""}).message, "does not accept this user"));
  CHECK(error_code(401, "") == Errc::kRefused);
  CHECK(error_code(500, unreachable) == Errc::kUnavailable);
  CHECK(error_code(200, R"({"job_id": 4)") == Errc::kUnavailable);
  CHECK(error_code(502, "Bad Gateway") == Errc::kUnavailable);
  CHECK(error_code(504, refusal) == Errc::kUnavailable);
  CHECK(error_code(500, "<html>") == Errc::kUnavailable);
}

}  // namespace
}  // namespace dlrun
