#pragma once
// `rank --env NAME=TEMPLATE`: the variables that a preset gives a program, with the rank's own numbers filled in.

#include <string>
#include <string_view>

#include "common/result.h"
#include "runtime/bootstrap/world.h"

namespace dlrun::agent {

/// What a template's fields stand for.
struct TemplateFields {
  World world;
  std::string addr;         ///< {addr}: this rank's IP
  std::string master_addr;  ///< {master_addr}: rank 0's
  int master_port = 0;      ///< {master_port}
  std::string run{};        ///< {run}: the run directory
  int attempt = 0;
  std::string job{};
};

/// A NAME=TEMPLATE taken apart and checked. Fails with kUsage: no '=', a NAME that is no variable's name, an unknown
/// field, a brace without partner.
struct EnvTemplate {
  std::string name;
  std::string text;

  [[nodiscard]] static Result<EnvTemplate> parse(std::string_view argument);
  [[nodiscard]] std::string expand(const TemplateFields& fields) const;
};

}  // namespace dlrun::agent
