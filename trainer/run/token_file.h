// Files of token ids: which form a file has, and where its tokens are. Nothing is read but headers and, of a
// Megatron pair, the index, in chunks. From one thread. Errors are thrown as BadInput: the file, what is
// wrong, and what to do.
//
// Forms, by the name and what is beside it:
//   NAME.u16, NAME.u32   little-endian ids
//   NAME.bin, NAME       with NAME.idx beside it: an indexed dataset of Megatron (MMIDIDX), its documents
//                        joined in order
//   NAME.bin             which begins with the magic of llm.c: a header of 256 int32, then ids
//   NAME.bin             else: ids of 16 bits, as nanoGPT writes them
//   any other            bytes
#pragma once

#include <cstdint>
#include <string>

#include "trainer/checkpoint/file.h"

namespace autocfg::trainer {

// Where the tokens are: `count` little-endian ids of `width` bytes from byte `offset` on.
struct TokenFile {
  File file;
  std::int64_t offset = 0;
  std::int64_t count = 0;
  int width = 1;
  bool is_signed = false;  // ids below 0 are quoted as such
  std::string form = {};   // for people: "a Megatron indexed dataset of uint16 tokens in 5 documents"
};

// Opens a file of tokens and checks that its size, and that of its pair, agree with its form.
TokenFile OpenTokens(const std::string& path);

}  // namespace autocfg::trainer
