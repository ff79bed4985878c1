#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "cli/cli.h"

int main(int argc, char** argv) {
  ::umask(::umask(0) & 077);  // one that takes the owner's rights away would make what dlrun itself cannot read
  dlrun::Cli cli;
  cli.env = dlrun::Env::of_process();
  std::error_code error;
  cli.current_dir = std::filesystem::current_path(error);
  cli.bin_dir = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  cli.argv.assign(argv, argv + argc);
  cli.tools = dlrun::built_tools();
  const bool plain = !cli.env.get_or("NO_COLOR", "").empty() || cli.env.get_or("TERM", "dumb") == "dumb";
  cli.colour_out = !plain && ::isatty(STDOUT_FILENO) == 1;
  cli.colour_err = !plain && ::isatty(STDERR_FILENO) == 1;
  return dlrun::run_cli(cli, argc, argv);
}
