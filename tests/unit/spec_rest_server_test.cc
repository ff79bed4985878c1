#include <doctest/doctest.h>

#include "launcher/spec/rest_server.h"

using namespace dlrun;

TEST_CASE("the URL of a slurmrestd is a Unix socket, an http port on loopback, or https") {
  CHECK(parse_rest_url("unix:/run/s")->socket == "/run/s");
  CHECK(parse_rest_url("http://127.0.0.1:6820/")->base == "http://127.0.0.1:6820");
  CHECK(parse_rest_url("http://[::1]:6820"));
  CHECK(parse_rest_url("http://localhost:6820"));
  CHECK(parse_rest_url("https://rest.example.org")->base == "https://rest.example.org");
  for (const char* bad :
       {"", "unix:run/s", "http://10.0.0.1:6820", "http://localhost.example.org",
        "http://127.evil.org", "https://user@host", "https://host/path", "https://host:0",
        "https://", "ftp://host", "http://127.0.0.1:1\r\nX: y", "file:///etc/passwd"})
    CHECK_MESSAGE(!parse_rest_url(bad), bad);
}
