// Weights from and to safetensors files with Hugging Face's names (trainer/run/stored_names.h), whatever the
// layout: each rank reads its own parts; rank 0 writes the whole, tensor by tensor. One rank, one thread.
// Errors are thrown as BadInput, naming the tensor.
#pragma once

#include <string>

#include "kernels/device.h"
#include "trainer/model/memory_layout.h"
#include "trainer/parallel/execution.h"

namespace autocfg {

// Names may lack the leading "transformer." or "model.". "lm_head.weight" where it is tied and the buffers
// "attn.bias", "attn.masked_bias" (GPT-2) and "rotary_emb.inv_freq" (Llama) are passed over; anything else
// that the model does not have, lacks, or has in another shape is an error, and so is a value in the rank's
// parts that is not finite. Does not copy where the device has no memory.
void LoadWeights(const std::string& path, const RankShape& shape, const MemoryLayout& layout, Device& device,
                 Stream& stream);

// Throws where `path` can clearly not be written: no such directory, not writable, or a directory itself.
void CheckSavePath(const std::string& path);

// Collective over the world. Of the type that the parameters are; the vocabulary without padding.
void SaveWeights(const std::string& path, const RankShape& shape, const MemoryLayout& layout,
                 const Execution& run, Device& device);

}  // namespace autocfg
