#pragma once
// Runs dlrun's command line in this process, in a temporary folder and with a PATH without
// programs.

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include <stdio_ext.h>

#include "cli/cli.h"
#include "common/files.h"
#include "tests/temporary_directory.h"

namespace dlrun {

struct CliFixture {
  TemporaryDirectory folder;
  Cli cli;
  CliFixture() {
    cli.env.set("HOME", folder.path().string());
    cli.env.set("PATH", "/nowhere");
    cli.current_dir = folder.path();
    cli.bin_dir = folder.path() / "bin";
    cli.tools = {"hash", {}};
  }
  /// Creates a site with its own runs folder, and selects it.
  void create_and_select_site() {
    const auto sites = folder / ".config/dlrun/sites";
    std::filesystem::create_directories(sites);
    std::ofstream(sites / "alpine.yaml") << "help: a site\nruns_dir: ${HOME}/of-the-site\n";
    cli.env.set("DLRUN_SITE", "alpine");
  }
  /// Runs `dlrun WORDS...` and returns its exit code.
  int call(std::vector<const char*> words) {
    words.insert(words.begin(), "dlrun");
    return run_cli(cli, static_cast<int>(words.size()), words.data());
  }
  /// Returns the exit code and standard error of a call: "2\ndlrun: error: ...".
  std::string code_and_stderr(std::vector<const char*> words) {
    return code_and_stderr(std::move(words), nullptr);
  }
  /// Like code_and_stderr(words), with standard output redirected to a file such as /dev/full.
  /// nullptr: standard output is not redirected.
  std::string code_and_stderr(std::vector<const char*> words, const char* standard_output) {
    if (standard_output == nullptr) return call_with_stderr_in_file(std::move(words));
    std::fflush(stdout);
    const UniqueFd before(::dup(STDOUT_FILENO)), to(::open(standard_output, O_WRONLY | O_CLOEXEC));
    ::dup2(to.get(), STDOUT_FILENO);
    auto result = call_with_stderr_in_file(std::move(words));
    ::__fpurge(stdout);
    std::clearerr(stdout);
    std::cout.clear();
    ::dup2(before.get(), STDOUT_FILENO);
    return result;
  }
  /// Makes the call with standard error redirected to the file .stderr of the folder. Returns the
  /// exit code and the content of this file.
  std::string call_with_stderr_in_file(std::vector<const char*> words) {
    const auto file = folder.path() / ".stderr";
    std::fflush(stderr);
    const UniqueFd before(::dup(STDERR_FILENO)),
        to(::open(file.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600));
    ::dup2(to.get(), STDERR_FILENO);
    const int code = call(std::move(words));
    std::fflush(stderr);
    ::dup2(before.get(), STDERR_FILENO);
    return std::to_string(code) + "\n" + read(".stderr");
  }
  /// Returns the content of a file of the folder; "" if it does not exist.
  [[nodiscard]] std::string read(const char* name) const {
    return read_file(folder.path() / name, 1U << 20U).value_or("");
  }
};

}  // namespace dlrun
