"""MLX affine quantisation of the network's weights, and the checkpoint folder in MLX's layout."""
import json
import os

import torch
from safetensors.torch import save_file

GROUP = 64
CONFIG_KEYS = (
    "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
    "linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim",
    "linear_conv_kernel_dim", "num_experts", "num_experts_per_tok", "moe_intermediate_size",
    "shared_expert_intermediate_size", "layer_types", "rms_norm_eps", "max_position_embeddings", "tie_word_embeddings",
    "attention_bias", "rope_parameters", "hidden_act")


def affine(weight, bits):
    """Codes (uint8, the weight's shape), scales and biases ([..., K / 64] floats that bf16 holds exactly).

    The end of larger magnitude becomes code 0, so scales may be negative. Codes are chosen for the
    rounded scale and bias.
    """
    shape, top = weight.shape, (1 << bits) - 1
    x = weight.float().reshape(-1, GROUP)
    high, low = x.amax(1, keepdim=True), x.amin(1, keepdim=True)
    low_side = low.abs() > high.abs()
    scale = ((high - low) / top).clamp_min(1e-7)
    scale = torch.where(low_side, scale, -scale)
    edge = torch.where(low_side, low, high)
    zero_code = torch.round(edge / scale)
    scale = torch.where(zero_code != 0, edge / zero_code, scale)
    bias = torch.where(zero_code == 0, torch.zeros_like(edge), edge)
    scale, bias = scale.bfloat16().float(), bias.bfloat16().float()
    scale = torch.where(scale == 0, torch.full_like(scale, 1e-7).bfloat16().float(), scale)
    codes = torch.round((x - bias) / scale).clamp(0, top)
    return codes.to(torch.uint8).reshape(shape), scale.reshape(*shape[:-1], -1), bias.reshape(*shape[:-1], -1)


def dequantised(codes, scales, biases):
    """scale · code + bias in fp32."""
    x = codes.float().reshape(-1, GROUP) * scales.reshape(-1, 1) + biases.reshape(-1, 1)
    return x.reshape(codes.shape)


def fake_quantised(weight, bits):
    """What the weight will be once it is stored."""
    return dequantised(*affine(weight, bits))


def bits_of(name, parameter):
    """Bits a parameter is stored with: 8 for router and shared gate, 4 for other matrices, 0 for what stays bf16."""
    if parameter.dim() < 2 or "conv1d" in name:
        return 0
    return 8 if name.endswith("mlp.gate.weight") or "shared_expert_gate" in name else 4


def is_plain_gain(name):
    """Stored as it is; the other vectors are norms, which MLX stores as 1 + w."""
    return name.endswith("A_log") or "linear_attn.norm" in name or "dt_bias" in name or "conv1d" in name


@torch.no_grad()
def quantise_network(net):
    """Quantises every weight once: net.codes keeps what is exported, parameters take the exact dequantised values."""
    net.codes = {}
    for name, parameter in net.named_parameters():
        bits = bits_of(name, parameter)
        if bits:
            net.codes[name] = affine(parameter.data, bits)
            parameter.data = dequantised(*net.codes[name])
        elif is_plain_gain(name):
            parameter.data = parameter.data.bfloat16().float()
        else:
            parameter.data = (parameter.data + 1).bfloat16().float() - 1


def pack(codes, bits):
    """Codes as uint32 words, the first code in the lowest bits."""
    per_word = 32 // bits
    codes = codes.long().reshape(*codes.shape[:-1], -1, per_word)
    words = (codes << (torch.arange(per_word, device=codes.device) * bits)).sum(-1)
    return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32).view(torch.uint32)


