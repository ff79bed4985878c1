# Writes OUTPUT, a header with the SHA-256 of the programs AGENT and TRAINER, and of both together.
if(AGENT AND TRAINER)
  file(SHA256 ${AGENT} agent)
  file(SHA256 ${TRAINER} trainer)
endif()
string(SHA256 both "${agent} ${trainer}")
string(SUBSTRING ${both} 0 32 both)
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT [[
#pragma once
namespace dlrun::tools_hash {
inline constexpr char kBoth[] = "@both@";
inline constexpr char kAgent[] = "@agent@";
inline constexpr char kTrainer[] = "@trainer@";
}  // namespace dlrun::tools_hash
]] @ONLY)
