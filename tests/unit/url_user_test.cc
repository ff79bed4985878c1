#include "common/url_user.h"

#include <string>

#include <doctest/doctest.h>

namespace dlrun {
namespace {

TEST_CASE(
    "the user and host of an address end before the path, also if the password has '/' or '@'") {
  CHECK(user_and_host_in("me:word@host:80/f@1", AddressSource::kScript) == "me:word@host:80");
  CHECK(user_and_host_in("me:wo/rd@host/f", AddressSource::kScript) == "me:wo/rd@host");
  CHECK(user_and_host_in("me:wo@rd@host?q", AddressSource::kScript) == "me:wo@rd@host");
  CHECK(user_and_host_in("host:80/@scope/f", AddressSource::kScript) == "host:80");
  CHECK(user_and_host_in("[::1]/@/f", AddressSource::kScript) == "[::1]");
}

TEST_CASE(
    "an address has a user if its host follows an '@', and quotes and '$' may be in a password") {
  for (const std::string address :
       {"me@host", "me:word@host/f", "me:wo/rd@host/f", "me:wo?rd@host", "me:1234567/8@host",
        "me:wo:80/rd@host", "me:wo'r/d@host", "me:\"word\"@host", "me:$wo/rd@host", "$USER@host",
        "me\\:word@host"}) {
    CAPTURE(address);
    CHECK(has_user(address));
  }
  for (const std::string address : {"", "host", "host/f@2", "host:80/@scope/f", "host/it's@f",
                                    "[::1]/@/f", "[::1]:8080/@/f", "host:8080?to=me@h"}) {
    CAPTURE(address);
    CHECK_FALSE(has_user(address));
  }
}

}  // namespace
}  // namespace dlrun
