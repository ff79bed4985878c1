// A stand-in for NVIDIA's enroot, for machines without it: import, create, start, export, remove,
// list, digest and version, with enroot's options and mechanism. An image is unpacked once, and
// `start` enters the root file system in user and mount namespaces of its own, without privileges.
//
// The stand-in has no overlays and only the hooks of enroot_hooks.h. It contacts no registry:
// `docker://NAME` is a squashfs file in the folder registry, which is beside the program's folder.
// `import`, `create` and `start` print on stderr that the program is a stand-in.

#include <fcntl.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include <mntent.h>

#include "enroot_hooks.h"
#include "stand_in.h"

void stand_in::die(const std::string& message) {
  std::fprintf(stderr, "[ERROR] enroot stand-in: %s\n", message.c_str());
  std::exit(1);
}

namespace {

using namespace stand_in;  // NOLINT(google-build-using-namespace): the program is a stand-in

void say(const std::string& message) {
  std::fprintf(stderr, "[INFO] enroot stand-in of dlrun's testbed: %s\n", message.c_str());
}

[[nodiscard]] bool is_on(const char* name) {
  const std::string value = variable(name);
  return value == "y" || value == "yes" || value == "1" || value == "true";
}

/// Returns the folder of the containers, and creates it if it does not exist. enroot's default is
/// below the home directory; sites choose a folder of the node, as this stand-in does.
[[nodiscard]] fs::path data_path() {
  fs::path path = variable("ENROOT_DATA_PATH", "/tmp/enroot-data-" + std::to_string(::geteuid()));
  std::error_code error;
  fs::create_directories(path, error);
  if (error) die(path.string() + ": " + error.message());
  return path;
}

[[nodiscard]] fs::path container_path(const std::string& name) {
  if (name.empty() || name.find('/') != std::string::npos || name == "." || name == "..")
    die("Invalid argument: " + name);
  return data_path() / name;
}

/// Returns the path of the image file that stands for docker://[USER@][REGISTRY#]IMAGE[:TAG].
/// Returns the path even if there is no such file. The files of all registries are in one folder,
/// `registry`. Dies if the URI has another form.
[[nodiscard]] fs::path registry_file(std::string uri) {
  constexpr std::string_view kScheme = "docker://";
  if (!uri.starts_with(kScheme)) die("Invalid argument: " + uri);
  uri.erase(0, kScheme.size());
  if (const auto at = uri.find('@'); at != std::string::npos && uri.find('#') > at)
    uri.erase(0, at + 1);
  if (uri.find(':', uri.find('#') == std::string::npos ? 0 : uri.find('#')) == std::string::npos)
    uri += ":latest";
  for (char& c : uri) {
    if (c == '/' || c == ':' || c == '#') c = '+';
  }
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  return self.parent_path().parent_path() / "registry" / (uri + ".sqsh");
}

/// Returns true for the registries that the stand-in reports as unreachable.
[[nodiscard]] bool is_unreachable(const std::string& uri) {
  return uri.starts_with("docker://unreachable.");
}

[[noreturn]] void die_unreachable(const std::string& uri) {
  const std::string host = uri.substr(9, uri.find('#') - 9);
  std::fprintf(stderr, "[ERROR] curl: (6) Could not resolve host: %s\n", host.c_str());
  std::exit(1);
}

int import_image(Words words) {
  Arguments arguments(std::move(words));
  std::string output;
  while (const auto option = arguments.next_option({"-o", "--output", "-a", "--arch"})) {
    if (*option == "-o" || *option == "--output") output = arguments.value();
  }
  const std::string uri = arguments.take();
  const fs::path image = registry_file(uri);
  if (output.empty()) output = image.filename();
  if (is_unreachable(uri)) die_unreachable(uri);
  if (fs::exists(output)) die("File already exists: " + output);
  if (!fs::exists(image))
    die("URL https://" + uri.substr(9) + " returned error code: 404 Not Found");
  say("Creating squashfs filesystem of " + uri);
  std::error_code error;
  if (!fs::copy_file(image, output, error)) die(output + ": " + error.message());
  return 0;
}

int digest(Words words) {
  Arguments arguments(std::move(words));
  const std::string uri = arguments.take();
  if (is_unreachable(uri)) die_unreachable(uri);
  const fs::path image = registry_file(uri);
  if (!fs::exists(image)) die("returned error code: 404 Not Found");
  Words command{"sh", "-c", "printf 'sha256:%s\\n' \"$(sha256sum <\"$0\" | cut -d' ' -f1)\"",
                image.string()};
  ::execvp("sh", pointers(command).data());
  die_errno("sh");
}

int create(Words words) {
  Arguments arguments(std::move(words));
  std::string name;
  bool is_forced = false;
  while (const auto option = arguments.next_option({"-n", "--name"})) {
    if (*option == "-n" || *option == "--name")
      name = arguments.value();
    else if (*option == "-f" || *option == "--force")
      is_forced = true;
    else
      die("Invalid argument: " + *option);
  }
  const fs::path image = arguments.take();
  if (!fs::is_regular_file(image)) die("No such file or directory: " + image.string());
  if (std::system(("unsquashfs -s '" + image.string() + "' >/dev/null 2>&1").c_str()) != 0)
    die("Invalid image format: " + image.string());
  const fs::path root = container_path(name.empty() ? image.stem().string() : name);
  if (fs::exists(root) && is_forced) fs::remove_all(root);
  if (fs::exists(root)) die("File already exists: " + root.string());
  say("Extracting squashfs filesystem " + image.string());
  run({"unsquashfs", "-no-progress", "-user-xattrs", "-d", root.string(), image.string()});
  return 0;
}

int export_image(Words words) {
  Arguments arguments(std::move(words));
  std::string output;
  bool is_forced = false;
  while (const auto option = arguments.next_option({"-o", "--output"})) {
    if (*option == "-o" || *option == "--output") output = arguments.value();
    if (*option == "-f" || *option == "--force") is_forced = true;
  }
  const std::string name = arguments.take();
  const fs::path root = container_path(name);
  if (!fs::is_directory(root)) die("No such file or directory: " + root.string());
  if (output.empty()) output = name + ".sqsh";
  if (fs::exists(output) && !is_forced) die("File already exists: " + output);
  fs::remove(output);
  run({"mksquashfs", root.string(), output, "-all-root", "-no-progress", "-quiet"});
  return 0;
}

int remove(Words words) {
  Arguments arguments(std::move(words));
  bool is_forced = false;
  while (const auto option = arguments.next_option({}))
    is_forced = is_forced || *option == "-f" || *option == "--force";
  Words names = arguments.rest();
  for (const std::string& name : names) {
    const fs::path root = container_path(name);
    if (!fs::is_directory(root)) die("No such file or directory: " + root.string());
    if (!is_forced) die("Refusing to remove " + name + " without --force: no terminal to ask on");
    std::error_code error;
    fs::remove_all(root, error);
    if (error) run({"sh", "-c", "chmod -R u+rwX \"$0\" && rm -rf \"$0\"", root.string()});
  }
  return 0;
}

/// Lists the containers. With --fancy, also prints one line for each process in them, with the
/// first two of enroot's columns.
int list(Words words) {
  const bool is_fancy = !words.empty() && (words[0] == "-f" || words[0] == "--fancy");
  if (is_fancy) std::puts("NAME PID");
  for (const auto& container : fs::directory_iterator(data_path())) {
    std::printf("%s\n", container.path().filename().c_str());
    std::error_code error;
    for (const auto& process : fs::directory_iterator(is_fancy ? "/proc" : "/dev/null", error)) {
      // Every start leaves the file .lock in the container's root. Only a process inside the
      // container sees that file at "/".
      if (fs::equivalent(process.path() / "root/.lock", container.path() / ".lock", error) &&
          !error)
        std::printf("%s %s\n", container.path().filename().c_str(),
                    process.path().filename().c_str());
    }
  }
  return 0;
}

struct MountFlag {
  std::string_view name;
  unsigned long flag;
  bool is_propagation;
};
constexpr MountFlag kFlags[] = {{"bind", MS_BIND, false},
                                {"rbind", MS_BIND | MS_REC, false},
                                {"ro", MS_RDONLY, false},
                                {"rw", 0, false},
                                {"nosuid", MS_NOSUID, false},
                                {"nodev", MS_NODEV, false},
                                {"noexec", MS_NOEXEC, false},
                                {"private", MS_PRIVATE, true},
                                {"rprivate", MS_PRIVATE | MS_REC, true},
                                {"slave", MS_SLAVE, true},
                                {"rslave", MS_SLAVE | MS_REC, true},
                                {"shared", MS_SHARED, true},
                                {"rshared", MS_SHARED | MS_REC, true}};

/// Mounts one line of an fstab below `root`, as enroot-mount does. A line of two fields is a bind
/// mount whose target is created; in a line of three, the last field holds the options; a line of
/// four has the type before the options. White space in a path is written as \040.
void mount_line(const fs::path& root, const std::string& line) {
  FILE* stream = ::fmemopen(const_cast<char*>(line.data()), line.size(), "r");
  mntent* entry = ::getmntent(stream);
  if (entry == nullptr || *entry->mnt_dir == '\0') die("invalid fstab entry: \"" + line + "\"");
  const std::string source = entry->mnt_fsname;
  const bool is_tmpfs = source == "tmpfs";
  std::string options = *entry->mnt_opts != '\0' ? entry->mnt_opts : entry->mnt_type;
  if (options.empty()) options = "rbind,x-create=auto";
  const fs::path target = root / fs::path(entry->mnt_dir).relative_path();
  ::fclose(stream);

  unsigned long flags = 0;
  unsigned long propagation = 0;
  bool creates_target = false;
  bool may_fail = false;
  std::istringstream list(options);
  for (std::string option; std::getline(list, option, ',');) {
    creates_target = creates_target || option.starts_with("x-create=");
    may_fail = may_fail || option == "nofail";
    const auto* flag = std::find_if(std::begin(kFlags), std::end(kFlags),
                                    [&](const auto& row) { return row.name == option; });
    // Skips any other option, because the kernel ignores the other options of a bind mount.
    if (flag == std::end(kFlags)) continue;
    (flag->is_propagation ? propagation : flags) |= flag->flag;
  }
  std::error_code error;
  if (!is_tmpfs && !fs::exists(source, error)) {
    if (may_fail) return;
    die("failed to mount: " + source + " at " + target.string() + ": No such file or directory");
  }
  if (creates_target) make_target(is_tmpfs ? "/tmp" : source, target);
  if (is_tmpfs) {
    check(::mount("tmpfs", target.c_str(), "tmpfs", flags, "mode=755") == 0,
          "failed to mount: tmpfs at " + target.string());
    return;
  }
  bind_mount(source, target, flags);
  if (propagation != 0)
    check(::mount(nullptr, target.c_str(), nullptr, propagation, nullptr) == 0,
          "propagation of " + target.string());
}

/// Adds the variable of one line as enroot does: strips quotes around the value, and ignores
/// comments, lines without an assignment, and variables named ENROOT_*.
void add_variable(Environment& environment, const std::string& line) {
  const auto start = line.find_first_not_of(" \t");
  const auto equals = line.find('=');
  if (start == std::string::npos || line[start] == '#' || equals == std::string::npos) return;
  std::string value = line.substr(equals + 1);
  if (value.size() >= 2 && (value.front() == '"' || value.front() == '\'') &&
      (value.back() == '"' || value.back() == '\'')) {
    value = value.substr(1, value.size() - 2);
  }
  const std::string name = line.substr(start, equals - start);
  if (!name.starts_with("ENROOT_")) environment[name] = value;
}

/// Calls add_variable() for each line.
void add_variables(Environment& environment, std::istream& lines) {
  for (std::string line; std::getline(lines, line);) add_variable(environment, line);
}

struct StartOptions {
  bool is_root = is_on("ENROOT_REMAP_ROOT");
  bool is_writable = is_on("ENROOT_ROOTFS_WRITABLE");
  Words mounts;                   ///< in enroot's form: SOURCE:TARGET[:OPTIONS]
  Words env;                      ///< NAME or NAME=VALUE
  std::optional<std::string> rc;  ///< the text of the script of --rc
  std::string conf;               ///< the script of --conf, whose function hooks() runs in bash
  std::string name;
  Words command;
};

[[nodiscard]] StartOptions parse_start(Words words) {
  StartOptions options;
  Arguments arguments(std::move(words));
  while (const auto option =
             arguments.next_option({"-e", "--env", "-m", "--mount", "--rc", "-c", "--conf"})) {
    if (*option == "-r" || *option == "--root")
      options.is_root = true;
    else if (*option == "-w" || *option == "--rw")
      options.is_writable = true;
    else if (*option == "-e" || *option == "--env")
      options.env.push_back(arguments.value());
    else if (*option == "-m" || *option == "--mount")
      options.mounts.push_back(arguments.value());
    else if (*option == "-c" || *option == "--conf")
      options.conf = arguments.value();
    else if (*option == "--rc") {
      std::ifstream file(arguments.value());
      if (!file) die("No such file or directory: " + arguments.value());
      options.rc = std::string(std::istreambuf_iterator<char>(file), {});
    } else
      die("the stand-in does not have the option " + *option);
  }
  options.name = arguments.take();
  options.command = arguments.rest();
  for (const std::string& mount : options.mounts) {
    const bool has_space = mount.find_first_of(" \t\n") != std::string::npos;
    if (has_space || mount.find(':') == std::string::npos) die("Invalid argument: " + mount);
  }
  return options;
}

/// The mounts of every container: the kernel's file systems, an empty /tmp, and the host's files
/// for name resolution.
constexpr const char* kSystemMounts[] = {
    "/proc /proc x-create=dir,rbind",
    "/sys /sys x-create=dir,rbind",
    "/dev /dev x-create=dir,rbind",
    "tmpfs /tmp tmpfs x-create=dir,nosuid,nodev",
    "/etc/hosts /etc/hosts x-create=file,bind,ro",
    "/etc/resolv.conf /etc/resolv.conf x-create=file,bind,ro,nofail"};

void mount_all(const fs::path& root, const StartOptions& options, const std::string& home,
               Environment& environment) {
  // Containers with a name are shared. The lock makes two concurrent starts create the mount
  // targets one after the other.
  const int lock = ::open((root / ".lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  check(lock >= 0 && ::flock(lock, LOCK_EX) == 0, root / ".lock");
  bind_mount(root, root, MS_REC);
  for (const char* line : kSystemMounts) mount_line(root, line);
  for (const std::string& line : run_hooks(root, environment)) mount_line(root, line);
  if (!options.conf.empty()) {
    ::setenv("ENROOT_ROOTFS", root.c_str(), 1);
    run({"bash", "-euo", "pipefail", "-c",
         "source \"$0\"; if declare -F hooks >/dev/null; then hooks; fi", options.conf});
  }
  if (is_on("ENROOT_MOUNT_HOME"))
    mount_line(root, home + " " + (options.is_root ? "/root" : home) + " x-create=dir,rbind");
  for (std::string line : options.mounts) {
    std::replace(line.begin(), line.end(), ':', ' ');
    mount_line(root, line);
  }
  ::close(lock);
  if (!options.is_writable) restrict_mount(root, MS_RDONLY);
}

int start(Words words) {
  // Closes the caller's descriptors like enroot, including those of a process substitution.
  ::closefrom(3);
  const StartOptions options = parse_start(std::move(words));
  const fs::path root = container_path(options.name);
  if (!fs::is_directory(root)) die("No such file or directory: " + root.string());
  const passwd* user = ::getpwuid(::geteuid());
  const std::string home = variable("HOME", user != nullptr ? user->pw_dir : "/");

  // The container gets these variables, and a later one overrides an earlier one: those of the
  // image, HOME, TERM, and those of --env. run_hooks() adds the variables of Slurm.
  Environment environment{{"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}};
  std::ifstream image_variables(root / "etc/environment");
  add_variables(environment, image_variables);
  environment["HOME"] = options.is_root ? "/root" : home;
  if (std::getenv("TERM") != nullptr) environment["TERM"] = std::getenv("TERM");
  for (const std::string& word : options.env) {
    // Reads a second line of a value as another variable, as enroot does.
    std::istringstream lines(
        word.find('=') != std::string::npos ? word : word + "=" + variable(word.c_str()));
    add_variables(environment, lines);
  }

  say("starting " + options.name + " in " + root.string());
  enter_namespaces(options.is_root);
  mount_all(root, options, home, environment);
  change_root(root);

  Words command = options.command;
  if (command.empty()) command = {"/bin/sh"};
  std::error_code error;
  Words launch;
  if (options.rc)
    launch = {"/bin/sh", "-c", *options.rc, "/etc/rc"};
  else if (fs::exists("/etc/rc", error))
    launch = {"/bin/sh", "/etc/rc"};
  launch.insert(launch.end(), command.begin(), command.end());
  Words pairs;
  for (const auto& [name, value] : environment) pairs.push_back(name + "=" + value);
  ::setenv("PATH", environment["PATH"].c_str(), 1);  // the path that execvpe() searches
  ::execvpe(launch[0].c_str(), pointers(launch).data(), pointers(pairs).data());
  die_errno(launch[0]);
}

}  // namespace

int main(int argc, char** argv) {
  Words words(argv + 1, argv + argc);
  if (words.empty()) die("usage: enroot import|create|start|export|remove|list|digest|version ...");
  const std::string command = words[0];
  words.erase(words.begin());
  if (command == "import") return import_image(words);
  if (command == "create") return create(words);
  if (command == "start") return start(words);
  if (command == "export") return export_image(words);
  if (command == "remove") return remove(words);
  if (command == "digest") return digest(words);
  if (command == "list") return list(std::move(words));
  if (command == "version") return std::puts("0 (stand-in of dlrun's testbed)") < 0 ? 1 : 0;
  die("Invalid command: " + command);
}
