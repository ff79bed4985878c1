# cmake "-DFILES=a;b" -DPREFIX=DIR -DOUTPUT=x.h -P tools_hash.cmake: writes the header OUTPUT, which
# cli/tools.cc includes, with the path and the SHA-256 of each of FILES, and the first 32 digits of
# one hash of all of them. The paths are relative to PREFIX, the root of the build tree.
set(rows "")
set(all "")
foreach(file ${FILES})
  file(SHA256 ${file} hash)
  file(RELATIVE_PATH path ${PREFIX} ${file})
  string(APPEND all "${path} ${hash}\n")
  string(APPEND rows "    {\"${path}\", \"${hash}\"},\n")
endforeach()
string(SHA256 all "${all}")
string(SUBSTRING ${all} 0 32 all)
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT [[
#pragma once
namespace dlrun::tools_hash {
inline constexpr char kAll[] = "@all@";
struct Row {
  const char* path;
  const char* sha256;
};
inline constexpr Row kRows[] = {
@rows@};
}  // namespace dlrun::tools_hash
]] @ONLY)
