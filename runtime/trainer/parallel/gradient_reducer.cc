// layer_done() starts the all-reduce of each full bucket during backward. wait() waits until
// all buckets are summed, and widens compressed buckets.

#include "runtime/trainer/parallel/gradient_reducer.h"

#include <span>
#include <utility>

#include "runtime/trainer/parallel/array_collectives.h"

namespace dlrun::trainer {

namespace {

/// Compresses `from` into `to` and returns `to` as a buffer of 16-bit floats.
template <typename T>
Buffer compress(std::span<const float> from, std::vector<std::uint16_t>& to) {
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = T(from[i]).bits;
  return {to.data(), to.size(), kDataTypeOf<T>};
}

template <typename T>
void widen(const std::vector<std::uint16_t>& from, std::span<float> to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    T value;
    value.bits = from[i];
    to[i] = value;
  }
}

}  // namespace

GradientReducer::GradientReducer(Communicator& communicator, Kernels<float>& kernels,
                                 Network<float>& network, const Options& options)
    : communicator_(communicator),
      kernels_(kernels),
      gradients_(network.gradients_and_step_sums().data()),
      compression_(options.compression) {
  const bool is_compressed = compression_ != Compression::kNone;
  std::size_t end = network.gradients_and_step_sums().size();
  if (is_compressed) {
    add_bucket(network.gradients().size(), end, network.layer_count() - 1, false);
    end = network.gradients().size();
  }
  bool is_first = true;
  for (std::size_t layer = network.layer_count(); layer-- > 0;) {
    const std::size_t begin = network.first_element_of(layer);
    const std::size_t limit = is_first ? options.first_bucket_bytes : options.bucket_bytes;
    const bool is_full = (end - begin) * sizeof(float) >= limit;
    if (begin == end || (!is_full && layer > 0)) continue;
    add_bucket(begin, end, layer, is_compressed);
    end = begin;
    is_first = false;
  }
}

void GradientReducer::add_bucket(std::size_t begin, std::size_t end, std::size_t lowest_layer,
                                 bool is_compressed) {
  Bucket bucket;
  bucket.begin = begin;
  bucket.end = end;
  bucket.lowest_layer = lowest_layer;
  const bool needs_staging = !kernels_.uses_host_memory() &&
                             (is_compressed || !can_use_memory_of(communicator_, kernels_));
  if (needs_staging) bucket.staging.resize(end - begin);
  if (is_compressed) bucket.compressed.resize(end - begin);
  buckets_.push_back(std::move(bucket));
}

void GradientReducer::layer_done(std::size_t layer) {
  communicator_.advance_requests();
  while (status_ && next_bucket_ < buckets_.size() && buckets_[next_bucket_].lowest_layer == layer)
    status_ = start(buckets_[next_bucket_++]);
}

Result<> GradientReducer::start(Bucket& bucket) {
  std::span<float> values(gradients_ + bucket.begin, bucket.end - bucket.begin);
  if (!bucket.staging.empty()) {
    kernels_.copy_to_host(bucket.staging.data(), values.data(), values.size_bytes());
    values = bucket.staging;
  }
  Buffer buffer(values);
  if (!bucket.compressed.empty()) {
    buffer = compression_ == Compression::kFloat16 ? compress<Float16>(values, bucket.compressed)
                                                   : compress<Bfloat16>(values, bucket.compressed);
  }
  bucket.timing.bytes = buffer.size_bytes();
  bucket.timing.begin = std::chrono::steady_clock::now();
  DLRUN_TRY_ASSIGN(bucket.request, communicator_.start_all_reduce(buffer, ReduceOp::kSum));
  return {};
}

Result<> GradientReducer::wait() {
  next_bucket_ = 0;
  DLRUN_TRY(std::exchange(status_, {}));
  for (Bucket& bucket : buckets_) {
    DLRUN_TRY(bucket.request.wait());
    bucket.timing.end = std::chrono::steady_clock::now();
    float* const gradients = gradients_ + bucket.begin;
    if (!bucket.compressed.empty()) {
      const std::span<float> sum(bucket.staging.empty() ? gradients : bucket.staging.data(),
                                 bucket.end - bucket.begin);
      if (compression_ == Compression::kFloat16) {
        widen<Float16>(bucket.compressed, sum);
      } else {
        widen<Bfloat16>(bucket.compressed, sum);
      }
    }
    if (!bucket.staging.empty())
      kernels_.copy_from_host(gradients, bucket.staging.data(),
                              bucket.staging.size() * sizeof(float));
  }
  return {};
}

}  // namespace dlrun::trainer
