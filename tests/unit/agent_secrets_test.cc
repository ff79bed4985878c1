// Tests how the agent reads a run's secrets from their file into the environment of a program.

#include <sys/stat.h>

#include <doctest/doctest.h>

#include "common/files.h"
#include "runtime/agent/secrets.h"
#include "tests/contains.h"
#include "tests/temporary_directory.h"

using namespace dlrun;
using namespace dlrun::agent;

namespace {

struct SecretsFixture {
  TemporaryDirectory folder;
  Env env;
  void write(std::string_view text, mode_t mode = 0600) {
    REQUIRE(write_file_atomic(folder.path() / "secrets", text, mode).has_value());
  }
  Result<> add(const std::vector<std::string>& names) {
    return add_secrets(env, names, folder.path());
  }
  std::string error_of_adding(const std::vector<std::string>& names) {
    const auto added = add(names);
    REQUIRE_FALSE(added.has_value());
    return added.error().message;
  }
};

}  // namespace

TEST_CASE_FIXTURE(SecretsFixture,
                  "secrets are added byte for byte, and only those that are asked for") {
  using namespace std::string_literals;
  write("A=x=y\nz \"'$\xff\0AB=other\0EMPTY=\0C=not asked\0"s);
  REQUIRE(add({"A", "AB", "EMPTY"}).has_value());
  CHECK(env.get_or("A", "") == "x=y\nz \"'$\xff");
  CHECK(env.get_or("AB", "") == "other");
  CHECK(env.has("EMPTY"));
  CHECK_FALSE(env.has("C"));
}

TEST_CASE_FIXTURE(SecretsFixture,
                  "a secret's value in the file takes precedence over the environment, which is "
                  "used if there is no file") {
  env.set("A", "inherited");
  REQUIRE(add({"A"}).has_value());
  CHECK(env.get_or("A", "") == "inherited");
  write(std::string_view("A=filed\0", 8));
  REQUIRE(add({"A"}).has_value());
  CHECK(env.get_or("A", "") == "filed");
}

TEST_CASE_FIXTURE(
    SecretsFixture,
    "the error for a missing secret has the name of the secret, and no value of a secret") {
  write(std::string_view("A=value\0", 8));
  const auto shown = error_of_adding({"A", "B"});
  CHECK(has(shown, "secret B is neither in"));
  CHECK_FALSE(has(shown, "value"));
}

TEST_CASE_FIXTURE(SecretsFixture, "a file that others could have read or planted is refused") {
  write(std::string_view("A=value\0", 8), 0640);
  CHECK(has(error_of_adding({"A"}), "is open to others (mode 640)"));
  std::filesystem::rename(folder.path() / "secrets", folder.path() / "target");
  REQUIRE(::chmod((folder.path() / "target").c_str(), 0600) == 0);
  std::filesystem::create_symlink("target", folder.path() / "secrets");
  CHECK(has(error_of_adding({"A"}), "secrets: "));
  std::filesystem::remove(folder.path() / "secrets");
  std::filesystem::create_directory(folder.path() / "secrets");
  CHECK(has(error_of_adding({"A"}), "not a regular file"));
  CHECK(add({}).has_value());
}

TEST_CASE_FIXTURE(SecretsFixture, "removing the secrets twice is no error") {
  write(std::string_view("A=value\0", 8));
  remove_secrets(folder.path());
  CHECK_FALSE(std::filesystem::exists(folder.path() / "secrets"));
  remove_secrets(folder.path());
}
