// The tokens of tokenizers that are known by their names. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace autocfg {

// Returns the tokens of a tokenizer as its owner publishes it. `name`: of Hugging Face's Hub, with its owner
// or without, a path that ends in one, or the name that Megatron-LM gives it. Returns 0 if it is not known,
// or may have any number.
std::int64_t TokensOfTokenizer(std::string_view name);
// Returns those of the only value; 0 for several.
std::int64_t TokensOfTokenizer(const std::vector<std::string>& values);

}  // namespace autocfg
