// The sizes are `vocab_size` of the models that were published with these tokenizers, or, if a model has rows
// that no token needs, the tokens of the tokenizer itself (tokenizer.json, with its added tokens).
#include "search/frameworks/settings/tokenizers.h"

#include <array>

#include "absl/strings/ascii.h"

namespace autocfg {
namespace {

struct KnownTokenizer {
  std::string_view begins;  // of the name behind its owner, in lower case
  std::int64_t tokens;
};

// The first that fits counts.
constexpr std::array kKnownTokenizers = {
    KnownTokenizer{"gpt2bpetokenizer", 50257},
    KnownTokenizer{"gpt2", 50257},
    KnownTokenizer{"distilgpt2", 50257},
    KnownTokenizer{"gpt-neox-20b", 50277},
    KnownTokenizer{"pythia", 50277},
    KnownTokenizer{"llama2tokenizer", 32000},
    KnownTokenizer{"llama-2-", 32000},
    KnownTokenizer{"llama2-", 32000},
    KnownTokenizer{"llama-7b", 32000},
    KnownTokenizer{"tinyllama", 32000},
    KnownTokenizer{"meta-llama-3", 128256},
    KnownTokenizer{"llama-3", 128256},
    KnownTokenizer{"llama3tokenizer", 128256},
    KnownTokenizer{"mistral-7b-v0.1", 32000},
    KnownTokenizer{"mistral-7b-instruct-v0.1", 32000},
    KnownTokenizer{"mistral-7b-instruct-v0.2", 32000},
    KnownTokenizer{"mistral-7b-v0.3", 32768},
    KnownTokenizer{"mistral-7b-instruct-v0.3", 32768},
    KnownTokenizer{"mistral-nemo-", 131072},
    KnownTokenizer{"mixtral-8x7b", 32000},
    KnownTokenizer{"mixtral-8x22b-v0.1", 32000},
    KnownTokenizer{"gemma-2b", 256000},
    KnownTokenizer{"gemma-7b", 256000},
    KnownTokenizer{"gemma-2-", 256000},
    KnownTokenizer{"gemma-3-", 262144},
    KnownTokenizer{"qwen2-", 151646},
    KnownTokenizer{"qwen2.5-", 151665},
    KnownTokenizer{"qwen3-", 151669},
    KnownTokenizer{"falcon-7b", 65024},
    KnownTokenizer{"falcon-40b", 65024},
    KnownTokenizer{"falcon-180b", 65024},
    KnownTokenizer{"bloom", 250680},
    KnownTokenizer{"phi-2", 50295},
    KnownTokenizer{"starcoder2", 49152},
    KnownTokenizer{"starcoder", 49152},
    KnownTokenizer{"baichuan2-", 125696},
    KnownTokenizer{"smollm2", 49152},
};

}  // namespace

std::int64_t TokensOfTokenizer(std::string_view name) {
  while (name.ends_with('/')) name.remove_suffix(1);
  const std::string last = absl::AsciiStrToLower(std::string(name.substr(name.rfind('/') + 1)));
  for (const KnownTokenizer& known : kKnownTokenizers) {
    if (last.starts_with(known.begins)) return known.tokens;
  }
  return 0;
}

std::int64_t TokensOfTokenizer(const std::vector<std::string>& values) {
  return values.size() == 1 ? TokensOfTokenizer(std::string_view(values.front())) : 0;
}

}  // namespace autocfg
