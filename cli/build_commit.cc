// This function has its own file, so that a new commit compiles only this file again.
#include "build_commit.h"

#include "cli/cli.h"

namespace dlrun {

std::string built_commit() {
  return kBuildCommit;
}

}  // namespace dlrun
