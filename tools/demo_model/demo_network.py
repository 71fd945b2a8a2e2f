"""The demo model's network for training: Hugging Face's Qwen3.5-MoE text model with an MTP head beside it. Quantisation
and files are mlx_format.py.
"""
import types

import torch
import torch.nn.functional as F
from transformers.models.qwen3_5_moe import modeling_qwen3_5_moe as hf
from transformers.models.qwen3_5_moe.configuration_qwen3_5_moe import Qwen3_5MoeTextConfig

VOCABULARY = 6144


def layer_types(layers):
    """Three Gated DeltaNet layers, then one of attention, and so on."""
    return ["full_attention" if i % 4 == 3 else "linear_attention" for i in range(layers)]


def demo_config(**changes):
    """The demo model's configuration, with changes by keyword."""
    values = dict(
        vocab_size=VOCABULARY, hidden_size=256, num_hidden_layers=8, layer_types=layer_types(8),
        num_attention_heads=8, num_key_value_heads=2, head_dim=256, attention_bias=False,
        linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=128, linear_value_head_dim=128,
        linear_conv_kernel_dim=4, num_experts=32, num_experts_per_tok=8, moe_intermediate_size=64,
        shared_expert_intermediate_size=64, rms_norm_eps=1e-6, max_position_embeddings=4096, tie_word_embeddings=False,
        rope_parameters={"rope_type": "default", "rope_theta": 10000000.0, "partial_rotary_factor": 0.25,
                         "mrope_section": [11, 11, 10], "mrope_interleaved": True})
    values.update(changes)
    config = Qwen3_5MoeTextConfig(**values)
    config._attn_implementation = "sdpa"
    return config


def dense_experts(self, x, chosen, scores):
    """All experts computed as two dense products, unchosen ones weighted 0: faster than gathering at this size."""
    tokens, experts, width = x.shape[0], self.num_experts, self.intermediate_dim
    gate_up = F.linear(x, self.gate_up_proj.reshape(experts * 2 * width, -1)).view(tokens, experts, 2, width)
    hidden = F.silu(gate_up[:, :, 0]) * gate_up[:, :, 1]
    weights = torch.zeros(tokens, experts, device=x.device, dtype=hidden.dtype)
    hidden = hidden * weights.scatter(1, chosen, scores.to(hidden.dtype))[:, :, None]
    down = self.down_proj.permute(1, 0, 2).reshape(-1, experts * width)
    return F.linear(hidden.reshape(tokens, experts * width), down)


class Mtp(torch.nn.Module):
    """The multi-token prediction head: from the trunk's normed hidden of t and the embedding of t+1 to token t+2."""

    def __init__(self, config):
        super().__init__()
        self.fc = torch.nn.Linear(2 * config.hidden_size, config.hidden_size, bias=False)
        self.layers = torch.nn.ModuleList([hf.Qwen3_5MoeDecoderLayer(config, 3)])  # index 3: an attention layer
        self.norm = hf.Qwen3_5MoeRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.pre_fc_norm_embedding = hf.Qwen3_5MoeRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.pre_fc_norm_hidden = hf.Qwen3_5MoeRMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, hidden, embedding, positions):
        x = self.fc(torch.cat([self.pre_fc_norm_embedding(embedding), self.pre_fc_norm_hidden(hidden)], -1))
        x = self.layers[0](x, position_embeddings=positions, attention_mask=None)
        return self.norm(x if torch.is_tensor(x) else x[0])


class Network(torch.nn.Module):
    """Trunk (`lm`) and MTP head (`mtp`); they share embedding and output head."""

    def __init__(self, config):
        super().__init__()
        self.lm = hf.Qwen3_5MoeForCausalLM(config)
        self.mtp = Mtp(config)
        for module in self.mtp.modules():
            self.lm._init_weights(module)
        for module in self.modules():
            if isinstance(module, hf.Qwen3_5MoeExperts):
                for weight in (module.gate_up_proj, module.down_proj):
                    torch.nn.init.normal_(weight, std=0.02)
            if isinstance(module, hf.Qwen3_5MoeTopKRouter):
                torch.nn.init.normal_(module.weight, std=0.02)

    def routers(self):
        """The trunk's routers."""
        return [module for module in self.lm.modules() if isinstance(module, hf.Qwen3_5MoeTopKRouter)]

    def positions(self, hidden):
        """Rotary embeddings of positions 0, 1, … for `hidden` [batch, tokens, width]; text has three equal rows."""
        batch, tokens = hidden.shape[:2]
        rows = torch.arange(tokens, device=hidden.device)[None, None].expand(3, batch, tokens)
        return self.lm.model.rotary_emb(hidden, rows)

    def use_dense_experts(self, on=True):
        """Switches between dense_experts and the library's own forward."""
        for module in self.modules():
            if isinstance(module, hf.Qwen3_5MoeExperts):
                if on:
                    module.forward = types.MethodType(dense_experts, module)
                elif "forward" in module.__dict__:
                    del module.__dict__["forward"]
