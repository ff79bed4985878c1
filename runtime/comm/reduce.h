#pragma once
// Element-wise reductions on the CPU, for backends that reduce in their own code.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "runtime/comm/communicator.h"

namespace dlrun {

/// Returns function(T{}), where T is the C++ type of elements of `type`.
template <typename Function>
decltype(auto) with_type(DataType type, Function&& function) {
  switch (type) {
    case DataType::kUint8:
      return function(std::uint8_t{});
    case DataType::kInt64:
      return function(std::int64_t{});
    case DataType::kUint64:
      return function(std::uint64_t{});
    case DataType::kFloat32:
      return function(float{});
    case DataType::kFloat16:
      return function(Float16{});
    case DataType::kBfloat16:
      return function(Bfloat16{});
    case DataType::kFloat64:
      break;
  }
  return function(double{});
}

/// Computes out[i] = op(a[i], b[i]) for i < n. out may be a or b.
template <typename T>
void combine(ReduceOp op, T* out, const T* a, const T* b, std::size_t n) {
  switch (op) {
    case ReduceOp::kSum:
      for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<T>(a[i] + b[i]);
      return;
    case ReduceOp::kMin:
      for (std::size_t i = 0; i < n; ++i) out[i] = std::min(a[i], b[i]);
      return;
    case ReduceOp::kMax:
      for (std::size_t i = 0; i < n; ++i) out[i] = std::max(a[i], b[i]);
      return;
  }
}

}  // namespace dlrun
