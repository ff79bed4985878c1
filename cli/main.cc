#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/terminal/print.h"

namespace {

/// Opens /dev/null for each standard descriptor that is closed when dlrun starts (`dlrun ls >&-`).
/// Otherwise the next opened file would get that number and receive dlrun's output. Standard input
/// is opened for writing, and the outputs for reading, so that reads and writes still fail.
void open_closed_descriptors() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd)
      ::_exit(1);
  }
}

/// Gives standard output a static buffer. Otherwise the C library calls fstat() and allocates a
/// buffer, which takes time.
void buffer_output() {
  static std::array<char, 8192> buffer;
  std::setvbuf(stdout, buffer.data(), _IOFBF, buffer.size());
}

}  // namespace

int main(int argc, char** argv) {
  open_closed_descriptors();
  // If SIGCHLD is ignored when dlrun starts, the exit codes of dlrun's child processes would be
  // lost.
  ::signal(SIGCHLD, SIG_DFL);
  // With a umask that removes the owner's rights, dlrun could not read its own files.
  ::umask(::umask(0) & 077);
  dlrun::Cli cli;
  cli.env = dlrun::Env::of_process();
  std::error_code error;
  cli.current_dir = std::filesystem::current_path(error);
  cli.bin_dir = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  cli.argv.assign(argv, argv + argc);
  cli.tools = dlrun::built_tools();
  cli.commit = dlrun::built_commit();
  const bool is_colourless =
      !cli.env.get_or("NO_COLOR", "").empty() || cli.env.get_or("TERM", "dumb") == "dumb";
  const bool is_terminal = dlrun::is_output_terminal();
  if (!is_terminal) buffer_output();
  cli.colour_out = !is_colourless && is_terminal;
  cli.colour_err = !is_colourless && dlrun::is_error_terminal();
  // A dlrun on another machine calls --remote WORD over ssh. rsync on this machine calls
  // --rsync-shell NAME RSYNC_HOST ARGV...; dlrun does not need RSYNC_HOST.
  if (argc == 3 && std::string_view(argv[1]) == "--remote")
    return dlrun::serve_remote_call(cli, argv[2]);
  if (argc >= 5 && std::string_view(argv[1]) == "--rsync-shell")
    return dlrun::run_rsync_shell(cli, argv[2], {argv + 4, argv + argc});
  return dlrun::run_cli(cli, argc, argv);
}
