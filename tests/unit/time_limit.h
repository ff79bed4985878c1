#pragma once
// Bounds on the processor time that a test allows its work.

namespace dlrun {

/// Returns the bound in seconds: limit_s, or twelve times as much in a build with a sanitizer,
/// which is compiled without optimisation.
constexpr double time_limit(double limit_s) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return 12 * limit_s;
#else
  return limit_s;
#endif
}

}  // namespace dlrun
