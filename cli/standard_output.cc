#include "cli/standard_output.h"

#include <cstdio>
#include <system_error>

namespace dlrun {

bool is_all_printed() {
  return std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
}

Result<> print_or_say(const std::function<void()>& print, const std::string& instead) {
  try {
    print();
  } catch (const std::system_error&) {  // fmt's, where nothing is buffered
    return fail(Errc::kIo, "standard output could not be written whole: {}", instead);
  }
  if (!is_all_printed()) return fail(Errc::kIo, "standard output could not be written whole: {}", instead);
  return {};
}

}  // namespace dlrun
