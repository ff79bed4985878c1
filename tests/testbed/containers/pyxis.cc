// A stand-in for NVIDIA's pyxis, for machines without it: a SPANK plugin with pyxis's options and
// mechanism. Once for each step and node the plugin creates a container with enroot, unless a
// container with the given name exists. The plugin starts the container with a shell that suspends
// itself (SIGSTOP), opens that shell's namespaces and copies its environment. Each task enters the
// namespaces just before it starts its program. The plugin prints in the job's output that it is a
// stand-in. Errors that begin with "pyxis:" have the texts of pyxis's errors.
//
// plugstack.conf: required pyxis.so enroot=/path/of/enroot spool=/path/with/%n

#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

extern "C" {  // spank.h lacks this declaration
#include <slurm/spank.h>
}

#include <sched.h>

extern "C" {  // Without these declarations, the constants would have internal linkage in C++.
extern const char plugin_name[], plugin_type[];
extern const unsigned int plugin_version, spank_plugin_version;
}
SPANK_PLUGIN(pyxis_stand_in, 1)

namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

enum Option : int {
  kImage,
  kMounts,
  kWorkdir,
  kName,
  kSave,
  kEnv,
  kMountHome,
  kNoMountHome,
  kRemapRoot,
  kNoRemapRoot,
  kEntrypoint,
  kNoEntrypoint,
  kWritable,
  kReadonly,
  kOptionCount
};

struct OptionInfo {
  const char* name;
  const char* argument;  ///< nullptr: a flag
  int opposite;          ///< the option that excludes this one; -1: none
};
constexpr std::array<OptionInfo, kOptionCount> kOptions{
    {{"container-image", "IMAGE|PATH", -1},
     {"container-mounts", "SRC:DST[:FLAGS][,...]", -1},
     {"container-workdir", "PATH", -1},
     {"container-name", "NAME", -1},
     {"container-save", "PATH", -1},
     {"container-env", "NAME[,NAME...]", -1},
     {"container-mount-home", nullptr, kNoMountHome},
     {"no-container-mount-home", nullptr, kMountHome},
     {"container-remap-root", nullptr, kNoRemapRoot},
     {"no-container-remap-root", nullptr, kRemapRoot},
     {"container-entrypoint", nullptr, kNoEntrypoint},
     {"no-container-entrypoint", nullptr, kEntrypoint},
     {"container-writable", nullptr, kReadonly},
     {"container-readonly", nullptr, kWritable}}};

/// The state of one process: srun, sbatch, or a step's slurmstepd.
struct State {
  std::array<std::optional<std::string>, kOptionCount> given;
  std::string enroot = "enroot", spool;
  bool has_failed = false;
  std::string container;     ///< enroot's name of the container; empty if the step has none
  std::string folder = "/";  ///< the current folder after the start-up script
  int user_ns = -1, mount_ns = -1;
  uid_t uid = 0;
  gid_t gid = 0;
  std::map<std::string, std::string> environment;  ///< enroot's environment
};
State state;

int take_option(int val, const char* optarg, int) {
  auto& value = state.given[static_cast<std::size_t>(val)];
  const std::string text = optarg != nullptr ? optarg : "";
  const OptionInfo& info = kOptions[static_cast<std::size_t>(val)];
  if (info.argument != nullptr && text.empty()) {
    slurm_error("pyxis stand-in: --%s: argument required", info.name);
    return -1;
  }
  if (value && *value != text) {  // Slurm itself may call twice with the same value
    slurm_error("pyxis stand-in: --%s specified multiple times", info.name);
    return -1;
  }
  if (info.opposite >= 0 && state.given[static_cast<std::size_t>(info.opposite)]) {
    slurm_error("pyxis stand-in: both --%s and --%s were specified", info.name,
                kOptions[static_cast<std::size_t>(info.opposite)].name);
    return -1;
  }
  value = text;
  return 0;
}

