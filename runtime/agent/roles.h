#pragma once
// The role of each rank in a TensorFlow-like cluster: chief, worker, parameter server or evaluator.

#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "runtime/agent/address.h"

namespace dlrun::agent {

/// The role of one rank, such as "worker" with index 2.
struct Role {
  std::string_view name;
  int index = 0;  ///< index among the ranks of this role
};

/// The number of ranks in each role except worker; all other ranks are workers. Ranks get their
/// roles in this order, from rank 0 on: chief, workers, parameter servers, evaluator. So rank 0 is
/// the chief, or worker 0, which acts as chief.
struct Roles {
  int chief = 0;  ///< 0 or 1; with 0, worker 0 acts as the chief
  int ps = 0;
  int evaluator = 0;  ///< 0 or 1

  /// Parses text such as "chief=1,ps=2,evaluator=1". Each of the three parts may be left out, but
  /// not all of them. If a part is repeated, its last number counts. Fails with kUsage.
  [[nodiscard]] static Result<Roles> parse(std::string_view text);
  /// Fails with kUsage if a world of `size` ranks is too small for these roles, or would have
  /// neither a chief nor a worker.
  [[nodiscard]] Result<> check(int size) const;
  /// Returns the role of rank, which is in [0, size). check(size) must have succeeded.
  [[nodiscard]] Role of(int rank, int size) const;
};

/// Returns TF_CONFIG of rank: {"cluster": {...}, "task": {...}}. The evaluator is not part of the
/// cluster, as TensorFlow demands. table: the addresses of all ranks.
[[nodiscard]] std::string tf_config(const Roles& roles, const std::vector<Endpoint>& table,
                                    int rank);

}  // namespace dlrun::agent
