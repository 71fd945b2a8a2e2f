// Binding tensors to roles: golden checkpoints, layouts, widths, and every way in which a tensor may not fit.
#include "model/weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/bf16.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/expect_error.h"
#include "tests/support/safetensors_edit.h"
#include "tests/unit/model/weights_contents.h"

namespace lily {
namespace {

namespace fs = std::filesystem;
using test::caught;
using test::contains;
using test::contents_of;
using Tensors = std::vector<test::RawTensor>;

constexpr const char* kMini = LILY_SOURCE_DIR "/tests/golden/mini";
constexpr const char* kMiniHf = LILY_SOURCE_DIR "/tests/golden/mini-hf";
constexpr const char* kDemo = LILY_SOURCE_DIR "/models/demo";
constexpr const char* kModel = "language_model.model.";

/// A copy of the golden model whose tensors `edit` may change.
fs::path edited_mini(const std::string& name, const std::function<void(Tensors&)>& edit) {
  fs::path folder = test::fresh_folder(name);
  fs::copy_file(fs::path(kMini) / "config.json", folder / "config.json");
  Tensors tensors = test::read_safetensors(fs::path(kMini) / "model.safetensors");
  edit(tensors);
  test::write_safetensors(folder / "model.safetensors", tensors);
  return folder;
}

/// A copy of the random checkpoint with tiny_shape() and no options, which takes time to draw.
fs::path tiny(const std::string& name) {
  static const fs::path pristine = [] {
    fs::path made = test::fresh_folder("tiny_pristine");
    test::write_checkpoint(made, {.shape = test::tiny_shape()});
    return made;
  }();
  fs::path folder = test::fresh_folder(name);
  fs::copy(pristine, folder);
  return folder;
}

/// The same with tensors that `edit` may change.
fs::path edited_tiny(const std::string& name, const std::function<void(Tensors&)>& edit) {
  fs::path folder = tiny(name);
  test::edit_safetensors(folder / "model.safetensors", edit);
  test::rewrite_index(folder);
  return folder;
}

std::string refusal(const fs::path& folder) {
  const test::CaughtError error = caught([&] { load_weights(folder); });
  EXPECT_TRUE(error.code == ErrorCode::kCheckpoint || error.code == ErrorCode::kUnsupported);
  return error.text;
}

float bf16_at(const test::RawTensor& tensor, size_t index) {
  Bf16 value;
  std::memcpy(&value.bits, tensor.data.data() + index * 2, 2);
  return to_float(value);
}

void set_bf16(test::RawTensor& tensor, size_t index, float value) {
  const Bf16 stored = to_bf16(value);
  std::memcpy(tensor.data.data() + index * 2, &stored.bits, 2);
}

bool is_shifted_norm(const std::string& name) {
  const bool norm = name.ends_with("norm.weight") || name.find(".pre_fc_norm_") != std::string::npos;
  return norm && !name.ends_with("linear_attn.norm.weight");
}

/// Calls `change` on every value of the norms that layouts store differently.
void change_gains(Tensors& tensors, const std::function<float(float)>& change) {
  for (test::RawTensor& tensor : tensors) {
    if (is_shifted_norm(tensor.name)) {
      for (size_t i = 0; i < tensor.shape[0]; ++i) {
        set_bf16(tensor, i, change(bf16_at(tensor, i)));
      }
    }
  }
}

TEST(Weights, TheGoldenModelBinds) {
  const ModelWeights weights = load_weights(kMini);
  EXPECT_EQ(weights.shape(), test::tiny_shape());
  ASSERT_EQ(weights.layers().size(), 4U);
  EXPECT_EQ(weights.layers()[2].kind(), LayerKind::kLinear);
  EXPECT_EQ(weights.layers()[3].kind(), LayerKind::kAttention);
  EXPECT_EQ(weights.tensor_bytes(), 1'449'568U);
  EXPECT_EQ(weights.file_bytes(), fs::file_size(fs::path(kMini) / "model.safetensors"));

  const MoeWeights& moe = weights.layers()[0].moe;
  EXPECT_EQ(moe.router.bits, 8U);
  EXPECT_EQ(moe.shared_gate.bits, 8U);
  EXPECT_EQ(moe.shared_gate.rows, 1U);
  EXPECT_EQ(moe.expert_down.bits, 4U);
  EXPECT_EQ(moe.expert_down.experts, 8U);
  EXPECT_EQ(moe.expert_down.rows, 128U);
  EXPECT_EQ(moe.expert_down.cols, 64U);
  EXPECT_EQ(moe.expert_down.bytes(), 8U * 128 * (32 + 2 + 2));
  EXPECT_EQ(moe.expert_down.name, "layers.0.mlp.switch_mlp.down_proj");
  EXPECT_EQ(weights.layers()[0].linear().conv.shape, (std::vector<uint32_t>{512, 4}));
  ASSERT_TRUE(weights.mtp().has_value());
  EXPECT_EQ(weights.mtp()->fc.cols, 256U);
  EXPECT_EQ(weights.mtp()->layer.kind(), LayerKind::kAttention);
}

TEST(Weights, TheDemoModelBinds) {
  const ModelWeights weights = load_weights(kDemo);
  EXPECT_EQ(weights.layers().size(), 8U);
  EXPECT_EQ(weights.tensor_bytes(), 15'073'520U);
  EXPECT_EQ(weights.file_bytes(), 7'587'568U + 7'536'616U);
  EXPECT_TRUE(weights.mtp().has_value());
  EXPECT_EQ(weights.lm_head().rows, 6144U);
}

// The bf16 twin of the golden model, made by another implementation, says what every kind of tensor must decode to.
TEST(Weights, TheGoldenModelDecodesToItsUnquantisedTwin) {
  const ModelWeights weights = load_weights(kMini);
  Tensors twin = test::read_safetensors(fs::path(kMiniHf) / "model.safetensors");
  const auto expect_matrix = [&](const QuantView& view, const std::string& name, size_t first) {
    const test::RawTensor& tensor = test::tensor_named(twin, name);
    for (uint32_t row = 0; row < view.rows; ++row) {
      for (uint32_t col = 0; col < view.cols; ++col) {
        const float expected = bf16_at(tensor, first + size_t{row} * view.cols + col);
        ASSERT_EQ(to_float(to_bf16(view.at(row, col))), expected) << name << " [" << row << ", " << col << ']';
      }
    }
  };
  const auto expect_plain = [&](const PlainTensor& tensor, const std::string& name, float plus) {
    const test::RawTensor& expected = test::tensor_named(twin, name);
    for (size_t i = 0; i < tensor.size(); ++i) {
      // A gain minus one was rounded to bf16 when the twin was made; other values are the same.
      ASSERT_NEAR(tensor.at(i), bf16_at(expected, i) + plus, plus == 0 ? 0 : 0x1p-9) << name << ' ' << i;
    }
  };
  const std::string prefix = "model.language_model.layers.";
  const LayerWeights& first = weights.layers()[0];
  const LayerWeights& last = weights.layers()[3];
  expect_matrix(weights.embed().view(), "model.language_model.embed_tokens.weight", 0);
  expect_matrix(weights.lm_head().view(), "lm_head.weight", 0);
  expect_matrix(first.moe.router.view(), prefix + "0.mlp.gate.weight", 0);
  // gate_up_proj holds each expert's gate rows, then its up rows.
  const size_t half = size_t{64} * 128;
  expect_matrix(first.moe.expert_gate.expert(5), prefix + "0.mlp.experts.gate_up_proj", 10 * half);
  expect_matrix(first.moe.expert_up.expert(5), prefix + "0.mlp.experts.gate_up_proj", 10 * half + half);
  expect_matrix(first.moe.expert_down.expert(7), prefix + "0.mlp.experts.down_proj", 7 * half);
  expect_matrix(last.attention().q_proj.view(), prefix + "3.self_attn.q_proj.weight", 0);
  expect_plain(first.linear().conv, prefix + "0.linear_attn.conv1d.weight", 0);
  expect_plain(first.linear().a_log, prefix + "0.linear_attn.A_log", 0);
  expect_plain(first.linear().norm, prefix + "0.linear_attn.norm.weight", 0);
  expect_plain(first.input_norm, prefix + "0.input_layernorm.weight", 1);
  expect_plain(last.attention().k_norm, prefix + "3.self_attn.k_norm.weight", 1);
  expect_plain(weights.final_norm(), "model.language_model.norm.weight", 1);
  expect_matrix(weights.mtp()->fc.view(), "mtp.fc.weight", 0);
  expect_plain(weights.mtp()->hidden_norm, "mtp.pre_fc_norm_hidden.weight", 1);
}

TEST(Weights, AnUnquantisedFolderIsRefusedByItsKind) {
  const test::CaughtError error = caught([] { load_weights(kMiniHf); });
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_TRUE(contains(error.text, "holds unquantised BF16 weights, expected MLX affine with 4 or 8 bits"));
  EXPECT_TRUE(contains(error.text, "`lily quantize` is planned but not part of this version"));
}

TEST(Weights, AnFp8FolderIsRefusedByItsKind) {
  const fs::path folder = edited_mini("fp8", [](Tensors& tensors) {
    tensors = {{"model.language_model.layers.0.mlp.experts.0.gate_proj.weight_scale_inv",
                "BF16",
                {1},
                std::vector<std::byte>(2)}};
  });
  EXPECT_TRUE(contains(refusal(folder), "holds FP8 weights"));
}

TEST(Layout, TheOriginalLayoutGivesTheSameEffectiveWeights) {
  // Some golden gains lie below 0.5, where gain - 1 has no exact bf16; both folders get the gains that survive the way
  // there and back.
  const ModelWeights converted = load_weights(edited_mini("converted", [](Tensors& tensors) {
    change_gains(tensors, [](float gain) { return to_float(to_bf16(gain - 1.0F)) + 1.0F; });
  }));
  const ModelWeights original = load_weights(edited_mini("original", [](Tensors& tensors) {
    change_gains(tensors, [](float gain) { return gain - 1.0F; });
    for (test::RawTensor& tensor : tensors) {
      if (tensor.name.ends_with("conv1d.weight")) {
        std::swap(tensor.shape[1], tensor.shape[2]);
      }
    }
  }));
  EXPECT_TRUE(original.final_norm().shift_by_one);
  EXPECT_TRUE(original.mtp()->final_norm.shift_by_one);
  EXPECT_FALSE(original.layers()[0].linear().norm.shift_by_one);
  EXPECT_FALSE(converted.final_norm().shift_by_one);
  EXPECT_TRUE(contents_of(original, true) == contents_of(converted, true));

  const auto golden = contents_of(load_weights(kMini), true);
  const auto rewritten = contents_of(original, true);
  EXPECT_TRUE(golden.quantised == rewritten.quantised);
  for (const auto& [name, values] : golden.plain) {
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(values[i], rewritten.plain.at(name)[i], 0x1p-9) << name;
    }
  }
}

TEST(Layout, MtpTensorsNeverShiftTheNorms) {
  const auto without_mtp = [](Tensors& tensors) {
    std::erase_if(tensors, [](const auto& each) { return each.name.find("mtp.") != std::string::npos; });
  };
  const ModelWeights with = load_weights(kMini);
  const ModelWeights without = load_weights(edited_mini("no_mtp", without_mtp));
  EXPECT_FALSE(without.mtp().has_value());
  EXPECT_TRUE(contents_of(with, false) == contents_of(without, false));
  EXPECT_LT(without.tensor_bytes(), with.tensor_bytes());

  // The head as the original has it: fused bf16 experts, zero-centred norms. Left alone, and the trunk is the same.
  const fs::path raw = edited_mini("raw_mtp", [&](Tensors& tensors) {
    without_mtp(tensors);
    for (const test::RawTensor& tensor : test::read_safetensors(fs::path(kMiniHf) / "model.safetensors")) {
      if (tensor.name.starts_with("mtp.")) {
        tensors.push_back(tensor);
      }
    }
  });
  testing::internal::CaptureStderr();
  const ModelWeights beside_raw = load_weights(raw);
  EXPECT_TRUE(
      contains(testing::internal::GetCapturedStderr(), "the MTP head is not used: mtp fc: not quantised (BF16"));
  EXPECT_FALSE(beside_raw.mtp().has_value());
  EXPECT_TRUE(contents_of(beside_raw, true) == contents_of(without, true));
  EXPECT_EQ(beside_raw.tensor_bytes(), without.tensor_bytes());
}

TEST(Layout, AnMtpHeadWithUnknownTensorsIsLeftAlone) {
  const fs::path folder = edited_mini("mtp_more", [](Tensors& tensors) {
    tensors.push_back({"language_model.mtp.layers.1.input_layernorm.weight", "BF16", {1}, std::vector<std::byte>(2)});
  });
  testing::internal::CaptureStderr();
  EXPECT_FALSE(load_weights(folder).mtp().has_value());
  EXPECT_TRUE(contains(testing::internal::GetCapturedStderr(), "1 of its 47 tensors are not known"));
}

TEST(Layout, MixedConvLayoutsAreRefused) {
  const fs::path folder = edited_mini("mixed", [](Tensors& tensors) {
    std::swap(test::tensor_named(tensors, std::string(kModel) + "layers.1.linear_attn.conv1d.weight").shape[1],
              test::tensor_named(tensors, std::string(kModel) + "layers.1.linear_attn.conv1d.weight").shape[2]);
  });
  EXPECT_TRUE(contains(refusal(folder),
                       "conv layouts are mixed: layer 0 linear_attn.conv1d.weight [512, 4, 1], but layer 1 "
                       "linear_attn.conv1d.weight [512, 1, 4]"));
}

TEST(Writer, OneSeedGivesOneModelInEveryLayout) {
  const auto load = [](const test::CheckpointOptions& options) {
    const fs::path folder = test::fresh_folder("writer");
    test::write_checkpoint(folder, options);
    return load_weights(folder);
  };
  const ModelShape shape = test::tiny_shape();
  const ModelWeights plain = load({.shape = shape, .mtp = true});
  EXPECT_EQ(plain.shape(), shape);
  const auto expected = contents_of(plain, true);
  EXPECT_TRUE(contents_of(load({.shape = shape, .shards = 3, .mtp = true}), true) == expected);
  EXPECT_TRUE(contents_of(load({.shape = shape, .odd_data = false, .mtp = true, .vision = true}), true) == expected);
  EXPECT_TRUE(contents_of(load({.shape = shape, .prefix = test::NamePrefix::kModel, .mtp = true}), true) == expected);
  EXPECT_TRUE(contents_of(load({.shape = shape, .original_layout = true, .mtp = true}), true) == expected);
  EXPECT_TRUE(contents_of(load({.shape = shape, .f32_decay = true, .mtp = true}), true) == expected);
  EXPECT_FALSE(contents_of(load({.shape = shape, .seed = 2, .mtp = true}), true) == expected);
}

TEST(Writer, ValuesAreRealistic) {
  const fs::path folder = tiny("realistic");
  const ModelWeights weights = load_weights(folder);
  const QuantView view = weights.layers()[3].attention().q_proj.view();
  double squares = 0;
  for (uint32_t row = 0; row < view.rows; ++row) {
    for (uint32_t col = 0; col < view.cols; ++col) {
      squares += std::pow(static_cast<double>(view.at(row, col)), 2);
    }
  }
  EXPECT_NEAR(squares / view.rows, 1.0, 0.05);  // N(0, 1/K): a row's squares add up to one
  for (const float a_log : weights.layers()[0].linear().a_log.values()) {
    EXPECT_GE(a_log, 0.0F);
    EXPECT_LE(a_log, std::log(16.1F));
  }
}

TEST(Writer, F32DecayIsStoredAndReadAsF32) {
  const fs::path folder = test::fresh_folder("f32");
  test::write_checkpoint(folder, {.shape = test::tiny_shape(), .f32_decay = true});
  const ModelWeights weights = load_weights(folder);
  EXPECT_EQ(weights.layers()[0].linear().a_log.dtype, PlainTensor::Dtype::kF32);
  EXPECT_EQ(weights.layers()[0].linear().norm.dtype, PlainTensor::Dtype::kF32);
  EXPECT_EQ(weights.layers()[0].linear().dt_bias.dtype, PlainTensor::Dtype::kBf16);
}

TEST(Widths, GatesOfEightBitsAndOtherMixesLoad) {
  const fs::path folder = test::fresh_folder("widths");
  test::write_checkpoint(folder, {.shape = test::tiny_shape(),
                                  .bits = 4,
                                  .gate_bits = 8,
                                  .module_bits = {{"embed_tokens", 8}, {"layers.2.mlp.switch_mlp.down_proj", 8}}});
  const ModelWeights weights = load_weights(folder);
  EXPECT_EQ(weights.embed().bits, 8U);
  EXPECT_EQ(weights.lm_head().bits, 4U);
  EXPECT_EQ(weights.layers()[2].moe.expert_down.bits, 8U);
  EXPECT_EQ(weights.layers()[2].moe.expert_up.bits, 4U);
  EXPECT_EQ(weights.layers()[2].moe.router.bits, 8U);

  test::write_checkpoint(folder, {.shape = test::tiny_shape(), .bits = 8, .gate_bits = 8});
  EXPECT_EQ(load_weights(folder).layers()[0].moe.expert_gate.bits, 8U);
  test::write_checkpoint(folder, {.shape = test::tiny_shape(), .bits = 4, .gate_bits = 4});
  EXPECT_EQ(load_weights(folder).layers()[0].moe.router.bits, 4U);
}

TEST(Widths, TheStoredWidthDecidesWhereTheBlockIsSilent) {
  const fs::path folder = tiny("silent");
  test::edit_json(folder / "config.json", [](auto& json) {
    json["quantization"] = {{"group_size", 64}, {"bits", 4}};
    json.erase("quantization_config");
  });
  EXPECT_EQ(load_weights(folder).layers()[1].moe.router.bits, 8U);
  test::edit_json(folder / "config.json", [](auto& json) { json.erase("quantization"); });
  EXPECT_EQ(load_weights(folder).layers()[1].moe.router.bits, 8U);
}

TEST(Widths, AnOverrideThatContradictsTheTensorIsRefusedInBothSpellings) {
  for (const std::string prefix : {"model.language_model.", "language_model.model."}) {
    const fs::path folder = tiny("six_bits");
    test::edit_json(folder / "config.json", [&](auto& json) {
      json["quantization"][prefix + "layers.0.mlp.switch_mlp.up_proj"] = {{"bits", 6}, {"group_size", 64}};
    });
    EXPECT_TRUE(contains(refusal(folder),
                         "layer 0 switch_mlp.up_proj: config.json says 6 bits, but its codes are 4 bits wide"));
  }
}

TEST(Widths, SixBitCodesAreRefusedWithAndWithoutAnOverride) {
  const fs::path folder = test::fresh_folder("six_stored");
  test::write_checkpoint(folder,
                         {.shape = test::tiny_shape(), .module_bits = {{"layers.0.mlp.switch_mlp.up_proj", 6}}});
  const std::string expected = "layer 0 switch_mlp.up_proj: codes are 6 bits wide, supported are 4 and 8";
  EXPECT_TRUE(contains(refusal(folder), expected));
  test::edit_json(folder / "config.json", [](auto& json) { json["quantization"] = {{"group_size", 64}, {"bits", 4}}; });
  EXPECT_TRUE(contains(refusal(folder), expected));
}

TEST(Widths, OverridesOfAnotherKindAreRefused) {
  const fs::path folder = tiny("override_kinds");
  const auto with = [&](const nlohmann::ordered_json& value) {
    test::edit_json(folder / "config.json", [&](auto& json) { json["quantization"]["lm_head"] = value; });
    return refusal(folder);
  };
  EXPECT_TRUE(contains(with(false), "lm_head: config.json says it is not quantised, but its codes are 4 bits wide"));
  EXPECT_TRUE(contains(with({{"bits", 4}, {"group_size", 32}}),
                       "lm_head: config.json says groups of 32, supported are groups of 64"));
  EXPECT_TRUE(
      contains(with({{"bits", 4}, {"mode", "mxfp4"}}), "lm_head: config.json says mode mxfp4, supported is affine"));
}

struct Misfit {
  std::string name;
  std::string tensor;
  std::function<void(test::RawTensor&)> edit;
  std::string says;
};

class MisfitTensor : public testing::TestWithParam<Misfit> {};

TEST_P(MisfitTensor, IsRefusedByNameWithWhatWasExpected) {
  const Misfit& misfit = GetParam();
  const fs::path folder = edited_tiny("misfit", [&](Tensors& tensors) {
    misfit.edit(test::tensor_named(tensors, std::string(kModel) + misfit.tensor));
  });
  EXPECT_TRUE(contains(refusal(folder), misfit.says));
}

/// Gives the tensor another shape or dtype and as many bytes as that takes.
std::function<void(test::RawTensor&)> become(const std::string& dtype, const std::vector<uint64_t>& shape) {
  return [=](test::RawTensor& tensor) {
    tensor.dtype = dtype;
    tensor.shape = shape;
    size_t bytes = dtype == "U8" ? 1 : (dtype == "BF16" || dtype == "F16" ? 2 : 4);
    for (const uint64_t extent : shape) {
      bytes *= extent;
    }
    tensor.data.resize(bytes);
  };
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, MisfitTensor,
    testing::Values(
        Misfit{"scales", "layers.2.mlp.switch_mlp.gate_proj.scales", become("BF16", {8, 64, 3}),
               "layer 2 switch_mlp.gate_proj: scales are [8, 64, 3], expected [8, 64, 2] (in model.safetensors)"},
        Misfit{"biases", "layers.0.linear_attn.in_proj_z.biases", become("BF16", {255, 2}),
               "layer 0 linear_attn.in_proj_z: biases are [255, 2], expected [256, 2]"},
        Misfit{"group_32", "layers.0.linear_attn.in_proj_z.scales", become("BF16", {256, 4}),
               "scales are [256, 4], expected [256, 2]: groups of 32, supported are groups of 64"},
        Misfit{"rows", "embed_tokens.weight", become("U32", {319, 16}),
               "embed_tokens: codes are [319, 16], expected [320, 16] (4 bits) or [320, 32] (8 bits)"},
        Misfit{"rank", "layers.0.mlp.switch_mlp.up_proj.weight", become("U32", {512, 16}),
               "codes are [512, 16], expected [8, 64, 16]"},
        Misfit{"no_rank", "layers.0.mlp.gate.weight", become("U32", {}), "codes are [], expected [8, 16]"},
        Misfit{"zero", "layers.0.mlp.gate.weight", become("U32", {8, 0}), "codes are [8, 0], expected [8, 16]"},
        Misfit{"odd_width", "layers.0.mlp.gate.weight", become("U32", {8, 17}), "codes are [8, 17], expected [8, 16]"},
        Misfit{"too_wide", "layers.0.mlp.gate.weight", become("U32", {8, 256}), "codes are [8, 256], expected [8, 16]"},
        Misfit{"norm", "layers.1.input_layernorm.weight", become("BF16", {64}),
               "layer 1 input_layernorm.weight: shape is [64], expected [128]"},
        Misfit{"conv_taps", "layers.1.linear_attn.conv1d.weight", become("BF16", {512, 3, 1}),
               "layer 1 linear_attn.conv1d.weight: shape is [512, 3, 1], expected [512, 4, 1]"},
        Misfit{"conv_rank", "layers.1.linear_attn.conv1d.weight", become("BF16", {512, 4}),
               "shape is [512, 4], expected [512, 4, 1]"}),
    [](const auto& tested) { return tested.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Dtypes, MisfitTensor,
    testing::Values(
        Misfit{"codes", "layers.0.mlp.gate.weight", become("U8", {8, 32}), "layer 0 gate: codes are U8, expected U32"},
        Misfit{"scales", "layers.0.mlp.gate.scales", become("U8", {8, 2}),
               "layer 0 gate: scales are U8, expected BF16"},
        Misfit{"f16_scales", "layers.0.mlp.gate.scales", become("F16", {8, 2}), "scales are F16, expected BF16"},
        Misfit{"f16_norm", "norm.weight", become("F16", {128}), "norm.weight: dtype is F16, expected BF16 (in"},
        Misfit{"f32_dt", "layers.0.linear_attn.dt_bias", become("F32", {2}), "dtype is F32, expected BF16 (in"},
        Misfit{"f16_decay", "layers.0.linear_attn.A_log", become("F16", {2}), "dtype is F16, expected BF16 or F32"}),
    [](const auto& tested) { return tested.param.name; });

TEST(Weights, AModuleLeftUnquantisedIsNamed) {
  const fs::path folder = edited_tiny("plain_module", [](Tensors& tensors) {
    become("BF16", {8, 128})(test::tensor_named(tensors, std::string(kModel) + "layers.0.mlp.gate.weight"));
    std::erase_if(tensors, [](const auto& each) {
      return each.name == std::string(kModel) + "layers.0.mlp.gate.scales" ||
             each.name == std::string(kModel) + "layers.0.mlp.gate.biases";
    });
  });
  EXPECT_TRUE(contains(refusal(folder), "layer 0 gate: not quantised (BF16 [8, 128]), expected MLX affine"));
}

TEST(Weights, DataAtOddAddressesReadsLikeDataAtEvenOnes) {
  const fs::path odd = test::fresh_folder("odd");
  const fs::path even = test::fresh_folder("even");
  test::write_checkpoint(odd, {.shape = test::tiny_shape(), .odd_data = true});
  test::write_checkpoint(even, {.shape = test::tiny_shape(), .odd_data = false});
  const ModelWeights at_odd = load_weights(odd);
  const ModelWeights at_even = load_weights(even);
  const QuantView a = at_odd.layers()[1].moe.router.view();
  const QuantView b = at_even.layers()[1].moe.router.view();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a.codes) % 2, 1U);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b.codes) % 2, 0U);
  for (uint32_t row = 0; row < a.rows; ++row) {
    for (uint32_t col = 0; col < a.cols; ++col) {
      ASSERT_EQ(a.at(row, col), b.at(row, col));
    }
  }
  // By hand: code byte, scale and bias of element [3, 70] of an 8-bit matrix [8, 128].
  const auto bf16 = [](const std::byte* at) {
    Bf16 value;
    std::memcpy(&value.bits, at, 2);
    return to_float(value);
  };
  const size_t group = 3 * 2 + 1;
  EXPECT_EQ(a.at(3, 70),
            bf16(a.scales + 2 * group) * static_cast<float>(a.codes[3 * 128 + 70]) + bf16(a.biases + 2 * group));
}

