#pragma once
// A communicator that passes collectives on to another communicator.

#include <string_view>

#include "runtime/comm/communicator.h"

namespace dlrun {

/// Passes calls on to `inner`, which must outlive this object. set_compute_stream(),
/// advance_requests() and allocate_shared() keep the defaults of Communicator. Tests derive from
/// this class to change a call.
class ForwardingCommunicator : public Communicator {
 public:
  explicit ForwardingCommunicator(Communicator& inner) : inner_(inner) {}
  [[nodiscard]] std::string_view name() const override { return inner_.name(); }
  [[nodiscard]] int rank() const override { return inner_.rank(); }
  [[nodiscard]] int size() const override { return inner_.size(); }
  Result<> all_reduce(Buffer data, ReduceOp op) override { return inner_.all_reduce(data, op); }
  Result<Request> start_all_reduce(Buffer data, ReduceOp op) override {
    return inner_.start_all_reduce(data, op);
  }
  Result<> broadcast(Buffer data, int root) override { return inner_.broadcast(data, root); }
  Result<> all_gather(ConstBuffer mine, Buffer all) override {
    return inner_.all_gather(mine, all);
  }
  Result<> reduce_scatter(ConstBuffer all, Buffer mine, ReduceOp op) override {
    return inner_.reduce_scatter(all, mine, op);
  }
  Result<> barrier() override { return inner_.barrier(); }
  Result<> check_results() override { return inner_.check_results(); }
  void abandon() override { inner_.abandon(); }

 private:
  Communicator& inner_;
};

}  // namespace dlrun
