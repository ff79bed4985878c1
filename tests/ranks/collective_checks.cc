#include "tests/ranks/collective_checks.h"

#include <array>
#include <concepts>
#include <cstdint>
#include <span>

#include <fmt/format.h>

namespace dlrun {

namespace {

constexpr std::array<std::size_t, 8> kCounts{0, 1, 2, 7, 64, 1000, 4097, 200'003};
constexpr std::array kOps{ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax};

/// Converts a small whole number, which every type represents exactly, to T.
template <typename T>
T converted(std::size_t number) {
  if constexpr (std::integral<T> || std::floating_point<T>) {
    return static_cast<T>(number);
  } else {
    return T(static_cast<float>(number));
  }
}

template <typename T>
T value_at(int rank, std::size_t i) {
  return converted<T>(static_cast<std::size_t>(rank + 1) * (i % 5 + 1));
}

template <typename T>
T reduced_at(int size, ReduceOp op, std::size_t i) {
  switch (op) {
    case ReduceOp::kSum:
      return converted<T>(static_cast<std::size_t>(size * (size + 1) / 2) * (i % 5 + 1));
    case ReduceOp::kMin:
      return value_at<T>(0, i);
    case ReduceOp::kMax:
      return value_at<T>(size - 1, i);
  }
  return T{};
}

class Checker {
 public:
  explicit Checker(Communicator& comm) : comm_(comm) {}

  template <typename T>
  void check_type() {
    for (const std::size_t count : kCounts) {
      check_broadcast<T>(count);
      check_all_gather<T>(count);
      for (const ReduceOp op : kOps) {
        check_all_reduce<T>(count, op);
        check_reduce_scatter<T>(count, op);
      }
    }
    check_requests<T>();
  }

  void check_barrier() { expect(comm_.barrier(), "barrier"); }

  std::vector<std::string> failures;

 private:
  template <typename T>
  std::vector<T> own_values(std::size_t count) const {
    std::vector<T> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = value_at<T>(comm_.rank(), i);
    return values;
  }

  bool expect(const Result<>& result, const std::string& what) {
    if (!result) failures.push_back(fmt::format("{}: {}", what, result.error().message));
    return result.has_value();
  }

  template <typename T, typename Expected>
  void expect_values(std::span<const T> values, const std::string& what, Expected&& expected) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] == expected(i)) continue;
      failures.push_back(fmt::format("{}: element {} of {} is {}, expected {}", what, i,
                                     values.size(), static_cast<double>(values[i]),
                                     static_cast<double>(expected(i))));
      return;
    }
  }

  template <typename T>
  std::string title(const char* call, std::size_t count) const {
    return fmt::format("rank {} of {}: {} {} x {}", comm_.rank(), comm_.size(), call,
                       to_string(kDataTypeOf<T>), count);
  }

  template <typename T>
  void check_all_reduce(std::size_t count, ReduceOp op) {
    auto values = own_values<T>(count);
    const std::string what = title<T>("all_reduce", count);
    if (!expect(comm_.all_reduce(std::span(values), op), what)) return;
    expect_values<T>(values, what,
                     [&](std::size_t i) { return reduced_at<T>(comm_.size(), op, i); });
  }

  template <typename T>
  void check_broadcast(std::size_t count) {
    for (int root = 0; root < comm_.size(); ++root) {
      auto values = own_values<T>(count);
      const std::string what = title<T>("broadcast", count);
      if (!expect(comm_.broadcast(std::span(values), root), what)) return;
      expect_values<T>(values, what, [&](std::size_t i) { return value_at<T>(root, i); });
    }
  }

  template <typename T>
  void check_all_gather(std::size_t count) {
    const auto ranks = static_cast<std::size_t>(comm_.size());
    const auto expected = [&](std::size_t i) {
      return value_at<T>(static_cast<int>(i / count), i % count);
    };
    const std::string what = title<T>("all_gather", count);

    auto mine = own_values<T>(count);
    std::vector<T> all(ranks * count);
    if (!expect(comm_.all_gather(std::span(mine), std::span(all)), what)) return;
    expect_values<T>(all, what, expected);
    expect_values<T>(mine, what + " (its input)",
                     [&](std::size_t i) { return value_at<T>(comm_.rank(), i); });

    std::vector<T> in_place(ranks * count);
    const auto own_part =
        std::span(in_place).subspan(static_cast<std::size_t>(comm_.rank()) * count, count);
    std::copy(mine.begin(), mine.end(), own_part.begin());
    if (!expect(comm_.all_gather(own_part, std::span(in_place)), what + " in place")) return;
    expect_values<T>(in_place, what + " in place", expected);
  }

  template <typename T>
  void check_reduce_scatter(std::size_t count, ReduceOp op) {
    const auto all = own_values<T>(static_cast<std::size_t>(comm_.size()) * count);
    std::vector<T> mine(count);
    const std::string what = title<T>("reduce_scatter", count);
    if (!expect(comm_.reduce_scatter(std::span(all), std::span(mine), op), what)) return;
    const std::size_t first = static_cast<std::size_t>(comm_.rank()) * count;
    expect_values<T>(mine, what,
                     [&](std::size_t i) { return reduced_at<T>(comm_.size(), op, first + i); });
    expect_values<T>(all, what + " (its input)",
                     [&](std::size_t i) { return value_at<T>(comm_.rank(), i); });
  }

  /// Starts several requests, then makes a blocking call, and only then waits for the requests, in
  /// another order.
  template <typename T>
  void check_requests() {
    const std::string what = title<T>("start_all_reduce", 1000);
    std::vector<std::vector<T>> buckets;
    std::vector<Request> requests;
    for (int bucket = 0; bucket < 4; ++bucket) buckets.push_back(own_values<T>(1000));
    for (auto& bucket : buckets) {
      auto request = comm_.start_all_reduce(std::span(bucket), ReduceOp::kSum);
      if (!request) return failures.push_back(fmt::format("{}: {}", what, request.error().message));
      requests.push_back(std::move(*request));
      comm_.advance_requests();
    }
    check_all_reduce<T>(64, ReduceOp::kMax);
    for (const std::size_t bucket : {2U, 0U, 3U, 1U}) {
      if (!expect(requests[bucket].wait(), what)) return;
      expect_values<T>(buckets[bucket], what, [&](std::size_t i) {
        return reduced_at<T>(comm_.size(), ReduceOp::kSum, i);
      });
      if (requests[bucket].needs_wait())
        failures.push_back(what + ": needs another wait() after its wait()");
      expect(requests[bucket].wait(), what + " waited for twice");
    }
  }

  Communicator& comm_;
};

}  // namespace

