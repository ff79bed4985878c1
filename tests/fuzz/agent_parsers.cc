// Fuzzes the agent's parsers. They read node lists from Slurm, templates from the job's script, the
// first bytes of a connection (any program may send them), and the frames that follow these bytes.

#include "common/hostlist.h"
#include "runtime/agent/protocol.h"
#include "runtime/agent/template.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dlrun;
  using namespace dlrun::agent;
  static const bool has_random_bytes = init_crypto().has_value();
  fuzz::expect(has_random_bytes, "the source of random bytes is available");
  const auto text = fuzz::text_of(data, size);

  if (const auto hosts = expand_hostlist(text, 1000)) {
    const auto list = compress_hostlist(*hosts);
    const auto again = expand_hostlist(list, 1000);
    // If the names are long, the list may exceed 1 MiB. expand_hostlist() refuses such a list.
    const bool is_too_long = list.size() > (1U << 20U);
    fuzz::expect(is_too_long || (again && *again == *hosts),
                 "a node list is compressed without loss");
  }
  if (const auto parsed = Template::parse(text)) std::ignore = parsed->expand({});
  if (const auto variable = EnvTemplate::parse(text))
    fuzz::expect(!variable->name.empty(), "a variable has a name");
  if (const auto identity = RankIdentity::parse(text))
    fuzz::expect(identity->text() == text, "a parsed identity has the text that it was read from");

  static const Key secret = random_key();
  const LeadHandshake lead;
  std::string buffer(text);
  if (const auto authenticated = lead.advance(buffer, {{"", secret}, {"server", secret}}))
    fuzz::expect(!authenticated->has_value(), "lead refuses a peer without the secret");
  RankHandshake rank(secret, RankIdentity{"42", "0", 1, 0});
  buffer = text;
  if (const auto answer = rank.answer(buffer); answer && *answer) {
    if (const auto channel = rank.finish(buffer))
      fuzz::expect(!channel->has_value(), "a rank refuses a lead without the secret");
  }
  Channel channel(secret, secret);
  buffer = text;
  if (const auto payload = channel.take_payload(buffer))
    fuzz::expect(!payload->has_value(), "a channel refuses a frame without its MAC");
  return 0;
}
