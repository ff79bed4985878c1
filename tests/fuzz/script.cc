// Fuzzes reading a job script that a person has edited. The script may contain its spec.

#include <tuple>

#include "launcher/runs/carried_spec.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dlrun;
  const auto text = fuzz::text_of(data, size);
  if (const auto carried = carried_spec(text)) {
    const auto again = carried_spec(with_carried_spec("#!/bin/bash\n", *carried));
    const auto last = carried->yaml.find_last_not_of('\n');  // ignores empty lines at the end
    const auto yaml = carried->yaml.substr(0, last == std::string::npos ? 0 : last + 1) + "\n";
    fuzz::expect(again && again->yaml == yaml && again->folder == carried->folder,
                 "a carried spec is the same after it is written and read again");
  }
  std::ignore = carried_lines(text);
  return 0;
}