std::vector<std::string> check_collectives(Communicator& comm) {
  Checker checker(comm);
  checker.check_barrier();
  checker.check_type<float>();
  checker.check_type<double>();
  checker.check_type<std::int64_t>();
  checker.check_type<std::uint64_t>();
  checker.check_type<std::uint8_t>();
  checker.check_type<Float16>();
  checker.check_type<Bfloat16>();
  checker.check_barrier();
  if (auto settled = comm.check_results(); !settled)
    checker.failures.push_back("check_results(): " + settled.error().message);
  return std::move(checker.failures);
}

std::vector<std::string> check_mismatch(Communicator& comm, Mismatch mismatch) {
  const int last = comm.size() - 1;
  const bool deviates = comm.rank() == last;
  std::vector<float> floats(12, 1.0F);
  std::vector<double> doubles(12, 1.0);
  const auto call = [&]() -> Result<> {
    switch (mismatch) {
      case Mismatch::kCount:
        return comm.all_reduce(std::span(floats).first(deviates ? 11 : 12), ReduceOp::kSum);
      case Mismatch::kType:
        return deviates ? comm.all_reduce(std::span(doubles), ReduceOp::kSum)
                        : comm.all_reduce(std::span(floats), ReduceOp::kSum);
      case Mismatch::kReduction:
        return comm.all_reduce(std::span(floats), deviates ? ReduceOp::kMax : ReduceOp::kSum);
      case Mismatch::kRoot:
        return comm.broadcast(std::span(floats), deviates ? 1 : 0);
      case Mismatch::kOperation:
        return deviates ? comm.barrier() : comm.broadcast(std::span(floats), 0);
    }
    return {};
  };
  const auto expected = [&]() -> std::array<std::string, 2> {
    switch (mismatch) {
      case Mismatch::kCount:
        return {"all_reduce(sum, float32 x 12) in rank",
                "all_reduce(sum, float32 x 11) in rank {}"};
      case Mismatch::kType:
        return {"all_reduce(sum, float32 x 12) in rank",
                "all_reduce(sum, float64 x 12) in rank {}"};
      case Mismatch::kReduction:
        return {"all_reduce(sum, float32 x 12) in rank",
                "all_reduce(max, float32 x 12) in rank {}"};
      case Mismatch::kRoot:
        return {"broadcast(float32 x 12, root 0) in rank",
                "broadcast(float32 x 12, root 1) in rank {}"};
      case Mismatch::kOperation:
        return {"broadcast(float32 x 12, root 0) in rank", "barrier() in rank {}"};
    }
    return {};
  }();
  const auto result = call();
  const std::string where = fmt::format("rank {} of {}, mismatch {}", comm.rank(), comm.size(),
                                        static_cast<int>(mismatch));
  if (result) return {where + ": the call succeeded"};
  std::vector<std::string> failures;
  if (result.error().code != Errc::kPeer) failures.push_back(where + ": the error is not kPeer");
  if (comm.check_results())
    failures.push_back(where + ": check_results() succeeds after the error");
  for (const std::string& part : {expected[0], fmt::format(fmt::runtime(expected[1]), last)}) {
    if (result.error().message.find(part) == std::string::npos) {
      failures.push_back(
          fmt::format("{}: '{}' is not in '{}'", where, part, result.error().message));
    }
  }
  return failures;
}

}  // namespace dlrun
