#include "common/url_user.h"

#include <algorithm>
#include <string>

namespace dlrun {
namespace {

/// Returns true if the text after the colon of an address is a port, or a variable in a script. The
/// text before the colon is then a host, not a user.
bool is_port(std::string_view text, AddressSource source) {
  constexpr std::size_t kLongestPort = 5;
  if (text.starts_with('$')) return source == AddressSource::kScript;
  return text.size() <= kLongestPort &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

std::string_view user_and_host_in(std::string_view address, AddressSource source) {
  const auto authority = address.substr(0, address.find_first_of("/?#\"'"));
  const auto colon = authority.find(':');
  const bool may_end_inside_password =
      colon != std::string_view::npos && authority.find('@') == std::string_view::npos &&
      !authority.starts_with('[') && !is_port(authority.substr(colon + 1), source);
  if (!may_end_inside_password) return authority;
  auto whole = address.substr(0, address.find("://"));  // another address starts there
  whole = whole.substr(0, whole.find_first_of("\"'"));
  const auto at = whole.rfind('@');
  return at == std::string_view::npos ? authority : whole.substr(0, whole.find_first_of("/?#", at));
}

bool has_user(std::string_view address) {
  std::string quotes_replaced(address);
  std::replace_if(
      quotes_replaced.begin(), quotes_replaced.end(), [](char c) { return c == '"' || c == '\''; },
      '_');
  return user_and_host_in(quotes_replaced, AddressSource::kLog).find('@') != std::string_view::npos;
}

}  // namespace dlrun