TEST(Weights, ReleasedPagesReadTheSameAgainAndMovingKeepsViews) {
  ModelWeights weights = load_weights(kDemo);
  const auto before = contents_of(weights, true);
  weights.release(weights.embed());
  weights.release(weights.layers()[0].moe.expert_down);
  const ModelWeights moved = std::move(weights);
  EXPECT_TRUE(contents_of(moved, true) == before);
}

TEST(Weights, TheIdentityTellsModelsApart) {
  const auto identity = [](const fs::path& folder) { return load_weights(folder).identity(); };
  const std::string mini = identity(kMini);
  EXPECT_EQ(mini.size(), 16U);
  EXPECT_EQ(mini, identity(kMini));
  EXPECT_NE(mini, identity(kDemo));
  // Same sizes and header, one bit of one value.
  const fs::path same = edited_mini("identity_same", [](Tensors&) {});
  const fs::path tuned = edited_mini("identity_tuned", [](Tensors& tensors) {
    test::tensor_named(tensors, std::string(kModel) + "layers.3.self_attn.q_proj.scales").data[0] ^= std::byte{1};
  });
  const std::string reference = identity(same);
  EXPECT_NE(reference, identity(tuned));
  // Same tensors, another setting.
  test::edit_json(same / "config.json",
                  [](auto& json) { json["text_config"]["rope_parameters"]["rope_theta"] = 10'000; });
  EXPECT_NE(reference, identity(same));
}

}  // namespace
}  // namespace lily
