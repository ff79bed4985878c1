#include "runtime/bootstrap/store.h"

#include <fcntl.h>

#include "common/files.h"
#include "common/text.h"
#include "runtime/bootstrap/agent_store.h"
#include "runtime/bootstrap/file_store.h"

namespace dlrun {

Result<> Store::report_progress(std::string_view /*json_object*/) {
  return {};
}

Result<std::string> Store::own_address() {
  return std::string();
}

Result<std::unique_ptr<Store>> open_store(std::string_view where) {
  if (where.starts_with("fd:")) {
    const auto fd = parse_int(where.substr(3));
    if (!fd || *fd < 0 || *fd > 1'000'000) {
      return fail(Errc::kInvalid,
                  "DLRUN_STORE is '{}'; expected fd:N with the number of a descriptor",
                  printable(where));
    }
    if (::fcntl(static_cast<int>(*fd), F_GETFD) < 0) {
      return fail(Errc::kInvalid,
                  "DLRUN_STORE is '{}', but no such descriptor is open in this process",
                  printable(where));
    }
    return AgentStore::open(UniqueFd(static_cast<int>(*fd)));
  }
  if (where.starts_with("file:")) return FileStore::open(where.substr(5));
  return fail(Errc::kInvalid, "DLRUN_STORE is '{}'; expected fd:N or file:DIR", printable(where));
}

}  // namespace dlrun
