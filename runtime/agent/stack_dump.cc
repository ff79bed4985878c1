#include "runtime/agent/stack_dump.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <system_error>
#include <tuple>

#include <fmt/format.h>

#include "common/files.h"
#include "common/subprocess.h"
#include "common/text.h"

namespace dlrun::agent {
namespace {

constexpr std::size_t kOutputLimitBytes = 1U << 20U;
/// If less time is left, gdb does not dump the native stacks.
constexpr std::chrono::milliseconds kLeastGdbTime{200};
constexpr std::size_t kMapsLimitBytes = 16U << 20U;
constexpr int kOpenFlags = 01 | 0100 | 02000;  // O_WRONLY | O_CREAT | O_APPEND, for gdb
constexpr int kOpenMode = 0600;

std::string file_name(std::string_view path) {
  const auto slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

/// Runs a tool and returns its output; nullopt if there is none. Ignores the exit code, because gdb
/// fails if one of its commands fails.
std::optional<std::string> run(std::vector<std::string> argv, const Env& env,
                               std::chrono::milliseconds limit) {
  Command command;
  command.argv = std::move(argv);
  command.env = env;
  command.timeout = limit;
  command.output_limit_bytes = kOutputLimitBytes;
  auto finished = run_command(command);
  if (!finished || finished->out.empty()) return std::nullopt;
  return std::move(finished->out);
}

/// Returns true if the process contains the Python interpreter, as its program or as a library.
bool runs_python(pid_t pid) {
  std::error_code error;
  const auto folder = std::filesystem::path("/proc") / std::to_string(pid);
  const auto program = std::filesystem::read_symlink(folder / "exe", error);
  if (program.filename().string().starts_with("python")) return true;
  const auto maps = read_file(folder / "maps", kMapsLimitBytes);
  return maps && maps->find("/libpython") != std::string::npos;
}

/// Returns the command line of gdb attached to pid. Its settings prevent gdb from running scripts
/// in the program's folders and from downloading symbols.
std::vector<std::string> gdb_argv(pid_t pid, std::initializer_list<const char*> settings) {
  std::vector<std::string> argv{"gdb", "-nx", "-batch"};
  for (const char* setting : {"auto-load python-scripts off", "auto-load gdb-scripts off",
                              "debuginfod enabled off", "pagination off", "confirm off"})
    argv.insert(argv.end(), {"-iex", fmt::format("set {}", setting)});
  for (const char* setting : settings)
    argv.insert(argv.end(), {"-iex", fmt::format("set {}", setting)});
  argv.insert(argv.end(), {"-p", std::to_string(pid)});
  return argv;
}

/// Commands of gdb that make a Python interpreter write the stacks of its threads into a file.
struct PythonStackCommands {
  std::vector<std::string> save{};  ///< save the registers of the thread
  /// Call functions in the process. If one of these commands fails, gdb must run none of the
  /// following ones: the thread would continue with wrong registers.
  std::vector<std::string> calls{};
  std::vector<std::string> restore{};  ///< restore the registers, also after a failure
};

#if defined(__x86_64__)
/// Appends a command that sets a register of the interrupted thread. A change of the stack pointer
/// can make gdb select another frame if libc has no debug information; gdb then sets the copy of
/// the register that belongs to that frame. Therefore the innermost frame is selected first.
void add_register(std::vector<std::string>& commands, std::string_view name,
                  std::string_view value) {
  commands.emplace_back("select-frame 0");
  commands.push_back(fmt::format("set ${}={}", name, value));
}

/// Appends commands that call a function of three integer arguments in the process, on the stack
/// below $room, and leave its result in $rax. The commands write single registers, because gdb's
/// own `call` also writes the vector registers, which fails in gdb 13 on processors with AMX. The
/// system call that gdb interrupted would then not be restarted, and the process would abort.
void add_call(std::vector<std::string>& commands, std::string_view function,
              const std::array<std::string, 3>& arguments) {
  constexpr std::array kRegisters{"rdi", "rsi", "rdx"};
  for (std::size_t i = 0; i < arguments.size(); ++i)
    add_register(commands, kRegisters.at(i), arguments.at(i));
  add_register(commands, "rsp", "$room-8");
  commands.emplace_back("set *(long *)($room-8)=(long)$old_rip");
  add_register(commands, "orig_rax", "-1");
  add_register(commands, "rax", "0");
  add_register(commands, "rip", function);
  commands.emplace_back("tbreak *(long)$old_rip");  // the call returns to the thread's old position
  commands.emplace_back("continue");
}

/// Returns the text as a string literal of gdb that has exactly these bytes.
std::string gdb_literal(std::string_view text) {
  std::string literal = "\"";
  for (const char c : text) literal += fmt::format("\\{:03o}", static_cast<unsigned char>(c));
  return literal + '"';
}

PythonStackCommands python_stack_commands(const std::filesystem::path& scratch) {
  constexpr std::array kSaved{"rax", "rcx", "rdx", "rsi", "rdi",    "r8",      "r9",
                              "r10", "r11", "rsp", "rip", "eflags", "orig_rax"};
  constexpr int kRedZone = 128;  // bytes below the stack pointer that the thread may use
  PythonStackCommands commands;
  for (const char* name : kSaved) {
    commands.save.push_back(fmt::format("set $old_{0}=${0}", name));
    add_register(commands.restore, name, fmt::format("$old_{}", name));
  }
  // These commands fail if a function has no symbol. They come first: no register has changed yet.
  commands.calls = {"set $open=(long)&open", "set $dump=(long)&_Py_DumpTracebackThreads"};
  const std::string path = scratch.string();
  const std::size_t size = path.size() + 1;
  commands.calls.push_back(fmt::format("set $room=((long)$old_rsp-{})&~15", kRedZone + size));
  commands.calls.push_back(fmt::format("set var *(char (*)[{}])$room={}", size, gdb_literal(path)));
  add_call(commands.calls, "$open",
           {"$room", std::to_string(kOpenFlags), std::to_string(kOpenMode)});
  add_call(commands.calls, "$dump", {"$rax", "0", "0"});
  return commands;
}
#else
PythonStackCommands python_stack_commands(const std::filesystem::path& scratch) {
  return {
      .calls = {fmt::format("set $fd = ((int (*)(const char *, int, int))open)(\"{}\", {}, {})",
                            scratch.string(), kOpenFlags, kOpenMode),
                "call (void)((const char *(*)(int, void *, void *))_Py_DumpTracebackThreads)($fd, "
                "0, 0)"}};
}
#endif

/// Makes a Python interpreter write the stacks of its threads into scratch. gdb calls the function
/// that faulthandler uses. This function takes no lock and allocates no memory, so the call is safe
/// in a hung process. gdb loads only the symbols of libc and libpython. gdb therefore needs only a
/// third of a second, even for a program as large as torch.
void write_python_stacks(pid_t pid, const Env& env, const std::filesystem::path& scratch,
                         std::chrono::milliseconds limit) {
  auto commands = python_stack_commands(scratch);
  // gdb ends a script at the first command that fails, but continues after a failed -ex.
  auto script = scratch;
  script += ".gdb";
  auto argv = gdb_argv(pid, {"auto-solib-add off"});
  for (const char* command :
       {"sharedlibrary libc\\.", "sharedlibrary libpython", "set scheduler-locking on"})
    argv.insert(argv.end(), {"-ex", command});
  for (auto& command : commands.save) argv.insert(argv.end(), {"-ex", std::move(command)});
  argv.insert(argv.end(), {"-x", script.string()});
  for (auto& command : commands.restore) argv.insert(argv.end(), {"-ex", std::move(command)});
  if (write_file_atomic(script, join(commands.calls, "\n") + '\n'))
    std::ignore = run(std::move(argv), env, limit);
  std::error_code ignored;
  std::filesystem::remove(script, ignored);
}

}  // namespace

std::vector<std::string> frames_of_py_spy(std::string_view text) {
  std::vector<std::string> first_thread;
  std::vector<std::string> frames;
  bool is_main = false;
  bool has_thread = false;
  for (const auto line : split(text, '\n')) {
    if (line.starts_with("Thread ")) {
      if (is_main) break;
      if (has_thread && first_thread.empty()) first_thread = frames;
      has_thread = true;
      is_main = line.find("\"MainThread\"") != std::string_view::npos;
      frames.clear();
    } else if (has_thread && line.starts_with("    ") && !trim(line).empty()) {
      frames.push_back(printable(trim(line)));
    }
  }
  return is_main || first_thread.empty() ? frames : first_thread;
}

std::vector<std::string> frames_of_faulthandler(std::string_view text) {
  std::vector<std::string> frames;
  for (const auto line : split(text, '\n')) {
    if (!line.starts_with(' ')) {  // such as "Thread 0x..." or "Current thread 0x..."
      if (line.find("hread 0x") != std::string_view::npos) frames.clear();
      continue;
    }
    // File "/usr/lib/python3.11/threading.py", line 320 in wait
    const auto open = line.find('"');
    const auto close = line.rfind("\", line ");
    const auto in = line.rfind(" in ");
    if (open == std::string_view::npos || close == std::string_view::npos ||
        in == std::string_view::npos || close <= open || in <= close)
      continue;
    const auto number = line.substr(close + 8, in - close - 8);
    frames.push_back(
        printable(fmt::format("{} ({}:{})", trim(line.substr(in + 4)),
                              file_name(line.substr(open + 1, close - open - 1)), number)));
  }
  return frames;
}

std::vector<std::string> frames_of_gdb(std::string_view text) {
  std::vector<std::string> frames;
  bool is_main = false;
  for (const auto line : split(text, '\n')) {
    if (line.starts_with("Thread ")) is_main = line.starts_with("Thread 1 ");
    if (!is_main || !line.starts_with('#')) continue;
    // #1  0x00007ff4453a6ee2 in time_sleep (timeout=...) at ./Modules/timemodule.c:383
    auto rest = trim(line.substr(std::min(line.find(' '), line.size())));
    if (rest.starts_with("0x")) {
      const auto in = rest.find(" in ");
      if (in == std::string_view::npos) continue;
      rest = rest.substr(in + 4);
    }
    frames.push_back(printable(trim(rest.substr(0, rest.find(" (")))));
  }
  return frames;
}

namespace {

StackDump dump_with_gdb(pid_t pid, const Env& env, const std::filesystem::path& scratch,
                        std::chrono::milliseconds limit) {
  using std::chrono::steady_clock;
  const auto until = steady_clock::now() + limit;
  StackDump dump;
  if (runs_python(pid)) {
    write_python_stacks(pid, env, scratch, limit);
    const auto python = read_file(scratch, kOutputLimitBytes);
    std::error_code ignored;
    std::filesystem::remove(scratch, ignored);
    if (python) dump.frames = frames_of_faulthandler(*python);
    dump.is_python = !dump.frames.empty();
    if (python && !python->empty())
      dump.text += "Python's stacks, the innermost call first:\n" + *python;
  }
  auto argv = gdb_argv(pid, {});
  argv.insert(argv.end(), {"-ex", "thread apply all backtrace 40"});
  const auto left = std::chrono::floor<std::chrono::milliseconds>(until - steady_clock::now());
  const auto native = left > kLeastGdbTime ? run(std::move(argv), env, left) : std::nullopt;
  if (native && !dump.is_python) dump.frames = frames_of_gdb(*native);
  dump.text += native ? "native stacks:\n" + *native
                      : std::string("no native stacks: gdb could not attach, or took too long\n");
  return dump;
}

}  // namespace

StackDump dump_stacks(pid_t pid, const Env& env, const std::filesystem::path& scratch,
                      std::chrono::milliseconds limit) {
  const bool has_py_spy = find_program("py-spy", env).has_value();
  if (has_py_spy && runs_python(pid)) {
    if (auto text = run({"py-spy", "dump", "--pid", std::to_string(pid)}, env, limit)) {
      StackDump dump{.text = std::move(*text)};
      dump.frames = frames_of_py_spy(dump.text);
      dump.is_python = !dump.frames.empty();
      if (dump.is_python) return dump;
    }
  }
  if (find_program("gdb", env)) return dump_with_gdb(pid, env, scratch, limit);
  if (has_py_spy)
    return {.text = "no stacks: py-spy shows none of this process, and gdb is not in PATH here\n"};
  return {.text = "no stacks: neither py-spy nor gdb is in PATH here\n"};
}

}  // namespace dlrun::agent
