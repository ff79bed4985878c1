#include <doctest/doctest.h>

#include "launcher/view/account_text.h"

namespace dlrun {
namespace {

TEST_CASE("the hours of an account have the unit of their resource") {
  const AccountUse use{"proj1", {{"mem", "", 6000, 0, 0}, {"gres/gpu:a100", "ann", 600, 60, 0}}};
  CHECK(
      account_text(use) ==
      "proj1: 9 of 10 GPU-hours (a100) are left for ann; 100 of 100 MiB-hours of memory are left");
}

}  // namespace
}  // namespace dlrun
