#pragma once
// Dumps the stacks of a process with py-spy or gdb, if the node (or the image) has one of them.
// Attaching stops the process for a moment, so dump_stacks() is only for programs that are about to
// be ended.

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"

namespace dlrun::agent {

struct StackDump {
  std::string text{};  ///< for the user: the tool's output, or why there is none
  /// Frames of the main thread, innermost first, such as "wait (threading.py:320)".
  std::vector<std::string> frames{};
  bool is_python = false;  ///< the frames are Python's
};

/// Dumps the stacks of pid. Prefers the Python frames of a Python program. These come from py-spy.
/// Without py-spy, gdb makes the interpreter write them into the file `scratch`. This function
/// removes `scratch`, and the script `scratch`.gdb beside it. Native frames come from gdb. `limit`
/// is the time for py-spy, and again for gdb if py-spy shows no frames. Returns no frames if
/// neither tool is installed, if the kernel forbids attaching, or if the time is too short.
[[nodiscard]] StackDump dump_stacks(pid_t pid, const Env& env, const std::filesystem::path& scratch,
                                    std::chrono::milliseconds limit);

/// Returns the main thread's frames in the output of `py-spy dump`; those of the first thread if no
/// thread has the name MainThread.
[[nodiscard]] std::vector<std::string> frames_of_py_spy(std::string_view text);
/// Returns the main thread's frames in the output of Python's faulthandler, which lists this thread
/// last.
[[nodiscard]] std::vector<std::string> frames_of_faulthandler(std::string_view text);
/// Returns the frames of thread 1 in the output of gdb's `thread apply all backtrace`, without
/// addresses and arguments.
[[nodiscard]] std::vector<std::string> frames_of_gdb(std::string_view text);

}  // namespace dlrun::agent
