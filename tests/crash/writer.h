#pragma once
// One writer of files, its reader, and what must hold after a crash of the machine at any moment.

#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "tests/crash/lazy_disk.h"

namespace dlrun::crash {

struct Writer {
  /// Makes what is there, and kept, before. May be empty.
  std::function<void(const std::filesystem::path& folder)> prepare;
  /// Writes below folder. Marks on the disk what it has told its caller.
  std::function<Result<>(const std::filesystem::path& folder, LazyDisk& disk)> write;
  /// Reads what a crash has left and returns what is wrong with it; empty where all is well. marks:
  /// what had been told.
  std::function<std::string(const std::filesystem::path& folder,
                            const std::set<std::string>& marks)>
      wrong;
};

/// A guard without which nothing breaks, and why it is there all the same.
struct Spare {
  std::string_view guard;  ///< as LazyDisk::guards() has it
  std::string_view reason;
};

/// Checks that the reader finds all well whatever a crash leaves, and that it does not once any one
/// fsync, rename or link of the writer is taken out, but for those of spare.
void check_writer(const Writer& writer, const std::vector<Spare>& spare = {});

}  // namespace dlrun::crash
