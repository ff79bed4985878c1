// Checks and times one collective for a list of sizes.

#include "runtime/trainer/measure/collective_times.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "runtime/trainer/parallel/array_collectives.h"

namespace dlrun::trainer {
namespace {

using Clock = std::chrono::steady_clock;

struct CollectiveRow {
  std::string_view name;
  Collective collective;
};
constexpr std::array kCollectives{CollectiveRow{"all_reduce", Collective::kAllReduce},
                                  CollectiveRow{"broadcast", Collective::kBroadcast},
                                  CollectiveRow{"all_gather", Collective::kAllGather},
                                  CollectiveRow{"reduce_scatter", Collective::kReduceScatter}};

constexpr int kRounds = 5;
/// The approximate duration of a round; the number of repeats is chosen for it.
constexpr double kRoundMicroseconds = 20'000;

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + std::ssize(values) / 2, values.end());
  return values[values.size() / 2];
}

/// One collective at one size: its arrays, the call, and the expected result.
class Case {
 public:
  Case(Communicator& communicator, Kernels<float>& kernels, Collective collective,
       std::size_t bytes)
      : communicator_(communicator),
        kernels_(kernels),
        collective_(collective),
        part_count_(std::max<std::size_t>(1, bytes / sizeof(float) / ranks())),
        whole_count_(is_divided() ? part_count_ * ranks()
                                  : std::max<std::size_t>(1, bytes / sizeof(float))),
        whole_(kernels, whole_count_),
        part_(kernels, is_divided() ? part_count_ : 0) {}

  [[nodiscard]] std::size_t bytes() const { return whole_count_ * sizeof(float); }

  void fill(float value) {
    const std::vector<float> values(whole_count_, value);
    kernels_.copy_from_host(whole_.data(), values.data(), bytes());
    if (is_divided())
      kernels_.copy_from_host(part_.data(), values.data(), part_count_ * sizeof(float));
  }

  [[nodiscard]] Result<> call() {
    switch (collective_) {
      case Collective::kAllReduce:
        return communicator_.all_reduce(whole_.span(), ReduceOp::kSum);
      case Collective::kBroadcast:
        return communicator_.broadcast(whole_.span(), 0);
      case Collective::kAllGather:
        return communicator_.all_gather(part_.span(), whole_.span());
      case Collective::kReduceScatter:
        return communicator_.reduce_scatter(whole_.span(), part_.span(), ReduceOp::kSum);
    }
    return {};
  }

  /// Fills the arrays with this rank's number plus 1, calls the collective and checks its result.
  [[nodiscard]] Result<> check() {
    fill(static_cast<float>(communicator_.rank() + 1));
    DLRUN_TRY(call());
    const auto sum = static_cast<float>(ranks() * (ranks() + 1) / 2);
    const auto values =
        to_host(kernels_, collective_ == Collective::kReduceScatter ? part_.span() : whole_.span());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float expected = collective_ == Collective::kBroadcast ? 1
                             : collective_ == Collective::kAllGather
                                 ? static_cast<float>(i / part_count_ + 1)
                                 : sum;
      if (values[i] == expected) continue;
      return fail(Errc::kInternal, "{} of {} bytes is wrong: element {} is {}, expected {}",
                  to_string(collective_), bytes(), i, values[i], expected);
    }
    return {};
  }

  /// Waits for all ranks, then returns the mean time of `repeats` calls in a row on this rank, in
  /// microseconds.
  [[nodiscard]] Result<double> time(int repeats) {
    DLRUN_TRY(communicator_.barrier());
    const auto start = Clock::now();
    for (int i = 0; i < repeats; ++i) DLRUN_TRY(call());
    DLRUN_TRY(kernels_.synchronise());
    return microseconds_since(start) / repeats;
  }

 private:
  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(communicator_.size()); }
  [[nodiscard]] bool is_divided() const {
    return collective_ == Collective::kAllGather || collective_ == Collective::kReduceScatter;
  }

  Communicator& communicator_;
  Kernels<float>& kernels_;
  Collective collective_;
  std::size_t part_count_;   // number of elements of one rank, if the whole is divided
  std::size_t whole_count_;  // number of elements of the whole array
  Array<float> whole_;       // [whole_count_]
  Array<float> part_;        // [part_count_]; empty if the whole is not divided
};

}  // namespace

std::optional<Collective> parse_collective(std::string_view name) {
  for (const CollectiveRow& row : kCollectives) {
    if (row.name == name) return row.collective;
  }
  return std::nullopt;
}

std::string_view to_string(Collective collective) {
  return kCollectives[static_cast<std::size_t>(collective)].name;
}

double bus_factor(Collective collective, int ranks) {
  const double share_of_others = static_cast<double>(ranks - 1) / ranks;
  switch (collective) {
    case Collective::kAllReduce:
      return 2 * share_of_others;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
      return share_of_others;
    case Collective::kBroadcast:
      break;
  }
  return 1;
}

Result<> check_collective(Communicator& communicator, Kernels<float>& kernels,
                          Collective collective, std::size_t bytes) {
  return Case(communicator, kernels, collective, bytes).check();
}

Result<std::vector<CollectiveTime>> time_collective(Communicator& communicator,
                                                    Kernels<float>& kernels, Collective collective,
                                                    std::span<const std::size_t> sizes) {
  constexpr int kFirstRepeats = 3;
  constexpr double kMostRepeats = 2000;
  std::vector<CollectiveTime> times;
  for (const std::size_t size : sizes) {
    Case one(communicator, kernels, collective, size);
    DLRUN_TRY(one.check());
    one.fill(0);  // zeros, so that repeated sums do not grow
    DLRUN_TRY_ASSIGN(auto first_mean, one.time(kFirstRepeats));
    // Use the same number of repeats on every rank.
    DLRUN_TRY(communicator.all_reduce(std::span(&first_mean, 1), ReduceOp::kMax));
    const int repeats = static_cast<int>(
        std::clamp(kRoundMicroseconds / std::max(first_mean, 0.1), 2.0, kMostRepeats));
    std::vector<double> round_means;
    for (int round = 0; round < kRounds; ++round) {
      DLRUN_TRY_ASSIGN(const auto mean, one.time(repeats));
      round_means.push_back(mean);
    }
    double mean_over_ranks = median(std::move(round_means)) / communicator.size();
    DLRUN_TRY(communicator.all_reduce(std::span(&mean_over_ranks, 1), ReduceOp::kSum));
    times.push_back({one.bytes(), mean_over_ranks});
  }
  return times;
}

}  // namespace dlrun::trainer
