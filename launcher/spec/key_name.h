#pragma once
// Names of keys in code: "resources.nodes"_key. A name that is not in the key table
// (launcher/spec/keys) does not compile.

#include <cstddef>
#include <string_view>

#include "key_names.h"  // generated from the table by cmake/key_names.cmake

namespace dlrun {

/// Explains a compile error by its name. The function is not constexpr, so that the compiler
/// refuses the call in _key below and shows the name.
const char* no_key_has_this_name();

/// Returns the name itself.
consteval const char* operator""_key(const char* name, std::size_t size) {
  for (const std::string_view known : kKeyNames) {
    if (known == std::string_view(name, size)) return name;
  }
  return no_key_has_this_name();
}

}  // namespace dlrun