[[nodiscard]] Words split(const std::string& text, char separator) {
  Words parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

/// Converts SRC[:DST[:FLAGS]] for enroot's --mount. If the text is invalid, reports an error and
/// returns nullopt.
/// pyxis passes mounts to enroot in a bash script within double quotes. Characters that bash would
/// expand are refused here, and so is white space, which pyxis's versions handle differently.
[[nodiscard]] std::optional<std::string> mount_for_enroot(const std::string& text) {
  Words parts = split(text, ':');
  if (parts.size() == 1) parts.push_back(parts[0]);
  if (parts.size() < 2 || parts.size() > 3 || parts[0].empty() || parts[1].empty() ||
      std::string("/.").find(parts[0][0]) == std::string::npos ||
      text.find_first_of("$`\"\\ \t") != std::string::npos) {
    slurm_error("pyxis stand-in: --container-mounts: invalid format: %s", text.c_str());
    return std::nullopt;
  }
  std::string flags = "x-create=auto,rbind";
  if (parts.size() == 3) {
    std::replace(parts[2].begin(), parts[2].end(), '+', ',');
    flags += "," + parts[2];
  }
  return parts[0] + ":" + parts[1] + ":" + flags;
}

[[nodiscard]] std::string job_variable(spank_t sp, const std::string& name) {
  std::string value(1 << 20, '\0');
  if (spank_getenv(sp, name.c_str(), value.data(), static_cast<int>(value.size())) !=
      ESPANK_SUCCESS)
    return "";
  return value.c_str();
}

/// Returns slurmd's spool folder on this node.
[[nodiscard]] std::string spool_folder() {
  std::string spool = state.spool;
  if (const auto at = spool.find("%n"); at != std::string::npos) {
    char host[256] = "";
    ::gethostname(host, sizeof host - 1);
    spool.replace(at, 2, host);
  }
  return spool;
}

/// Starts enroot as the job's user, with only the given environment. The output of enroot goes to
/// the descriptor `log`. Returns the process id; -1 if fork() fails.
[[nodiscard]] pid_t spawn(const Words& words, const std::map<std::string, std::string>& environment,
                          int log) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  Words pairs;
  for (const auto& [name, value] : environment) pairs.push_back(name + "=" + value);
  std::vector<char*> envp;
  for (std::string& pair : pairs) envp.push_back(pair.data());
  envp.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  const int null = ::open("/dev/null", O_RDONLY);
  ::dup2(null, STDIN_FILENO);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  if (::geteuid() != state.uid || ::getuid() != state.uid) {
    if (::seteuid(0) != 0 && ::getuid() == 0) ::_exit(126);
    if (::setregid(state.gid, state.gid) != 0 || ::setreuid(state.uid, state.uid) != 0)
      ::_exit(126);
  }
  ::execve(argv[0], argv.data(), envp.data());
  ::dprintf(STDERR_FILENO, "%s: %s\n", argv[0], std::strerror(errno));
  ::_exit(127);
}

void print_log(int log) {
  std::string text(1 << 16, '\0');
  const ssize_t size = ::pread(log, text.data(), text.size(), 0);
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  slurm_error("pyxis: printing enroot log file:");
  for (const std::string& line : split(text, '\n')) slurm_error("pyxis:     %s", line.c_str());
}

/// Runs enroot to its end, and returns true if it succeeds. failure_message: the text that is
/// printed between the exit code and the output of enroot if enroot fails; empty: none.
[[nodiscard]] bool run_enroot(Words words, const std::map<std::string, std::string>& environment,
                              const std::string& failure_message = "") {
  words.insert(words.begin(), state.enroot);
  const int log = ::memfd_create("enroot", MFD_CLOEXEC);
  const pid_t pid = spawn(words, environment, log);
  int status = 0;
  const bool is_ok = pid > 0 && ::waitpid(pid, &status, 0) == pid && status == 0;
  if (!is_ok) {
    slurm_error("pyxis: child %d failed with error code: %d", static_cast<int>(pid),
                WEXITSTATUS(status));
    if (!failure_message.empty()) slurm_error("pyxis: %s", failure_message.c_str());
    print_log(log);
  }
  ::close(log);
  return is_ok;
}

