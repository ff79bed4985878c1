#include "runtime/comm/single.h"

#include <cstring>

namespace dlrun {

namespace {

class SingleCommunicator final : public Communicator {
 public:
  [[nodiscard]] std::string_view name() const override { return "single"; }
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }

  Result<> all_reduce(Buffer /*data*/, ReduceOp /*op*/) override { return {}; }
  Result<Request> start_all_reduce(Buffer /*data*/, ReduceOp /*op*/) override { return Request(); }
  Result<> broadcast(Buffer /*data*/, int /*root*/) override { return {}; }
  Result<> all_gather(ConstBuffer mine, Buffer all) override {
    if (mine.count > 0) std::memmove(all.data, mine.data, mine.size_bytes());
    return {};
  }
  Result<> reduce_scatter(ConstBuffer all, Buffer mine, ReduceOp /*op*/) override {
    if (mine.count > 0) std::memmove(mine.data, all.data, mine.size_bytes());
    return {};
  }
  Result<> barrier() override { return {}; }
  Result<> check_results() override { return {}; }
  void abandon() override {}
};

}  // namespace

Result<std::unique_ptr<Communicator>> make_single_communicator(const CommunicatorOptions& options) {
  if (options.world.size != 1) {
    return fail(Errc::kInvalid,
                "the single backend is for one rank, but the world has {} ranks; use auto, shm, "
                "mpi, gloo or nccl",
                options.world.size);
  }
  return std::make_unique<SingleCommunicator>();
}

}  // namespace dlrun
