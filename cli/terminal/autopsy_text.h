#pragma once
// A hang's autopsy for people: who stands where, in one screen.

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "launcher/runs/autopsy.h"

namespace dlrun {

/// Lines without indentation: a sentence about the odd one out, then the groups' stacks, side by
/// side where there are two of them and `columns` allows. The printer escapes them.
[[nodiscard]] std::vector<std::string> autopsy_lines(const Autopsy& autopsy,
                                                     std::size_t columns = 100);

/// {"attempt","ranks","odd","groups":[{"ranks","hosts","count","frames"}]}
[[nodiscard]] nlohmann::ordered_json autopsy_json(const Autopsy& autopsy);

}  // namespace dlrun
