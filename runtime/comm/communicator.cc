#include "runtime/comm/communicator.h"

#include <utility>

namespace dlrun {

std::string_view to_string(DataType type) {
  switch (type) {
    case DataType::kUint8:
      return "uint8";
    case DataType::kInt64:
      return "int64";
    case DataType::kUint64:
      return "uint64";
    case DataType::kFloat32:
      return "float32";
    case DataType::kFloat64:
      return "float64";
    case DataType::kFloat16:
      return "float16";
    case DataType::kBfloat16:
      return "bfloat16";
  }
  return "unknown type";
}

std::string_view to_string(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kMax:
      return "max";
  }
  return "unknown operation";
}

Request& Request::operator=(Request&& other) noexcept {
  if (this != &other) {
    (void)wait();
    state_ = std::move(other.state_);
  }
  return *this;
}

Request::~Request() {
  (void)wait();
}

Result<> Request::wait() {
  if (!state_) return {};
  const std::unique_ptr<State> state = std::move(state_);
  return state->finish();
}

}  // namespace dlrun