def stored_tensors(net, mtp):
    """Every tensor of the checkpoint by its MLX name."""
    tensors = {}

    def store(tensor):
        return tensor.bfloat16().contiguous().cpu()

    def put(base, triple, bits):
        codes, scales, biases = triple
        tensors[base + ".weight"] = pack(codes, bits).contiguous().cpu()
        tensors[base + ".scales"] = store(scales)
        tensors[base + ".biases"] = store(biases)

    def walk(prefix, state, new_prefix, owner):
        for key, value in state.items():
            if prefix and not key.startswith(prefix):
                continue
            name = new_prefix + key[len(prefix):]
            triple = net.codes.get(owner + key)
            if name.endswith("mlp.experts.gate_up_proj"):  # one fused stack there, two here
                base, width = name.replace("mlp.experts.gate_up_proj", "mlp.switch_mlp."), value.shape[1] // 2
                put(base + "gate_proj", [part[:, :width] for part in triple], 4)
                put(base + "up_proj", [part[:, width:] for part in triple], 4)
            elif name.endswith("mlp.experts.down_proj"):
                put(name.replace("mlp.experts.down_proj", "mlp.switch_mlp.down_proj"), triple, 4)
            elif name.endswith("conv1d.weight"):
                tensors[name] = store(value.movedim(2, 1))
            elif value.dim() >= 2:
                put(name[:-len(".weight")], triple, bits_of(name, value))
            else:
                tensors[name] = store(value if is_plain_gain(name) else value + 1.0)

    state = net.lm.state_dict()
    walk("model.", state, "language_model.model.", "lm.")
    walk("lm_head", state, "language_model.lm_head", "lm.")
    if mtp:
        walk("", net.mtp.state_dict(), "language_model.mtp.", "mtp.")
    return tensors


def write_shards(tensors, folder, shards):
    """Writes the tensors in name order, cut at about equal bytes, and the index. Returns their bytes in all."""
    total = sum(tensor.nbytes for tensor in tensors.values())
    files, done = [{} for _ in range(shards)], 0
    for name in sorted(tensors):
        files[min(shards - 1, done * shards // total)][name] = tensors[name]
        done += tensors[name].nbytes
    weight_map = {}
    for i, file in enumerate(files):
        file_name = f"model-{i + 1:05d}-of-{shards:05d}.safetensors" if shards > 1 else "model.safetensors"
        save_file(file, f"{folder}/{file_name}", metadata={"format": "mlx"})
        weight_map.update({name: file_name for name in file})
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    write_json(index, f"{folder}/model.safetensors.index.json", 1)
    return total


def write_json(value, path, indent):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=indent)


def config_json(config, end_ids, mtp):
    """config.json as MLX conversions of the family have it."""
    quantization = {"group_size": GROUP, "bits": 4, "mode": "affine"}
    for layer in range(config.num_hidden_layers):
        for part in ("mlp.gate", "mlp.shared_expert_gate"):
            quantization[f"language_model.model.layers.{layer}.{part}"] = {"group_size": GROUP, "bits": 8}
    text = {key: value for key, value in config.to_dict().items() if key in CONFIG_KEYS}
    text.update({"model_type": "qwen3_5_moe_text", "attn_output_gate": True, "full_attention_interval": 4,
                 "eos_token_id": end_ids[-1], "mamba_ssm_dtype": "float32", "mtp_num_hidden_layers": 1 if mtp else 0,
                 "norm_topk_prob": True, "output_router_logits": False})
    return {"architectures": ["Qwen3_5MoeForConditionalGeneration"], "model_type": "qwen3_5_moe",
            "eos_token_id": end_ids, "tie_word_embeddings": False, "text_config": text, "quantization": quantization,
            "quantization_config": quantization}


def export(net, config, folder, tokenizer=None, shards=2, mtp=True):
    """Writes the checkpoint folder of a quantised network; returns the bytes of its tensors. Without a tokenizer the end
    ids are 2 and 0."""
    os.makedirs(folder, exist_ok=True)
    total = write_shards(stored_tensors(net, mtp), folder, shards)
    end_ids = [2, 0]
    if tokenizer:
        end_ids = [tokenizer.token_to_id("<|im_end|>"), tokenizer.token_to_id("<|endoftext|>")]
    write_json(config_json(config, end_ids, mtp), f"{folder}/config.json", 2)
    if tokenizer:
        tokenizer.save(f"{folder}/tokenizer.json")
        write_json({"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "bos_token": None, "model_max_length": 4096,
                    "tokenizer_class": "Qwen2Tokenizer", "add_bos_token": False},
                   f"{folder}/tokenizer_config.json", 1)
        write_json({"eos_token_id": end_ids, "do_sample": True, "temperature": 0.6, "top_k": 20, "top_p": 0.95},
                   f"{folder}/generation_config.json", 1)
    return total
