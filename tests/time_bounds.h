#pragma once
// Bounds on the time that the code under test may take.

#include <chrono>

namespace dlrun {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kWithSanitizer = true;
#elif defined(__has_feature)  // clang
inline constexpr bool kWithSanitizer =
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
inline constexpr bool kWithSanitizer = false;
#endif

/// Returns the bound on processor time in seconds: limit_s, or twelve times as much in a build with
/// a sanitizer, because the sanitizer makes the code slower and such a build is not optimised.
constexpr double cpu_limit_s(double limit_s) {
  return kWithSanitizer ? 12 * limit_s : limit_s;
}

/// Returns the bound on the time by the clock: limit, or five times as much in a build with a
/// sanitizer. Most of that time is spent waiting, which a sanitizer does not slow down.
template <class Duration>
constexpr Duration wall_limit(Duration limit) {
  return kWithSanitizer ? 5 * limit : limit;
}

}  // namespace dlrun
