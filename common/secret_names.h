#pragma once
// The rule that tells which names are names of secrets. The log, messages about specs and `dlrun
// init --from` share this rule.

#include <string_view>

namespace dlrun {

/// Returns true if the value of a variable, an option, a header or a key with this name may be a
/// secret. The words of a name stand between '_', '-', '.', ':' and blanks; their case does not
/// matter. These names are names of secrets:
/// - A word ends with token, secret, secrets, password, passwd, passphrase, key, credential,
///   credentials or authorization: WANDB_API_KEY, --hf-token, PGPASSWORD, authToken.
/// - The last word is pass, pw, sshpass, creds, auth or jwt: DB_PASS, SLURM_JWT. A number may
///   follow: DB_PASS_2.
/// - Two neighbouring words are mysql pwd, pass phrase, pass word or auth header.
///
/// These names do not count as names of secrets:
/// - The last word stands for a property or a file: token_type, key_frames, TOKEN_FILE.
/// - The word that ends with key stands for a column of data, or for something that is no secret:
///   --sort-key, --image_key, NCCL_IB_PKEY, --wckey.
/// - A word continues after one of the words above, as in tokenizer and max_tokens.
/// - `pass` stands before other words: PASS_THROUGH.
[[nodiscard]] bool is_secret_name(std::string_view name);

}  // namespace dlrun
