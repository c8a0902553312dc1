// Reads and writes weights as safetensors files with Hugging Face's names
// (trainer/checkpoint/stored_names.h), for any layout: each rank reads its own parts; rank 0 writes the whole
// model, tensor by tensor. One rank, one thread. Errors are thrown as BadInput, which names the tensor.
#pragma once

#include <string>

#include "kernels/device.h"
#include "trainer/layout/memory_layout.h"
#include "trainer/parallel/execution.h"

namespace autocfg::trainer {

// Loads the rank's parts of the weights. Names may lack the leading "transformer." or "model.". Ignores
// "lm_head.weight" if it is tied, and the buffers "attn.bias", "attn.masked_bias" (GPT-2) and
// "rotary_emb.inv_freq" (Llama). Throws for any other difference between file and model (a tensor that is
// unknown, missing or of another shape), and for values in the rank's parts that are not finite. Copies
// nothing if the device has no memory.
void LoadWeights(const std::string& path, const RankShape& shape, const MemoryLayout& layout, Device& device,
                 Stream& stream);

// Throws if `path` is certainly not writable: its directory is missing, it is not writable, or it is a
// directory.
void CheckSavePath(const std::string& path);

// Writes all weights in the type of the parameters, without vocabulary padding. Collective over the world.
void SaveWeights(const std::string& path, const RankShape& shape, const MemoryLayout& layout,
                 const Execution& run, Device& device);

}  // namespace autocfg::trainer
