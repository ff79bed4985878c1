#pragma once
// What each rank is to a TensorFlow-like cluster: chief, worker, parameter server or evaluator.

#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "runtime/agent/address.h"

namespace dlrun::agent {

/// One rank's part: "worker", 2.
struct Role {
  std::string_view name;
  int index = 0;  ///< among the ranks of the same role
};

/// How many ranks are something else than a worker. Ranks are taken in this order: chief, workers,
/// parameter servers, evaluator; so rank 0 leads in any case.
struct Roles {
  int chief = 0;  ///< 0 or 1; without one worker 0 is the chief
  int ps = 0;
  int evaluator = 0;  ///< 0 or 1

  /// "chief=1,ps=2,evaluator=1", any of them. Fails with kUsage.
  [[nodiscard]] static Result<Roles> parse(std::string_view text);
  /// Fails with kUsage when a world of size ranks leaves no worker and no chief.
  [[nodiscard]] Result<> check(int size) const;
  /// Of a world that check() has passed; rank is in [0, size).
  [[nodiscard]] Role of(int rank, int size) const;
};

/// TF_CONFIG: {"cluster": {...}, "task": {...}}. An evaluator belongs to no cluster and is not in
/// it, as TensorFlow wants it. table holds every rank's address.
[[nodiscard]] std::string tf_config(const Roles& roles, const std::vector<Endpoint>& table,
                                    int rank);

}  // namespace dlrun::agent
