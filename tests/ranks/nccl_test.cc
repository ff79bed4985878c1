// Tests the nccl backend as far as possible without two GPUs: its refusal on a machine without a
// GPU, and a world of one rank on a machine with a GPU.

#include <string>
#include <vector>

#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include "runtime/bootstrap/memory_store.h"
#include "runtime/comm/make_communicator.h"
#include "tests/ranks/collective_checks.h"

namespace dlrun {

namespace {

bool has_gpu() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

}  // namespace

TEST_CASE("nccl: without a GPU the error names the cause and the remedy") {
  if (has_gpu()) {
    MESSAGE("skipped: this machine has a GPU");
    return;
  }
  MemoryStore store;
  CommunicatorOptions options;
  options.world = {.rank = 0, .size = 2};
  options.store = &store;
  const auto comm = make_communicator("nccl", options);
  REQUIRE_FALSE(comm);
  CHECK(comm.error().code == Errc::kUnavailable);
  CHECK(comm.error().message.find("no GPU") != std::string::npos);
  CHECK(comm.error().message.find("resources.gpus_per_node") != std::string::npos);
}

TEST_CASE(
    "nccl: in a world of one all collectives on host memory and an all-reduce on the compute "
    "stream are right") {
  if (!has_gpu()) {
    MESSAGE("skipped: this machine has no GPU");
    return;
  }
  auto comm = make_communicator("nccl", {});
  REQUIRE_MESSAGE(comm, (comm ? std::string() : comm.error().message));
  for (const std::string& failure : check_collectives(**comm)) FAIL_CHECK(failure);

  cudaStream_t compute = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking) == cudaSuccess);
  (*comm)->set_compute_stream(compute);
  constexpr std::size_t kCount = 1 << 20;
  float* device = nullptr;
  REQUIRE(cudaMalloc(&device, kCount * sizeof(float)) == cudaSuccess);
  const std::vector<float> values(kCount, 3.0F);
  std::vector<float> back(kCount);
  REQUIRE(cudaMemcpyAsync(device, values.data(), kCount * sizeof(float), cudaMemcpyHostToDevice,
                          compute) == cudaSuccess);
  auto request =
      (*comm)->start_all_reduce(Buffer(device, kCount, DataType::kFloat32), ReduceOp::kSum);
  REQUIRE(request);
  REQUIRE(request->wait());
  REQUIRE(cudaMemcpyAsync(back.data(), device, kCount * sizeof(float), cudaMemcpyDeviceToHost,
                          compute) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(compute) == cudaSuccess);
  CHECK(back == values);
  comm->reset();
  cudaFree(device);
  cudaStreamDestroy(compute);
}

}  // namespace dlrun