/// Returns the job's environment without its search paths and without the variables of a single
/// task, plus HOME, a fixed PATH, the spool folder and the variables that the options imply.
[[nodiscard]] std::map<std::string, std::string> enroot_environment(spank_t sp,
                                                                    const std::string& home) {
  constexpr std::array<std::string_view, 9> kDenied{
      "PATH",           "LD_LIBRARY_PATH", "LD_PRELOAD", "SLURM_PROCID",       "SLURM_LOCALID",
      "SLURM_TASK_PID", "PMIX_RANK",       "PMI_FD",     "ENROOT_LIBRARY_PATH"};
  std::map<std::string, std::string> environment;
  char** job_environment = nullptr;
  if (spank_get_item(sp, S_JOB_ENV, &job_environment) == ESPANK_SUCCESS) {
    for (char** at = job_environment; at != nullptr && *at != nullptr; ++at) {
      const std::string pair = *at;
      const auto equals = pair.find('=');
      const std::string name = pair.substr(0, equals);
      if (equals != std::string::npos &&
          std::find(kDenied.begin(), kDenied.end(), name) == kDenied.end())
        environment[name] = pair.substr(equals + 1);
    }
  }
  environment["HOME"] = home;
  environment["PATH"] = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";
  environment["ENROOT_MOUNT_HOME"] = state.given[kMountHome] ? "y" : "n";
  environment["ENROOT_REMAP_ROOT"] = state.given[kRemapRoot] ? "y" : "n";
  environment["DLRUN_STAND_IN_SPOOL"] = spool_folder();
  return environment;
}

/// Returns the lines that `enroot list` prints with these options.
[[nodiscard]] Words enroot_list_lines(Words options,
                                      const std::map<std::string, std::string>& environment) {
  const int log = ::memfd_create("enroot", MFD_CLOEXEC);
  options.insert(options.begin(), {state.enroot, "list"});
  ::waitpid(spawn(options, environment, log), nullptr, 0);
  std::string text(1 << 16, '\0');
  const ssize_t size = ::pread(log, text.data(), text.size(), 0);
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  ::close(log);
  return split(text, '\n');
}

[[nodiscard]] bool container_exists(const std::string& name,
                                    const std::map<std::string, std::string>& environment) {
  const Words names = enroot_list_lines({}, environment);
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Returns the pid of a process in the container; "" if there is none.
[[nodiscard]] std::string pid_in(const std::string& name,
                                 const std::map<std::string, std::string>& environment) {
  for (const std::string& line : enroot_list_lines({"--fancy"}, environment)) {
    std::istringstream columns(line);
    std::string container, pid;
    if (columns >> container >> pid && container == name) return pid;
  }
  return "";
}

/// Creates the container, and returns true if enroot succeeds. step_id: JOB.STEP. An image that
/// starts with '/' or './' is a path; any other image is a name in a registry.
[[nodiscard]] bool create(const std::string& image, const std::string& step_id,
                          const std::map<std::string, std::string>& environment) {
  const std::string failure_message = "failed to create container filesystem for image: " + image;
  if (image.starts_with('/') || image.starts_with("./"))
    return run_enroot({"create", "--name", state.container, image}, environment, failure_message);
  const std::string file = "/tmp/pyxis-" + std::to_string(state.uid) + "-" + step_id + ".sqsh";
  const bool is_ok =
      run_enroot({"import", "--output", file, "docker://" + image}, environment,
                 "failed to import docker image: " + image) &&
      run_enroot({"create", "--name", state.container, file}, environment, failure_message);
  ::unlink(file.c_str());
  return is_ok;
}

/// Saves what the tasks need to enter the container of the process `pid`: opens its namespaces,
/// stores its current folder, and copies its environment into that of the tasks. Returns false if a
/// namespace cannot be opened.
[[nodiscard]] bool remember_container_of(spank_t sp, const std::string& pid) {
  const std::string proc = "/proc/" + pid;
  const Words names_from_job = split(state.given[kEnv].value_or(""), ',');
  char folder[4096] = "/";
  if (const auto size = ::readlink((proc + "/cwd").c_str(), folder, sizeof folder - 1); size > 0)
    state.folder.assign(folder, static_cast<std::size_t>(size));
  state.user_ns = ::open((proc + "/ns/user").c_str(), O_RDONLY | O_CLOEXEC);
  state.mount_ns = ::open((proc + "/ns/mnt").c_str(), O_RDONLY | O_CLOEXEC);
  // The image's value of a variable replaces the job's, except for the names in --container-env.
  if (FILE* file = std::fopen((proc + "/environ").c_str(), "r")) {
    char* line = nullptr;
    std::size_t size = 0;
    while (::getdelim(&line, &size, '\0', file) > 0) {
      char* equals = std::strchr(line, '=');
      if (equals == nullptr) continue;
      *equals = '\0';
      // enroot damages a value of several lines on its way into the container. The task therefore
      // keeps the job's own value of a name in --container-env, if the job has one.
      const bool is_from_job =
          std::find(names_from_job.begin(), names_from_job.end(), line) != names_from_job.end();
      if (!is_from_job || job_variable(sp, line).empty()) spank_setenv(sp, line, equals + 1, 1);
    }
    std::free(line);
    std::fclose(file);
  }
  return state.user_ns >= 0 && state.mount_ns >= 0;
}

/// Starts the container's shell, waits until the shell suspends itself (SIGSTOP), calls
/// remember_container_of() for it, and kills it.
[[nodiscard]] bool start(spank_t sp, const std::string& step_id,
                         const std::map<std::string, std::string>& environment) {
  // enroot runs hooks() of the file that --conf names. hooks() writes /etc/rc.local. The image's
  // start-up script sources rc.local, which replaces the entry point with the command.
  const std::string conf = "/tmp/pyxis-" + std::to_string(state.uid) + "-" + step_id + ".conf";
  FILE* script = std::fopen(conf.c_str(), "wx");
  const char* text = state.given[kEntrypoint]
                         ? "\n"
                         : "hooks() {\n  mkdir -p ${ENROOT_ROOTFS}/etc\n  echo 'exec \"$@\"' > "
                           "${ENROOT_ROOTFS}/etc/rc.local\n}\n";
  if (script == nullptr || std::fputs(text, script) < 0 || std::fclose(script) != 0) return false;
  Words words{state.enroot, "start", "--conf", conf};
  if (state.given[kWritable]) words.emplace_back("--rw");
  for (const std::string& mount : split(state.given[kMounts].value_or(""), ',')) {
    const auto word = mount_for_enroot(mount);
    if (!word) {
      ::unlink(conf.c_str());
      return false;
    }
    words.insert(words.end(), {"--mount", *word});
  }
  // MPI finds its PMIx server through these folders of the step.
  const std::string spool = spool_folder();
  for (const std::string& folder : {spool + "/pmix." + step_id, "/tmp/spmix_appdir_" + step_id}) {
    words.insert(words.end(), {"--mount", folder + ":" + folder + ":x-create=dir,bind,nofail"});
  }
  for (const std::string& name : split(state.given[kEnv].value_or(""), ','))
    words.insert(words.end(), {"--env", name});
  words.insert(words.end(), {state.container, "sh", "-c", "kill -STOP $$"});

  const int log = ::memfd_create("enroot", MFD_CLOEXEC);
  const pid_t pid = spawn(words, environment, log);
  int status = 0;
  const bool is_suspended =
      pid > 0 && ::waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status);
  ::unlink(conf.c_str());
  if (!is_suspended) {
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
      slurm_error("pyxis: container start failed with error code: %d", WEXITSTATUS(status));
    else
      slurm_error("pyxis: container exited too soon");
    print_log(log);
    ::close(log);
    return false;
  }
  ::close(log);
  const bool is_remembered = remember_container_of(sp, std::to_string(pid));
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  return is_remembered;
}

