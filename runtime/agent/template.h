#pragma once
// `rank --env NAME=TEMPLATE` and `rank --word TEMPLATE`: the variables and words that a preset
// gives a program, with the rank's own numbers filled in.

#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "runtime/agent/address.h"
#include "runtime/agent/roles.h"
#include "runtime/bootstrap/world.h"

namespace dlrun::agent {

/// What a template's fields stand for.
struct TemplateFields {
  World world;
  std::string addr;         ///< {addr}: this rank's IP
  std::string master_addr;  ///< {master_addr}: rank 0's
  int master_port = 0;      ///< {master_port}; {master} is both, IPv6 in brackets
  int port = 0;             ///< {port}: held for this rank's program
  std::string run{};        ///< {run}: the run directory
  int attempt = 0;
  std::string job{};
  int nproc_per_node = 1;  ///< {nproc_per_node}: what the program itself starts on its node
  Roles roles{};           ///< {role}, {role_index}
  std::vector<Endpoint>
      table{};  ///< {addresses}, {tf_config}: every rank; filled where a template needs it
};

/// Text with fields in braces, taken apart and checked.
class Template {
 public:
  /// Fails with kUsage: an unknown field, a brace without partner.
  [[nodiscard]] static Result<Template> parse(std::string_view text);

  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] std::string expand(const TemplateFields& fields) const;
  /// A field of it is this rank's own port, or is made of every rank's: the port must be held
  /// before the rank joins.
  [[nodiscard]] bool needs_port() const { return needs_port_; }
  /// A field of it is made of every rank's address.
  [[nodiscard]] bool needs_table() const { return needs_table_; }
  /// A field of it is this rank's role.
  [[nodiscard]] bool needs_roles() const { return needs_roles_; }

 private:
  std::string text_;
  bool needs_port_ = false;
  bool needs_table_ = false;
  bool needs_roles_ = false;
};

/// A NAME=TEMPLATE taken apart and checked. Fails with kUsage: no '=', a NAME that is no variable's
/// name, and what Template refuses.
struct EnvTemplate {
  std::string name;
  Template value;

  [[nodiscard]] static Result<EnvTemplate> parse(std::string_view argument);
};

/// The names of the fields, in the order in which messages list them.
[[nodiscard]] std::vector<std::string_view> template_fields();

}  // namespace dlrun::agent
