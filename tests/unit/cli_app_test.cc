#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <doctest/doctest.h>

#include "cli/cli.h"
#include "cli/completion.h"
#include "cli/man_page.h"
#include "cli/output.h"
#include "common/files.h"
#include "launcher/spec/key_reference.h"
#include "launcher/spec/schema.h"
#include "tests/unit/cli_fixture.h"

using namespace dlrun;

TEST_CASE_FIXTURE(CliFixture, "a wrong command line is exit code 2") {
  CHECK(call({}) == 2);
  CHECK(call({"frobnicate"}) == 2);
  CHECK(call({"submit"}) == 2);
  CHECK(call({"submit", "x.yaml", "--frobnicate"}) == 2);
  CHECK(call({"submit", "x.yaml", "--dry-run", "--test-only"}) == 2);
  CHECK(call({"logs", "last", "--rank", "-1"}) == 2);
  CHECK(call({"logs", "last", "--attempt", "1"}) == 2);
  CHECK(call({"completion", "tcsh"}) == 2);
}

TEST_CASE_FIXTURE(CliFixture, "what does not exist is exit code 6") {
  CHECK(call({"submit", "no-such.yaml"}) == 6);
  CHECK(call({"status", "no-such-run"}) == 6);
  CHECK(call({"wait", "last"}) == 6);
  CHECK(call({"cancel", "4711"}) == 6);
}

TEST_CASE_FIXTURE(CliFixture, "help and an empty list are no errors") {
  CHECK(call({"--version"}) == 0);
  CHECK(call({"submit", "--help"}) == 0);
  CHECK(call({"ls"}) == 0);
}

TEST_CASE_FIXTURE(CliFixture, "sites are listed and shown; an unknown one is exit code 6, one with a mistake 2") {
  CHECK(call({"site", "list"}) == 0);
  CHECK(call({"site", "list", "--json"}) == 0);
  CHECK(call({"site", "show"}) == 0);
  CHECK(call({"site", "show", "juwels", "--json"}) == 0);
  CHECK(call({"site", "show", "no-such-site"}) == 6);
  CHECK(call({"site", "show", "./no-such-file.yaml"}) == 6);
  CHECK(call({"site", "list", "juwels"}) == 2);
  CHECK(call({"site", "frobnicate"}) == 2);
  REQUIRE(write_file_atomic(folder.path() / "mine.yaml", "help: fine\n").has_value());
  CHECK(call({"site", "show", "mine.yaml"}) == 0);
  REQUIRE(write_file_atomic(folder.path() / "mine.yaml", "gpu_stile: gres\n").has_value());
  CHECK(call({"site", "show", "mine.yaml"}) == 2);
}

TEST_CASE_FIXTURE(CliFixture, "an invalid spec is exit code 2 and leaves nothing behind") {
  REQUIRE(write_file_atomic(folder.path() / "bad.yaml", "name: x\nresources: {nodez: 2}\n").has_value());
  CHECK(call({"submit", "bad.yaml"}) == 2);
  CHECK(call({"run", "bad.yaml"}) == 2);
  CHECK(call({"render", "bad.yaml"}) == 2);
  CHECK_FALSE(std::filesystem::exists(folder.path() / "runs"));
}

TEST_CASE_FIXTURE(CliFixture, "render -o writes through a link and into a pipe, and replaces neither") {
  namespace fs = std::filesystem;
  REQUIRE(write_file_atomic(folder.path() / "x.yaml", "launch: {command: [echo]}\n").has_value());
  REQUIRE(write_file_atomic(folder.path() / "target.sh", "before").has_value());
  fs::create_symlink("target.sh", folder.path() / "link.sh");
  CHECK(call({"render", "x.yaml", "-o", "link.sh", "--force"}) == 0);
  CHECK(fs::is_symlink(folder.path() / "link.sh"));
  CHECK(read_file(folder.path() / "target.sh", 1U << 20U)->starts_with("#!/bin/bash"));

  const auto pipe = (folder.path() / "pipe").string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const UniqueFd reader(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK));
  CHECK(call({"render", "x.yaml", "-o", "pipe"}) == 0);
  CHECK(fs::is_fifo(pipe));
  std::string head(11, ' ');
  CHECK(::read(reader.get(), head.data(), head.size()) == 11);
  CHECK(head == "#!/bin/bash");
  CHECK(call({"render", "x.yaml", "-o", "."}) == 1);
}

