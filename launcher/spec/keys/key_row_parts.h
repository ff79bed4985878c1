#pragma once
// Defines the macro and the functions with which the rows of the key table are written. Only the
// other files of launcher/spec/keys include this file.

#include "launcher/spec/spec_keys.h"

/// The member of JobSpec that a key sets: FIELD(resources.nodes).
#define FIELD(member) .field = +[](JobSpec& s) -> decltype((s.member)) { return s.member; }

namespace dlrun::keys {

/// The upper limit for numbers that have no other limit.
inline constexpr double kDefaultMax = 1e9;

using enum SbatchScope;

/// Each function returns the option that a key becomes: an option of sbatch, of srun, of the
/// container (in pyxis's form) or of the bundled trainer. Without a name, the key is a map of
/// options.
consteval KeyOption sbatch() {
  return {KeyTarget::kSbatch};
}
consteval KeyOption sbatch(std::string_view name, SbatchScope scope) {
  return {KeyTarget::kSbatch, name, scope};
}
consteval KeyOption srun(std::string_view name = {}) {
  return {KeyTarget::kSrun, name};
}
consteval KeyOption container(std::string_view name) {
  return {KeyTarget::kContainer, name};
}
consteval KeyOption trainer(std::string_view name) {
  return {KeyTarget::kTrainer, name};
}
consteval KeyOption trainer_switch(std::string_view name) {
  return {.target = KeyTarget::kTrainer, .name = name, .is_switch = true};
}

}  // namespace dlrun::keys
