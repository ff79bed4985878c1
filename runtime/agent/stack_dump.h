#pragma once
// The stacks of a process by py-spy or gdb, whichever the node (or the image) has. Attaching stops
// the process for a moment, so this is for programs that are about to be ended.

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/env.h"

namespace dlrun::agent {

struct StackDump {
  std::string text{};  ///< for people: what the tool printed, or why there is nothing
  std::vector<std::string>
      frames{};            ///< of the main thread, the innermost first: "wait (threading.py:320)"
  bool is_python = false;  ///< the frames are Python's
};

/// Takes the stacks of pid. A Python program's own frames are wanted first: from py-spy, else from
/// the interpreter itself, which gdb asks for them (scratch: a file that both may write; it is
/// removed). Native frames come from gdb. Returns no frames where neither tool is there, where the
/// kernel does not allow to attach, or after `limit`.
[[nodiscard]] StackDump dump_stacks(pid_t pid, const Env& env, const std::filesystem::path& scratch,
                                    std::chrono::milliseconds limit);

/// The main thread's frames in what `py-spy dump` printed.
[[nodiscard]] std::vector<std::string> frames_of_py_spy(std::string_view text);
/// The main thread's frames in what Python's faulthandler writes: the last thread of the text.
[[nodiscard]] std::vector<std::string> frames_of_faulthandler(std::string_view text);
/// The frames of thread 1 in what gdb's `thread apply all backtrace` printed, without addresses and
/// arguments.
[[nodiscard]] std::vector<std::string> frames_of_gdb(std::string_view text);

}  // namespace dlrun::agent
