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

TEST_CASE("the warning about too few hours mentions the user if the limit applies to one user") {
  const AccountUse of_account{"proj1", {{"gres/gpu", "", 6000, 0, 0}}};
  CHECK(too_few_hours_text(of_account, 200.0, std::nullopt)
            .starts_with("the job may use 200 GPU-hours, and the account proj1 has 100 left: "));
  const AccountUse of_user{"proj1", {{"gres/gpu", "ann", 6000, 0, 0}}};
  CHECK(too_few_hours_text(of_user, 200.0, std::nullopt)
            .starts_with("the job may use 200 GPU-hours, and user ann of the account proj1 has 100 "
                         "left: "));
}

}  // namespace
}  // namespace dlrun
