#pragma once
// A node and a shared folder for tests of staging and of collecting outputs.

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "common/env.h"
#include "common/files.h"
#include "runtime/agent/copy_report.h"
#include "runtime/agent/output_copying.h"
#include "runtime/agent/staging.h"
#include "tests/temporary_directory.h"

namespace dlrun::agent {

/// The folders of a scene. Only one node sees `node`, whose path is in $NODE. All nodes see
/// `shared` and `run`, the folder of a run.
struct NodeScene {
  TemporaryDirectory top;
  Env env = Env::of_process();
  std::filesystem::path node = top / "node", shared = top / "shared", run = top / "run";

  NodeScene() {
    for (const auto& folder : {node, shared, run}) std::filesystem::create_directory(folder);
    env.set("NODE", node.string());
  }
  static void write(const std::filesystem::path& path, const std::string& text) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  static std::string text(const std::filesystem::path& path) {
    return read_file(path, 1U << 20U).value_or("(unreadable)");
  }
  /// Sets the modification time of a file to `by` before now.
  static void backdate(const std::filesystem::path& path, std::chrono::seconds by) {
    std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() - by);
  }
  /// Stages the file or folder `from` of `shared` as $NODE/data. unpacks: `from` is an archive,
  /// which is unpacked. nnodes: see StageOptions.
  [[nodiscard]] CopyReport stage(const std::string& from, bool unpacks = false,
                                 int nnodes = 1) const {
    return stage_data({{{(shared / from).string(), "$NODE/data", unpacks}}, nnodes}, env);
  }
  /// Collects $NODE/ckpt to the folder `out` of the run. is_last, incomplete_since: see
  /// CollectOptions. limit: the longest time of the copy.
  [[nodiscard]] CopyReport collect(bool is_last,
                                   std::optional<std::chrono::milliseconds> incomplete_since = {},
                                   std::chrono::seconds limit = std::chrono::seconds(60)) const {
    return collect_outputs({.items = {{"$NODE/ckpt", "out", std::nullopt, limit}},
                            .run = run,
                            .is_last = is_last,
                            .incomplete_since = incomplete_since},
                           env);
  }
};

}  // namespace dlrun::agent
