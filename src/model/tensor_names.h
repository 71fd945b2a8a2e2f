// How checkpoints spell tensor names, and the one spelling used here. Conversions differ in prefixes only:
// "layers.N.…", "embed_tokens", "norm", "lm_head" and "mtp.…" are what remains.
#pragma once

#include <string>
#include <string_view>

namespace lily {

/// Drops the prefix of a tensor or module name: language_model.model.layers.0.mlp.gate becomes layers.0.mlp.gate.
std::string canonical_name(std::string_view stored);

/// Tensors of the vision tower (by stored name), which a text engine leaves in the file.
bool is_vision_tensor(std::string_view stored);

/// Tensors of the multi-token prediction head (by canonical name).
bool is_mtp_tensor(std::string_view canonical);

/// For messages: layers.7.mlp.switch_mlp.gate_proj reads "layer 7 switch_mlp.gate_proj".
std::string display_name(std::string_view canonical);

}  // namespace lily