TEST_CASE_FIXTURE(CliFixture,
                  "render -o writes over its own script and keeps one that was edited, unless --force says so") {
  REQUIRE(write_file_atomic(folder.path() / "x.yaml", "launch: {command: [echo]}\n").has_value());
  REQUIRE(write_file_atomic(folder.path() / "job.sh", "").has_value());  // as mktemp leaves it
  CHECK(call({"render", "x.yaml", "-o", "job.sh"}) == 0);
  const std::string first = read("job.sh");
  CHECK(call({"render", "x.yaml", "-o", "job.sh"}) == 0);
  CHECK(read("job.sh") == first);
  CHECK(call({"render", "x.yaml", "-o", "job.sh", "--set", "resources.nodes=2"}) == 0);
  CHECK(read("job.sh") != first);
  std::string edited = first;
  edited.insert(edited.find('\n') + 1, "#SBATCH --qos=mine\n");
  REQUIRE(write_file_atomic(folder.path() / "job.sh", edited).has_value());
  CHECK(call({"render", "x.yaml", "-o", "job.sh"}) == 2);
  CHECK(read("job.sh") == edited);
  CHECK(call({"render", "x.yaml", "-o", "job.sh", "--force"}) == 0);
  CHECK(read("job.sh") == first);
}

TEST_CASE_FIXTURE(CliFixture, "a run is found by its path where the index has no place") {
  const auto run = folder.path() / "runs" / "x-1";
  REQUIRE(make_private_directories(run).has_value());
  REQUIRE(write_file_atomic(run / "submission.json", R"({"token":"t","state":"refused","message":"no"})").has_value());
  cli.env = {};
  cli.env.set("PATH", "/nowhere");
  CHECK(call({"status", "runs/x-1"}) == 0);
  CHECK(call({"status", "x-1"}) == 6);
}

TEST_CASE("every kind of failure has one of the documented exit codes") {
  CHECK(exit_code_of(Errc::kInvalid) == 2);
  CHECK(exit_code_of(Errc::kRefused) == 3);
  CHECK(exit_code_of(Errc::kUnavailable) == 4);
  CHECK(exit_code_of(Errc::kTimeout) == 4);
  CHECK(exit_code_of(Errc::kNotFound) == 6);
  CHECK(exit_code_of(Errc::kInterrupted) == 130);
  CHECK(exit_code_of(Errc::kIo) == 1);
}

TEST_CASE("the cost of a job is told where the spec decides it") {
  Requested requested;
  CHECK(cost(requested).empty());
  requested.gpus = 8;
  requested.cpus = 80;
  requested.time_seconds = 1200;
  CHECK(cost(requested) == "at most 2.67 GPU-hours, 26.7 core-hours");
  requested.gpus = 0;
  CHECK(cost(requested) == "at most 26.7 core-hours");
}

TEST_CASE("tables align by what is seen, and carry no colour unless asked") {
  CHECK(table({{"A", "B"}, {"long", "x"}, {"ü", "y"}}, false) == "A     B\nlong  x\nü     y\n");
}

namespace {

/// A file of the tree that dlrun itself makes.
void check_made(const std::filesystem::path& file, const std::string& text) {
  CAPTURE(file.string());
  const auto path = std::filesystem::path(DLRUN_SOURCE_DIR) / file;
  if (std::getenv("DLRUN_UPDATE_GOLDEN") != nullptr) REQUIRE(write_file_atomic(path, text, 0644).has_value());
  const auto kept = read_file(path, 1U << 20U);
  REQUIRE(kept.has_value());
  CHECK_MESSAGE(*kept == text, "refresh with DLRUN_UPDATE_GOLDEN=1");
}

}  // namespace

TEST_CASE("completions, manual page, key reference and schema in the tree are those that dlrun prints") {
  Action action;
  const auto app = make_app(action);
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    const auto script = completion_script(*app, shell);
    REQUIRE(script.has_value());
    check_made(shell == "zsh" ? "completions/_dlrun" : "completions/dlrun." + shell, *script);
  }
  check_made("docs/dlrun.1", man_page(*app));
  check_made("docs/keys.md", key_reference_markdown());
  check_made("docs/exp.schema.json", spec_schema());
}

TEST_CASE("a command that is called is made alone, under its own name; one that tells of all is not") {
  Action action;
  const auto all = make_app(action);
  for (const CLI::App* command : all->get_subcommands(nullptr)) {
    const auto app = make_app(action, command->get_name());
    const auto made = app->get_subcommands(nullptr);
    CAPTURE(command->get_name());
    if (command->get_name() == "man" || command->get_name() == "completion") {
      CHECK(made.size() == all->get_subcommands(nullptr).size());
      continue;
    }
    REQUIRE(made.size() == 1);
    CHECK(made.front()->get_name() == command->get_name());
  }
  CHECK(make_app(action, "frobnicate")->get_subcommands(nullptr).size() == all->get_subcommands(nullptr).size());
}
