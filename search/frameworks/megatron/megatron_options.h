// The options of Megatron-LM that its reader does not read: those that can be left out, and those that are
// refused. tests/search/frameworks/options/megatron.txt lists all options of its releases.
#pragma once

#include "search/frameworks/settings/unmodelled.h"
#include "search/frameworks/split_settings.h"

namespace autocfg {

inline constexpr HarmlessSetting kMegatronHarmless[] = {
    {"--ckpt-* --no-ckpt-* --disable-ckpt-* --dist-ckpt-* "
     "--distrib-optim-fully-reshardable-mem-efficient --no-strict-fsdp-dtensor-load "
     "--disable-strict-fsdp-dtensor-load --non-persistent-* --save* --no-save-* --disable-save-* --load "
     "--load-main-params-from-ckpt --no-load-* --async-* --auto-detect-ckpt-format "
     "--exit-on-missing-checkpoint --finetune --hetereogenous-dist-checkpoint "
     "--use-checkpoint-opt-param-scheduler --use-checkpoint-opt_param-scheduler --use-dist-ckpt "
     "--use-persistent-ckpt-worker --override-ckpt-iteration --persistent-save-interval "
     "--pretrained-checkpoint --replication* --verify-integrity",
     kOfCheckpoints},
    {"--data-parallel-random-init --init-method --init-method-xavier-uniform --no-initialization "
     "--embedding-init-method* --output-layer-init-method --use-cpu-initialization "
     "--init-model-with-meta-device --seed --te-rng-tracker --use-te-rng-tracker --no-perform-initialization "
     "--mup-* --use-mup --lazy-mpu-init --spec-init",
     "it is of the initial weights"},
    {"--no-async-tensor-model-parallel-allreduce --async-tensor-model-parallel-allreduce",
     "the framework ignores it"},
    {"--no-overlap-grad-reduce --no-overlap-param-gather --no-sequence-parallel "
     "--no-recompute-activations",
     kSaysDefault},
    {"--no-scatter-gather-tensors-in-pipeline", "its core ignores it: sequence parallelism decides"},
    {"--pipeline-model-parallel-comm-backend --distributed-backend --nccl-communicator-config-path "
     "--disable-gloo-process-groups --create-all-gather-group --high-priority-* --use-ring-exchange-p2p "
     "--no-batch-p2p-* --disable-batch-p2p-* --use-sharp --sharp-enabled-group "
     "--disable-symmetric-registration "
     "--use-nccl-ub --tp-comm-bootstrap-backend --symmetric-ar-type --distributed-timeout-* --local-rank "
     "--no-barrier-with-level-1-timing --pipeline-dtype --deallocate-pipeline-outputs "
     "--suggested-communication-unit-size --fake-process-group",
     "it is of how messages are sent"},
    {"--tp-comm-* --disable-tp-comm-* --no-tp-comm-*", kOfTensorOverlap},
    {"--overlap-param-gather-with-optimizer-step", kOfPrefetch, /*noted=*/true},
    {"--overlap-p2p-communication-warmup-flush",
     "is left out: messages of warm-up and flush are predicted as without it", /*noted=*/true},
    {"--overlap-p2p-comm --params-dtype", "it follows from other options"},
    {"--fsdp-double-buffer --megatron-fsdp-max-pool-double-buffer",
     "is left out: its second buffer is not counted", /*noted=*/true},
    {"--fsdp-db-* --fsdp-manual-registration --megatron-fsdp-enable-fine-grained-param-gather "
     "--megatron-fsdp-version",
     "it is of the buffers of its FSDP"},
    {"--keep-fp8-transpose-cache*", "is left out: its cache is not counted", /*noted=*/true},
    {"--torch-fsdp2-*", "it says nothing without --use-torch-fsdp2, which is refused"},
    {"--hierarchical-context-parallel-sizes --cp-comm-type --max-seqlen-per-dp-cp-rank", kOfContext},
    {"--moe-* --expert-tensor-parallel-size --expert-tensor-parallel-num-weight-shards "
     "--overlap-moe-expert-parallel-comm --overlap-dispatch-backward-with-experts-wgrad "
     "--enable-expert-bias --ep-overlap-* --expert-gtp-* --gtp-expert-* --use-grouped-gemm-for-shared-expert",
     kOfMixtures},
    {"--optimizer-offload-fraction --overlap-cpu-optimizer-d2h-h2d "
     "--use-torch-optimizer-for-cpu-offload --cpu-offloading-activations --cpu-offloading-weights "
     "--no-cpu-offloading-activations --disable-cpu-offloading-activations "
     "--cpu-offloading-double-buffering --cpu-offloading-retain-pinned-cpu-buffers "
     "---cpu-offloading-context --activation-offload-fraction --delay-offload-until-cuda-graph "
     "--delta-offload-* --fine-grained-offloading-* --min-offloaded-tensor-size --no-pin-cpu-*",
     kOfOffload},
    {"--inference-* --flash-decode --mamba-inference-* --nccl-all-reduce-for-prefill "
     "--mlp-chunks-for-prefill --enable-chunked-prefill --disable-chunked-prefill "
     "--decode-only-cuda-graphs --num-speculative-tokens --use-legacy-static-engine "
     "--use-inference-optimized-layers --max-tokens-to-oom --output-bert-embeddings --bert-embedder-type "
     "--cache-mla-latents --chat-template",
     "it is of inference"},
    {"--rl-* --grpo-* --langrl-* --perform-rl-step --refit-method",
     "it is of reinforcement learning, which another program does"},
    {"--eval-* --full-validation --multiple-validation-sets --validation-set-names --start-eval-at-iter "
     "--test-mode --skip-train",
     "it is of validation"},
    {"--lr* --min-lr --adam-* --clip-grad --weight-decay* --start-weight-decay --end-weight-decay "
     "--apply-wd-to-qk-layernorm --decoupled-* --head-lr-mult --override-opt-param-scheduler "
     "--override-opt_param-scheduler --warmup --wd-incr-steps --wsd-decay-steps --no-weight-decay-cond-type "
     "--lion-* --muon-* --initial-loss-scale --loss-scale* --min-loss-scale --hysteresis --grad-scale-func "
     "--check-for-large-grads --check-for-spiky-loss --no-check-for-nan-in-loss-and-grad "
     "--calculate-per-token-loss --qk-clip* --iterations-to-skip --phase-transition-iterations",
     "it is of the update's numbers"},
    {"--train-* --exit-* --data-* --no-data-sharding --dataloader-* --split --mock-data --num-workers "
     "--num-dataset-builder-threads --valid-data-path --test-data-path --per-split-data-args-path "
     "--per-dataset-sequences-path --object-storage-cache-path --s3-cache-path --no-mmap-bin-files "
     "--mid-level-dataset-surplus --eod-mask-loss --reset-* --no-create-attention-mask-in-dataloader "
     "--fim-* --mask-* --short-seq-prob --sft-tokenizer-prompt-format --use-one-sent-docs --sample-rate "
     "--logits-* --disable-msc --enable-msc --decrease-batch-size-if-needed --use-gigatoken",
     "it is of data"},
    {"--tokenizer-* --no-tokenizer-* --disable-tokenizer-* --legacy-tokenizer --vocab-file --merge-file "
     "--vocab-extra-ids --tiktoken-* --null-tokenizer-* --trust-remote-code "
     "--no-use-tokenizer-model-from-checkpoint-args --disable-use-tokenizer-model-from-checkpoint-args "
     "--allow-ambiguous-pad-tokens --padded-vocab-size --use-same-sampling-seed-across-dp-ranks",
     "it is of the tokenizer"},
    {"--log-* --no-log-* --disable-log-* --logging-level --tensorboard-* --wandb-* --one-logger-* "
     "--no-one-logger --timing-log-* --timers --profile* --pytorch-profiler-* --use-pytorch-profiler "
     "--nvtx-ranges --record-memory-history --record-shapes --memory-snapshot-path --otel-* --app-tag-* "
     "--config-logger-dir --dump-param-to-param-group-map --flight-recorder-* --no-flight-recorder-* "
     "--disable-flight-recorder-* --moe-routing-trace-* --barrier-with-L1-time",
     "it is of logs"},
    {"--adlr-* --enable-ft-package --calc-ft-timeouts --ft-* --inprocess-* --rerun-mode --error-injection-* "
     "--straggler-* --disable-straggler-on-startup --result-rejected-tracker-filename "
     "--check-weight-hash-* --gpu-sniff-test-interval --run-workload-inspector-server "
     "--manual-gc* --no-manual-gc-eval --disable-manual-gc-eval --empty-unused-memory-level "
     "--train-sync-interval --enable-experimental --use-mcore-models",
     "it is of how the program runs"},
    {"--no-masked-softmax-fusion --no-bias-dropout-fusion --bias-activation-fusion "
     "--bias-dropout-fusion --no-rope-fusion --apply-rope-fusion --fused-single-qkv-rope "
     "--no-gradient-accumulation-fusion --gradient-accumulation-fusion --no-gradient-reduce-div-fusion "
     "--no-persist-layer-norm --persist-layer-norm --memory-efficient-layer-norm "
     "--fused-residual-rmsnorm --masked-softmax-fusion --use-fused-weighted-squared-relu "
     "--use-te-activation-func --use-transformer-engine-op-fuser --use-grouped-gemm-for-dense-mlp "
     "--disable-jit-fuser --disable-bf16-reduced-precision-matmul --no-bias-gelu-fusion "
     "--no-bias-swiglu-fusion --mla-down-proj-fusion --disable-parameter-transpose-cache "
     "--flash-attention-version --use-flash-attn --deterministic-mode --batch-invariant-*",
     "it chooses kernels of the same layers"},
    {"--attention-softmax-in-fp32 --no-attention-softmax-in-fp32 --disable-attention-softmax-in-fp32 "
     "--apply-query-key-layer-scaling --softmax-scale --apply-layernorm-1p --rotary-interleaved "
     "--glu-linear-offset --activation-func-clamp-value --embedding-path --fp16-lm-cross-entropy "
     "--output-logit-dtype --yarn-* --no-yarn-* --mscale* --rope-type --rotary-scaling-factor "
     "--relative-attention-* --mrope-section --onnx-safe",
     "it changes the numbers, and not the sizes"},
    {"--fp8-amax-* --fp8-interval --fp8-margin --fp8-quantizer-factory --fp4-quantizer-factory "
     "--no-fp8-wgrad --disable-fp8-wgrad "
     "--tp-only-amax-red --activation-func-fp8-input-store --autocast-dtype --enable-autocast "
     "--reuse-grad-buf-for-mxfp8-param-ag --disable-pad-vocab-size --no-pad-vocab-size",
     "it is of scales of fp8"},
    {"--cuda-graph-* --no-cuda-graph-* --disable-cuda-graph-* --enable-cuda-graph --external-cuda-graph "
     "--optimizer-cuda-graph",
     "is left out: the time of the host and the memory of graphs are predicted as without them",
     /*noted=*/true},
    {"--fp8-dot-product-attention --fp8-multi-head-attention --fp8-output-proj --first-last-layers-bf16 "
     "--num-layers-at-start-in-bf16 --num-layers-at-end-in-bf16",
     "is left out: the products of all layers, and no others, are predicted in the narrow format",
     /*noted=*/true},
    {"--fp8-param* --fp4-param*",
     "is left out: parameters are kept and gathered in two bytes, beside their copies", /*noted=*/true},
    {"--defer-embedding-wgrad-compute --wgrad-deferral-limit --delay-wgrad-compute",
     "is left out: gradients of weights are predicted where the backward is", /*noted=*/true},
    {"--ddp-* --no-align-* --disable-align-* --disable-clone-scatter-output-in-embedding "
     "--no-clone-scatter-output-in-embedding --no-use-layer-wise-param-layout "
     "--megatron-fsdp-grad-comm-dtype --megatron-fsdp-main-* --outer-dp-sharding-strategy "
     "--grad-sync-func --no-sync-func --param-sync-func --finalize-model-grads-func",
     "it is of buckets of gradients"},
    {"--sft --variable-seq-lengths", "is left out: every sequence is counted with all of its tokens",
     /*noted=*/true},
    {"--step-batch-size-schedule", "is left out: the batch is that of --global-batch-size", /*noted=*/true},
    {"--mtp-*", "it says nothing without --mtp-num-layers, which is refused"},
    {"--mamba-* --disable-mamba-mem-eff-path --dsa-* --no-dsa-* --disable-dsa-* --linear-* --gdp-* "
     "--mlp-chunks-for-training --mhc-* --q-lora-rank --kv-lora-rank --qk-head-dim --qk-pos-emb-head-dim "
     "--v-head-dim",
     "it says nothing without layers of its kind, which are refused"},
    {"--encoder-seq-length --decoder-seq-length --biencoder-* --bert-* --ict-* --retriever-* --indexer-* "
     "--block-data-path --evidence-data-path --titles-data-path --query-in-block-prob --vision-* --dino-* "
     "--img-* --iter-per-epoch --num-channels --num-classes --patch-dim --classes-fraction --swin-* "
     "--retro-attention-gate --retro-cyclic-train-iters --retro-encoder-* --retro-num-* "
     "--retro-no-verify-neighbor-count",
     "it is of models other than GPT"},
    {"--kitchen-attention-backend --use-kitchen-attention",
     "it says nothing without --use-kitchen, which is refused"},
    {"--gtp-*", "it says nothing without --gtp-weight-remat-size, which is refused"},
};

// Features first: a file that is refused for one names no other reason.
inline constexpr UnmodelledSetting kMegatronUnmodelled[] = {
    {"--num-experts --num-moe-experts", kNoExperts},
    {"--spec", kNoExperts, "moe"},
    {"--lora* --qlora* --peft* --adapter*", kNoAdapters},
    {"--hybrid-layer-pattern --hybrid-override-pattern --hybrid-attention-ratio --hybrid-mlp-ratio "
     "--is-hybrid-model",
     kNoOtherLayers},
    {"--experimental-attention-variant --experimental-attention-variant-loss-scale-func "
     "--linear-attention-type --linear-attention-freq",
     kNoOtherLayers},
    {"--spec", kNoOtherLayers, "mamba hybrid experimental_attention"},
    {"--retro-project-dir --retro-add-retriever", "retrieval is not modelled"},
    {"--heterogeneous-layers-config-path --heterogeneous-layers-config-encoded-json "
     "--heterogeneous-block-specs",
     "layers that differ are not modelled"},
    {"--multi-latent-attention", "multi-latent attention is not modelled"},
    {"--mtp-num-layers --mtp-standalone", "multi-token prediction is not modelled"},
    {"--softmax-type", "a sink beside the scores of attention is not modelled", "off-by-one learnable"},
    {"--attention-output-gate", "a gate behind attention is not modelled"},
    {"--enable-mhc-connections", "several streams of residuals are not modelled"},
    {"--qk-l2-norm", "this norm is not modelled"},
    {"--optimizer-cpu-offload", kNoHostStates},
    {"--cpu-offloading --cpu-offloading-num-layers --fine-grained-activation-offloading --offload-modules",
     kNoHostActivations},
    {"--encoder-num-layers --encoder-tensor-model-parallel-size --encoder-pipeline-model-parallel-size "
     "--pipeline-model-parallel-split-rank",
     "encoders are not modelled"},
    {"--quick-geglu --activation-func --gated-linear-unit", "this activation is not modelled"},
    {"--fp32-residual-connection", "residuals in fp32 are not modelled"},
    {"--apply-residual-connection-post-layernorm", "residuals behind the norm are not modelled"},
    {"--use-legacy-models", "layers of before Megatron's core are not modelled"},
    {"--use-kitchen --kitchen-config-file --kitchen-recipe-number --quant-recipe --te-precision-config-file",
     "precisions that differ by layer are not modelled"},
    {"--freeze-all-layers", "frozen layers are not modelled"},
    {"--use-torch-fsdp2", "PyTorch's FSDP in Megatron is not modelled; --use-megatron-fsdp is"},
    {"--enable-full-sharding-in-hsdp", "states that are sharded in two ways are not modelled"},
    {"--gtp-weight-remat-size --tensor-parallel-num-weight-shards",
     "weights that are gathered over tensor ranks are not modelled"},
    {"--hybrid-context-parallel", "context parallelism is not modelled"},
    {"--num-microbatches-with-partial-activation-checkpoints",
     "recomputation of some microbatches is not modelled"},
    {"--use-tp-pp-dp-mapping", "ranks in this order are not modelled"},
    {"--use-mp-args-from-checkpoint-args", "the parallelism stands in a checkpoint; write its options"},
    {"--decoder-num-layers", "it names another model than --num-layers"},
    {"--yaml-cfg", "the options stand in another file"},
    {"--virtual-pipeline-model-parallel-size", "write --num-virtual-stages-per-pipeline-rank"},
    {"--num-layers-in-first-pipeline-stage", "write --decoder-first-pipeline-num-layers"},
    {"--num-layers-in-last-pipeline-stage", "write --decoder-last-pipeline-num-layers"},
};

// Its fork that trains with DeepSpeed has these, beside those above and those of DeepSpeed's JSON.
inline constexpr HarmlessSetting kMegatronDeepSpeedHarmless[] = {
    {"--deepspeed_mpi --deepspeed-mpi --deepscale --deepscale_config --local_rank", "it is of the launcher"},
    {"--deepspeed-activation-checkpointing --contigious-checkpointing --contiguous-checkpointing "
     "--synchronize-each-layer --profile-backward",
     "it is another way of the same recomputation"},
    {"--memory-centric-tiled-linear --tile-factor --remote-device --use-pin-memory --zero-* "
     "--no-universal-checkpoint* --universal-checkpoint* --load-tag --hf-ckpt-* --deepspeed-*",
     "it is of how the program runs"},
    {"--sync-tp-duplicated-parameters", "it repeats sums of the norms, which are small"},
    {"--ds-sequence-parallel-*", "it says nothing without --ds-sequence-parallel-size, which is refused"},
    {"--create-moe-* --moe-* --mlp-type --use-tutel --topk --disable-moe-* --expert-interval", kOfMixtures},
    {"--curriculum-learning* --data-efficiency-curriculum-learning --reset-iteration --train-tokens",
     "is left out: every sequence is counted with all of its tokens", /*noted=*/true},
};
inline constexpr UnmodelledSetting kMegatronDeepSpeedUnmodelled[] = {
    {"--cpu-optimizer --cpu_torch_adam --offload-optimizer", kNoHostStates},
    {"--checkpoint-in-cpu --cpu-checkpointing", kNoHostActivations},
    {"--kd --mos --load-teacher --num-layers-teacher", "distillation from a teacher is not modelled"},
    {"--random-ltd", "layers that leave tokens out are not modelled"},
    {"--bitfit", kNoAdapters},
    {"--enable-zbh1-pipeline --enable-zbh1-exact-semantics", "its pipeline without bubbles is not modelled"},
    {"--split-transformers", "layers that are split are not modelled"},
    {"--use-bnb-optimizer", "its optimizer in 8 bits is not modelled"},
    {"--compression-training", "compression is not modelled"},
};

}  // namespace autocfg