/// Fills `state` with what the tasks need to enter the step's container. With NAME:exec, the
/// container must be running. Otherwise starts the container, and creates it first unless a
/// container with the given name exists. Reports an error and returns false if that fails.
[[nodiscard]] bool prepare_container(spank_t sp) {
  std::uint32_t job = 0;
  std::uint32_t step = 0;
  spank_get_item(sp, S_JOB_ID, &job);
  spank_get_item(sp, S_JOB_STEPID, &step);
  spank_get_item(sp, S_JOB_UID, &state.uid);
  spank_get_item(sp, S_JOB_GID, &state.gid);
  const passwd* user = ::getpwuid(state.uid);
  const std::string step_id = std::to_string(job) + "." + std::to_string(step);
  const auto& environment = state.environment =
      enroot_environment(sp, user != nullptr ? user->pw_dir : "/");
  slurm_spank_log("pyxis stand-in of dlrun's testbed: %s",
                  state.given[kImage].value_or(state.given[kName].value_or("")).c_str());
  if (state.given[kName]) {
    const Words name = split(*state.given[kName], ':');
    state.container = "pyxis_" + name[0];
    if (name.size() > 1 && name[1] == "exec") {
      const std::string pid = pid_in(state.container, environment);
      if (pid.empty())
        slurm_error(
            "pyxis stand-in: \"exec\" flag was passed to --container-name but the container is not "
            "running");
      return !pid.empty() && remember_container_of(sp, pid);
    }
    if (container_exists(state.container, environment)) return start(sp, step_id, environment);
    if (!state.given[kImage]) {
      slurm_error(
          "pyxis stand-in: a container with name \"%s\" does not exist, and --container-image is "
          "not set",
          name[0].c_str());
      return false;
    }
  } else {
    state.container = "pyxis_" + step_id;
  }
  return create(*state.given[kImage], step_id, environment) && start(sp, step_id, environment);
}

