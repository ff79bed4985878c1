#pragma once
// The rule that finds the user and the password in an address. The log, messages about specs,
// `dlrun init --from` and the check of downloads share this rule.

#include <string_view>

namespace dlrun {

/// The kind of text from which an address comes.
enum class AddressSource {
  kScript,  ///< $NAME is a variable, so https://host:$PORT/a@b has no user
  kLog,     ///< $ is a character like others
};

/// Returns the user, password, host and port of an address together, such as user:password@host:80;
/// the host and port alone if there is no user. Usually this is the part before the path. The
/// result is longer if a password has '/', '?' or '#', as in https://user:pass/word@host. A
/// password of at most five digits before a '/' counts as a port. address: the text after "://".
[[nodiscard]] std::string_view user_and_host_in(std::string_view address, AddressSource source);

/// Returns true if the address has a user, by the rule of user_and_host_in(). Quotes and '$' count
/// as characters of a password. address: the text after "://", up to the end of the address.
[[nodiscard]] bool has_user(std::string_view address);

}  // namespace dlrun
