#include "runtime/trainer/parallel/gradient_reducer.h"

#include <span>
#include <utility>

#include "runtime/trainer/parallel/device_collectives.h"

namespace dlrun::trainer {

GradientReducer::GradientReducer(Communicator& communicator, Kernels<float>& kernels, Network<float>& network,
                                 const Options& options)
    : communicator_(communicator), kernels_(kernels), gradients_(network.gradients_and_extra().data()) {
  const bool needs_staging = !reads_device_memory(communicator, kernels);
  std::size_t end = network.gradients_and_extra().size();
  for (std::size_t layer = network.layers(); layer-- > 0;) {
    const std::size_t begin = network.first(layer);
    const std::size_t limit = buckets_.empty() ? options.first_bucket_bytes : options.bucket_bytes;
    const bool is_full = (end - begin) * sizeof(float) >= limit;
    if (begin == end || (!is_full && layer > 0)) continue;
    Bucket bucket;
    bucket.begin = begin;
    bucket.end = end;
    bucket.last_layer = layer;
    if (needs_staging) bucket.staging.resize(end - begin);
    buckets_.push_back(std::move(bucket));
    end = begin;
  }
}

void GradientReducer::layer_done(std::size_t layer) {
  communicator_.progress();
  if (!status_ || next_ == buckets_.size() || buckets_[next_].last_layer != layer) return;
  status_ = start(buckets_[next_++]);
}

Result<> GradientReducer::start(Bucket& bucket) {
  std::span<float> sum(gradients_ + bucket.begin, bucket.end - bucket.begin);
  if (!bucket.staging.empty()) {
    kernels_.copy_to_host(bucket.staging.data(), sum.data(), sum.size_bytes());
    sum = bucket.staging;
  }
  auto request = communicator_.start_all_reduce(sum, ReduceOp::kSum);
  if (!request) return tl::unexpected(request.error());
  bucket.request = std::move(*request);
  return {};
}

Result<> GradientReducer::wait() {
  next_ = 0;
  DLRUN_TRY(std::exchange(status_, {}));
  for (Bucket& bucket : buckets_) {
    DLRUN_TRY(bucket.request.wait());
    if (!bucket.staging.empty()) {
      kernels_.copy_from_host(gradients_ + bucket.begin, bucket.staging.data(), bucket.staging.size() * sizeof(float));
    }
  }
  return {};
}

}  // namespace dlrun::trainer
