#pragma once
// A communicator that passes every call on to another one.

#include <string_view>

#include "runtime/comm/communicator.h"

namespace dlrun {

/// Passes every call on to `whole`, which must outlive it. Tests derive from it to change a call.
class ForwardingCommunicator : public Communicator {
 public:
  explicit ForwardingCommunicator(Communicator& whole) : whole_(whole) {}
  [[nodiscard]] std::string_view name() const override { return whole_.name(); }
  [[nodiscard]] int rank() const override { return whole_.rank(); }
  [[nodiscard]] int size() const override { return whole_.size(); }
  Result<> all_reduce(Buffer data, ReduceOp op) override { return whole_.all_reduce(data, op); }
  Result<Request> start_all_reduce(Buffer data, ReduceOp op) override {
    return whole_.start_all_reduce(data, op);
  }
  Result<> broadcast(Buffer data, int root) override { return whole_.broadcast(data, root); }
  Result<> all_gather(ConstBuffer mine, Buffer all) override {
    return whole_.all_gather(mine, all);
  }
  Result<> reduce_scatter(ConstBuffer all, Buffer mine, ReduceOp op) override {
    return whole_.reduce_scatter(all, mine, op);
  }
  Result<> barrier() override { return whole_.barrier(); }
  Result<> check_settled() override { return whole_.check_settled(); }
  void abandon() override { whole_.abandon(); }

 private:
  Communicator& whole_;
};

}  // namespace dlrun
