// Tests which names of variables, options and keys count as names of secrets.

#include "common/secret_names.h"

#include <doctest/doctest.h>

namespace dlrun {
namespace {

TEST_CASE("names that a secret may have are recognised") {
  for (const char* name :
       {"WANDB_API_KEY", "HF_TOKEN",      "--hf-token",    "Authorization",
        "PGPASSWORD",    "SLURM_JWT",     "--password",    "AWS_SECRET_ACCESS_KEY",
        "DLRUN_SECRET",  "--api_key",     "authToken",     "AWS_ACCESS_KEY_ID",
        "HF_TOKEN_READ", "API_KEY_VALUE", "PRIVATE-TOKEN", "my.hub.token",
        "DB_PASS",       "DB_PASS_2",     "--pw",          "SSHPASS",
        "GCP_CREDS",     "credentials",   "MYSQL_PWD",     "--pass-phrase",
        "AUTH_HEADER",   "--auth",        "KEY",           "secrets",
        "SSHKEY",        "TOKEN_URL"}) {
    CAPTURE(name);
    CHECK(is_secret_name(name));
  }
}

TEST_CASE(
    "names that only look like those of secrets are not recognised, such as --max-tokens and "
    "MONKEY") {
  for (const char* name : {"PWD",
                           "PATH",
                           "--max-tokens",
                           "TOKENIZERS_PARALLELISM",
                           "--epochs",
                           "--tokenizer",
                           "--keys",
                           "--author",
                           "",
                           "--",
                           "2",
                           "max_tokens",
                           "tokenizer",
                           "key_frames",
                           "--token-type",
                           "--num-key-value-heads",
                           "--sort-key",
                           "image_key",
                           "--input_key",
                           "PASS_THROUGH",
                           "PASS_RATE",
                           "TOKEN_FILE",
                           "HF_TOKEN_PATH",
                           "NCCL_IB_PKEY",
                           "SLURM_WCKEY",
                           "--wckey",
                           "SSH_AUTH_SOCK",
                           "OS_AUTH_URL",
                           "OLDPWD",
                           "MONKEY",
                           "secret_name",
                           "passthrough",
                           "KEYCLOAK_URL",
                           "KEYS_2"}) {
    CAPTURE(name);
    CHECK_FALSE(is_secret_name(name));
  }
}

}  // namespace
}  // namespace dlrun
