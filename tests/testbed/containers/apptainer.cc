// A stand-in for apptainer, for machines without it. It supports `exec` and `run` with the options
// that dlrun uses, and prints on stderr that it is a stand-in.
//
// The stand-in follows apptainer's rules. The caller's environment is passed on, except PATH,
// LD_LIBRARY_PATH, HOME and APPTAINER_*. The image's scripts override the variables of this
// environment. The caller's APPTAINERENV_NAME overrides NAME even if a script of the image sets it.
// /tmp is always mounted. The home directory is mounted unless --no-home is given, and the current
// folder unless it would cover a folder of the image. Mount targets that the image lacks are
// created. The root is read-only unless --writable-tmpfs is given. Images are squashfs files, which
// apptainer accepts, too.

#include <fcntl.h>
#include <pwd.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "stand_in.h"

void stand_in::die(const std::string& message) {
  std::fprintf(stderr, "FATAL:   %s\n", message.c_str());
  std::exit(255);
}

namespace {

using namespace stand_in;  // NOLINT(google-build-using-namespace): the program is a stand-in

void say(const std::string& message) {
  std::fprintf(stderr, "INFO:    apptainer stand-in of dlrun's testbed: %s\n", message.c_str());
}

struct Bind {
  fs::path source, target;
  unsigned long flags = 0;
};

struct ExecOptions {
  bool uses_runscript = false;  ///< `run`: passes the command to the image's runscript
  bool mounts_home = true, is_root = false, is_writable = false, asks_for_nv = false;
  std::vector<Bind> binds;
  fs::path pwd;  ///< the folder of --pwd or --cwd
  fs::path image;
  Words command;
};

/// Parses binds SOURCE[:TARGET[:ro|rw]], separated by commas. A backslash escapes the next
/// character.
void add_binds(std::vector<Bind>& binds, const std::string& text) {
  Words fields(1);
  const auto finish = [&] {
    if (fields.size() > 3 || fields[0].empty())
      die("while parsing bind path: invalid bind path: " + text);
    Bind bind{fields[0], fields.size() > 1 && !fields[1].empty() ? fields[1] : fields[0]};
    if (fields.size() > 2 && fields[2] != "ro" && fields[2] != "rw")
      die("while parsing bind path: " + fields[2] + " is not a valid bind option");
    if (fields.size() > 2 && fields[2] == "ro") bind.flags = MS_RDONLY;
    binds.push_back(bind);
    fields.assign(1, "");
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size())
      fields.back() += text[++i];
    else if (text[i] == ':')
      fields.emplace_back();
    else if (text[i] == ',')
      finish();
    else
      fields.back() += text[i];
  }
  finish();
}

[[nodiscard]] ExecOptions parse(const std::string& verb, Words words) {
  ExecOptions options;
  options.uses_runscript = verb == "run";
  Arguments arguments(std::move(words));
  while (const auto option = arguments.next_option({"-B", "--bind", "--pwd", "--cwd"})) {
    if (*option == "-B" || *option == "--bind")
      add_binds(options.binds, arguments.value());
    else if (*option == "--pwd" || *option == "--cwd")
      options.pwd = arguments.value();
    else if (*option == "--no-home")
      options.mounts_home = false;
    else if (*option == "-f" || *option == "--fakeroot")
      options.is_root = true;
    else if (*option == "--writable-tmpfs")
      options.is_writable = true;
    else if (*option == "--nv")
      options.asks_for_nv = true;
    else
      die("unknown flag (or one that the stand-in lacks): " + *option);
  }
  options.image = arguments.take();
  options.command = arguments.rest();
  return options;
}

