#pragma once
// The user and the password in an address. The log, messages about specs and `dlrun init --from`
// share this rule.

#include <string_view>

namespace dlrun {

/// Returns the part of an address that may have a user before its last '@': the part before the
/// path, or more if a password has '/', '?' or '#', as in https://user:pass/word@host.
/// address: the text after "://".
[[nodiscard]] std::string_view user_and_host_in(std::string_view address);

}  // namespace dlrun
