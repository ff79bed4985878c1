#pragma once
// Loads specs that must be accepted, and specs that must be refused.

#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "launcher/spec/load.h"

namespace dlrun {

/// Loads a spec. Fails the test if the spec is refused.
inline LoadedSpec loaded(const LoadRequest& request) {
  auto result = load_spec(request);
  if (!result) FAIL(format_diagnostics(result.error()));
  return std::move(*result);
}

/// Loads a spec that must be refused, and returns the diagnostics. Fails the test if the spec is
/// accepted.
inline std::string refused(const LoadRequest& request) {
  const auto result = load_spec(request);
  REQUIRE_FALSE(result.has_value());
  return format_diagnostics(result.error());
}

}  // namespace dlrun