void die_unless_image(const fs::path& image) {
  const std::string message_begin =
      "While checking container encryption: could not open image " + image.string() + ": ";
  const int fd = ::open(image.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    die(message_begin + "failed to retrieve path for " + image.string() + ": " +
        std::strerror(errno));
  char magic[4] = {};
  const bool is_squashfs = ::read(fd, magic, 4) == 4 && std::string_view(magic, 4) == "hsqs";
  ::close(fd);
  if (!is_squashfs) die(message_begin + "image format not recognized");
}

/// Returns an absolute path of the container as a path below `root`.
[[nodiscard]] fs::path below(const fs::path& root, const fs::path& path) {
  return root / path.relative_path();
}

void mount_all(const fs::path& root, const ExecOptions& options, const std::string& home,
               const fs::path& started_in) {
  const auto bind = [&](const fs::path& source, const fs::path& target, unsigned long flags = 0) {
    make_target(source, below(root, target));
    bind_mount(source, below(root, target), MS_REC | flags);
  };
  for (const char* path : {"/proc", "/sys", "/dev", "/tmp", "/var/tmp"}) bind(path, path);
  for (const char* path : {"/etc/hosts", "/etc/resolv.conf"}) {
    if (fs::exists(path)) bind(path, path);
  }
  if (options.mounts_home) bind(home, options.is_root ? "/root" : home);
  // The current folder is mounted, too, unless it would cover a folder of the image.
  const fs::path relative = started_in.relative_path();
  const std::string top = relative.empty() ? "" : relative.begin()->string();
  static constexpr std::string_view kImageFolders[] = {"",      "bin",  "boot", "dev", "etc", "lib",
                                                       "lib64", "proc", "sbin", "sys", "usr"};
  if (std::find(std::begin(kImageFolders), std::end(kImageFolders), top) == std::end(kImageFolders))
    bind(started_in, started_in);
  for (const Bind& requested : options.binds) {
    if (!fs::exists(requested.source)) {
      die("container creation failed: mount " + requested.source.string() + "->" +
          requested.target.string() + " error: while mounting " + requested.source.string() +
          ": mount source " + requested.source.string() + " doesn't exist");
    }
    bind(requested.source, requested.target, requested.flags);
  }
}

[[nodiscard]] std::string shell_quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

int exec_in_container(ExecOptions options) {
  die_unless_image(options.image);
  const passwd* user = ::getpwuid(::geteuid());
  const std::string home = user != nullptr ? user->pw_dir : "/";
  const fs::path started_in = fs::current_path();
  say(options.image.string());
  if (options.asks_for_nv && ::access("/dev/nvidiactl", F_OK) != 0)
    std::fprintf(stderr, "INFO:    Could not find any nv files on this host!\n");

  // Splits the caller's environment into ordinary variables and those that override the image's.
  constexpr std::string_view kPrefix = "APPTAINERENV_";
  std::map<std::string, std::string> environment, injected;
  for (char** line = environ; *line != nullptr; ++line) {
    const std::string_view text = *line;
    const auto equals = text.find('=');
    const std::string name(text.substr(0, equals)), value(text.substr(equals + 1));
    if (text.starts_with(kPrefix))
      injected[name.substr(kPrefix.size())] = value;
    else if (!text.starts_with("APPTAINER_") && name != "PATH" && name != "LD_LIBRARY_PATH" &&
             name != "HOME")
      environment[name] = value;
  }
  environment["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
  environment["LD_LIBRARY_PATH"] = "/.singularity.d/libs";
  environment["HOME"] = options.is_root ? "/root" : home;
  environment["APPTAINER_CONTAINER"] = options.image;

  // The image is unpacked into a tmpfs, which disappears with the namespace. The tmpfs covers the
  // host's /mnt, which therefore cannot be bound.
  const fs::path root = "/mnt";
  const fs::path image = fs::absolute(options.image);
  enter_namespaces(options.is_root);
  check(::mount("tmpfs", root.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "mode=755") == 0, "tmpfs");
  run({"unsquashfs", "-no-progress", "-quiet", "-no-xattrs", "-f", "-d", root.string(),
       image.string()});
  mount_all(root, options, home, started_in);
  if (!options.is_writable) restrict_mount(root, MS_RDONLY);
  change_root(root);
  if (!options.pwd.empty() && ::chdir(options.pwd.c_str()) != 0)
    die_errno("chdir " + options.pwd.string());

  std::string script =
      "for file in /.singularity.d/env/*.sh; do [ ! -f \"$file\" ] || . \"$file\"; done; unset "
      "file\n";
  for (const auto& [name, value] : injected)
    script += "export " + name + "=" + shell_quoted(value) + "\n";
  script += options.uses_runscript ? "exec /.singularity.d/runscript \"$@\"\n" : "exec \"$@\"\n";
  Words launch{"/bin/sh", "-c", script, "apptainer"};
  launch.insert(launch.end(), options.command.begin(), options.command.end());
  Words pairs;
  for (const auto& [name, value] : environment) pairs.push_back(name + "=" + value);
  ::execve(launch[0].c_str(), pointers(launch).data(), pointers(pairs).data());
  die_errno(launch[0]);
}

}  // namespace

int main(int argc, char** argv) {
  Words words(argv + 1, argv + argc);
  if (words.empty()) die("usage: apptainer exec|run ...");
  const std::string verb = words[0];
  words.erase(words.begin());
  if (verb == "exec" || verb == "run") return exec_in_container(parse(verb, std::move(words)));
  if (verb == "--version")
    return std::puts("apptainer version 0 (stand-in of dlrun's testbed)") < 0 ? 1 : 0;
  die("unknown command \"" + verb + "\" for \"apptainer\"");
}
