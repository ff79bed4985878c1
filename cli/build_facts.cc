// This function has its own file, so that only this file is compiled again after a commit.
#include "cli/cli.h"
#include "commit.h"

namespace dlrun {

std::string built_from() {
#ifdef DLRUN_IS_PORTABLE
  return kBuiltCommit + std::string(", " DLRUN_BUILD_TYPE ", portable");
#else
  return kBuiltCommit + std::string(", " DLRUN_BUILD_TYPE);
#endif
}

}  // namespace dlrun
