#pragma once
// A fuzz target reads bytes that nobody vouches for. libFuzzer calls it with bytes of its own
// making (scripts/fuzz), replay.cc with those of corpus/NAME, in every test run and with every
// compiler.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace dlrun::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// What must hold of every input. libFuzzer keeps the bytes of one that ends here.
inline void expect(bool holds, std::string_view what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: does not hold: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

}  // namespace dlrun::fuzz
