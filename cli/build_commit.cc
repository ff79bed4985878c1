// built_commit() has a file of its own, so that after a new commit the build compiles only this
// file again.
#include "build_commit.h"

#include "cli/cli.h"

namespace dlrun {

std::string built_commit() {
  return kBuildCommit;
}

}  // namespace dlrun
