#pragma once
// Templates of `rank --env NAME=TEMPLATE` and `rank --word TEMPLATE`: the variables and arguments
// that a preset adds to a program. The agent fills in the values of its rank.

#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "runtime/agent/address.h"
#include "runtime/agent/messages.h"
#include "runtime/agent/roles.h"
#include "runtime/bootstrap/world.h"

namespace dlrun::agent {

/// The values of a template's fields.
struct TemplateValues {
  World world;
  std::string addr;         ///< {addr}: this rank's IP
  std::string master_addr;  ///< {master_addr}: rank 0's IP
  int master_port = 0;      ///< {master_port}; {master} is IP and port, IPv6 in brackets
  int port = 0;             ///< {port}: the port held for this rank's program
  std::string run{};        ///< {run}: the run directory; {run_id} is derived from it
  int attempt = 0;          ///< {attempt}
  std::string job{};        ///< {job}: DLRUN_JOB, or without it Slurm's job id
  int nproc_per_node = 1;   ///< {nproc_per_node}: processes that the program starts on its node
  Roles roles{};            ///< {role}, {role_index}
  /// {addresses}, {tf_config}: addresses of all ranks. Filled only if a template needs them.
  std::vector<Endpoint> addresses{};
  // No field of a template has these values; the agent sets variables from them.
  std::string component{};  ///< the component of this rank; empty: the job has one program
  /// The components of the job that have joined.
  std::vector<ComponentAddress> components{};
};

/// A text with fields in braces, checked by parse().
class Template {
 public:
  /// Fails with kUsage for an unknown field and for an unpaired brace.
  [[nodiscard]] static Result<Template> parse(std::string_view text);

  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] std::string expand(const TemplateValues& values) const;
  /// Returns true if a field needs this rank's port. The port must be held before the rank joins.
  [[nodiscard]] bool needs_port() const { return needs_port_; }
  /// Returns true if a field needs the addresses of all ranks.
  [[nodiscard]] bool needs_addresses() const { return needs_addresses_; }
  /// Returns true if a field needs this rank's role.
  [[nodiscard]] bool needs_roles() const { return needs_roles_; }

 private:
  std::string text_;
  bool needs_port_ = false;
  bool needs_addresses_ = false;
  bool needs_roles_ = false;
};

/// A parsed NAME=TEMPLATE.
struct EnvTemplate {
  std::string name;
  Template value;

  /// Fails with kUsage if there is no '=', if NAME is no valid variable name, and where
  /// Template::parse() fails.
  [[nodiscard]] static Result<EnvTemplate> parse(std::string_view argument);
};

/// Returns the names of all fields, in the order in which messages list them.
[[nodiscard]] std::vector<std::string_view> template_field_names();

}  // namespace dlrun::agent