[[nodiscard]] bool container_is_wanted() {
  return state.given[kImage] || state.given[kName];
}

}  // namespace

extern "C" {

int slurm_spank_init(spank_t sp, int argc, char** argv) {
  for (int i = 0; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word.starts_with("enroot=")) state.enroot = word.substr(7);
    if (word.starts_with("spool=")) state.spool = word.substr(6);
  }
  const auto context = spank_context();
  if (context != S_CTX_LOCAL && context != S_CTX_REMOTE && context != S_CTX_ALLOCATOR) return 0;
  for (std::size_t i = 0; i < kOptions.size(); ++i) {
    spank_option option{const_cast<char*>(kOptions[i].name),
                        const_cast<char*>(kOptions[i].argument),
                        const_cast<char*>("[pyxis stand-in] see pyxis"),
                        kOptions[i].argument != nullptr ? 1 : 0,
                        static_cast<int>(i),
                        take_option};
    if (const auto error = spank_option_register(sp, &option); error != ESPANK_SUCCESS) {
      slurm_error("pyxis stand-in: --%s: %s", kOptions[i].name, spank_strerror(error));
      return -1;
    }
  }
  return 0;
}

int slurm_spank_init_post_opt(spank_t sp, int, char**) {
  // Does not skip the batch script, because pyxis reads PYXIS_CONTAINER_IMAGE there, too.
  const auto context = spank_context();
  const char* own_image = context == S_CTX_REMOTE ? nullptr : std::getenv("PYXIS_CONTAINER_IMAGE");
  const std::string image = context == S_CTX_REMOTE ? job_variable(sp, "PYXIS_CONTAINER_IMAGE")
                            : own_image != nullptr  ? own_image
                                                    : "";
  if (!image.empty() && !state.given[kImage]) state.given[kImage] = image;
  if (container_is_wanted()) return 0;
  for (std::size_t i = 0; i < kOptions.size(); ++i) {
    if (state.given[i] && kOptions[i].argument != nullptr) {
      slurm_error("pyxis stand-in: --%s needs --container-image or --container-name",
                  kOptions[i].name);
      return -1;
    }
  }
  return 0;
}

int slurm_spank_user_init(spank_t sp, int, char**) {
  // srun does not report an error of this call; the tasks report it.
  if (container_is_wanted()) state.has_failed = !prepare_container(sp);
  return 0;
}

int slurm_spank_task_init_privileged(spank_t, int, char**) {
  return state.has_failed ? -1 : 0;
}

int slurm_spank_task_init(spank_t, int, char**) {
  if (state.container.empty()) return 0;
  if (::setns(state.user_ns, CLONE_NEWUSER) != 0 || ::setns(state.mount_ns, CLONE_NEWNS) != 0) {
    slurm_error("pyxis stand-in: the container could not be entered: %s", std::strerror(errno));
    return -1;
  }
  const std::string workdir = state.given[kWorkdir].value_or(state.folder);
  if (::chdir(workdir.c_str()) != 0) {
    slurm_error("pyxis: couldn't chdir to %s: %s", workdir.c_str(), std::strerror(errno));
    return -1;
  }
  return 0;
}

/// If --container-save is given, the task that ends last on the node saves the container.
int slurm_spank_task_exit(spank_t sp, int, char**) {
  static std::uint32_t ended_count = 0;
  std::uint32_t task_count = 0;
  spank_get_item(sp, S_JOB_LOCAL_TASK_COUNT, &task_count);
  if (state.container.empty() || !state.given[kSave] || state.has_failed ||
      ++ended_count != task_count)
    return 0;
  if (run_enroot({"export", "--force", "--output", *state.given[kSave], state.container},
                 state.environment))
    return 0;
  slurm_error("pyxis: failed to export container %s to %s", state.container.c_str(),
              state.given[kSave]->c_str());
  return -1;
}

int slurm_spank_exit(spank_t, int, char**) {
  if (spank_context() != S_CTX_REMOTE || state.container.empty()) return 0;
  const auto& environment = state.environment;
  const bool must_be_removed =
      !state.given[kName] && container_exists(state.container, environment);
  return must_be_removed && !run_enroot({"remove", "--force", state.container}, environment) ? -1
                                                                                             : 0;
}
}
