// Which files and tensors make a checkpoint, and what happens when they do not agree.
#include "model/checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "model/tensor_names.h"
#include "model/weights.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/expect_error.h"
#include "tests/support/safetensors_edit.h"

namespace lily {
namespace {

namespace fs = std::filesystem;
using test::caught;
using test::contains;
using Tensors = std::vector<test::RawTensor>;

constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kFirst = "model-00001-of-00002.safetensors";
constexpr const char* kLast = "model-00002-of-00002.safetensors";

fs::path tiny(const std::string& name, uint32_t shards) {
  // Random weights take time to draw: one folder a shard count is made, the rest are copies.
  const std::string pristine_name = fmt::format("tiny_{}_shards", shards);
  static std::map<std::string, fs::path> pristine;
  if (!pristine.contains(pristine_name)) {
    pristine[pristine_name] = test::fresh_folder(pristine_name);
    test::write_checkpoint(pristine[pristine_name], {.shape = test::tiny_shape(), .shards = shards});
  }
  fs::path folder = test::fresh_folder(name);
  fs::copy(pristine[pristine_name], folder);
  return folder;
}

/// The message of the Error that loading `folder` must end with.
std::string refusal(const fs::path& folder) {
  const test::CaughtError error = caught([&] { load_weights(folder); });
  EXPECT_EQ(error.code, ErrorCode::kCheckpoint);
  return error.text;
}

TEST(TensorNames, LoseTheirPrefixes) {
  EXPECT_EQ(canonical_name("language_model.model.layers.0.mlp.gate"), "layers.0.mlp.gate");
  EXPECT_EQ(canonical_name("model.language_model.layers.0.mlp.gate"), "layers.0.mlp.gate");
  EXPECT_EQ(canonical_name("model.layers.0.mlp.gate"), "layers.0.mlp.gate");
  EXPECT_EQ(canonical_name("language_model.lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(canonical_name("lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(canonical_name("language_model.mtp.norm.weight"), "mtp.norm.weight");
  EXPECT_EQ(canonical_name("model.mtp.norm.weight"), "mtp.norm.weight");
  EXPECT_EQ(canonical_name("mtp.norm.weight"), "mtp.norm.weight");
}

TEST(TensorNames, ReadWellInMessages) {
  EXPECT_EQ(display_name("layers.7.mlp.switch_mlp.gate_proj"), "layer 7 switch_mlp.gate_proj");
  EXPECT_EQ(display_name("layers.7.linear_attn.A_log"), "layer 7 linear_attn.A_log");
  EXPECT_EQ(display_name("mtp.layers.0.mlp.gate"), "mtp layer 0 gate");
  EXPECT_EQ(display_name("embed_tokens"), "embed_tokens");
  EXPECT_EQ(display_name("layers."), "layer ");
}

TEST(Checkpoint, OpensALoneFileWithoutAnIndex) {
  const fs::path folder = tiny("lone", 1);
  fs::remove(folder / kIndex);
  EXPECT_EQ(load_weights(folder).layers().size(), 4U);
}

TEST(Checkpoint, OpensShardsWhoseTriplesAreTornApart) {
  const fs::path folder = tiny("torn", 3);
  const Checkpoint checkpoint(folder);
  ASSERT_EQ(checkpoint.shards().size(), 3U);
  bool torn = false;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    if (name.ends_with(".scales")) {
      const std::string codes = name.substr(0, name.size() - 6) + "weight";
      torn = torn || checkpoint.tensors().at(codes).shard != tensor.shard;
    }
    EXPECT_EQ(tensor.shard->header().size() % 2, 1U);
  }
  EXPECT_TRUE(torn);
  EXPECT_EQ(load_weights(folder).layers().size(), 4U);
}

TEST(Checkpoint, AShortLastShardIsNamedWithBothSizes) {
  for (const uint64_t missing : {uint64_t{1}, uint64_t{100'000}}) {
    const fs::path folder = tiny("short", 2);
    const uint64_t size = fs::file_size(folder / kLast);
    fs::resize_file(folder / kLast, size - missing);
    const std::string text = refusal(folder);
    EXPECT_TRUE(contains(text, kLast));
    EXPECT_TRUE(contains(text, fmt::format("has {} bytes, but its header describes {} bytes: the file is cut short",
                                           size - missing, size)));
  }
}

TEST(Checkpoint, AShardCutWithinItsHeaderIsNamed) {
  const fs::path folder = tiny("short_header", 2);
  fs::resize_file(folder / kLast, 100);
  EXPECT_TRUE(contains(refusal(folder), fmt::format("{} has 100 bytes, but its header alone needs", kLast)));
}

TEST(Checkpoint, AMissingShardIsNamed) {
  const fs::path folder = tiny("missing_shard", 2);
  fs::remove(folder / kLast);
  EXPECT_TRUE(contains(refusal(folder), fmt::format("the shard {} is missing", kLast)));
}

TEST(Checkpoint, AStrayShardIsIgnoredWithANote) {
  const fs::path folder = tiny("stray", 2);
  fs::copy_file(folder / kFirst, folder / "model-00003-of-00003.safetensors");
  test::write_text(folder / "reference.safetensors", "not even safetensors");
  testing::internal::CaptureStderr();
  const ModelWeights weights = load_weights(folder);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(contains(log, "model-00003-of-00003.safetensors is not part of the checkpoint"));
  EXPECT_FALSE(contains(log, "reference"));
  EXPECT_EQ(weights.layers().size(), 4U);
}

TEST(Checkpoint, ATensorInTwoShardsIsRefused) {
  const fs::path folder = tiny("twice", 2);
  const std::string name = "language_model.model.embed_tokens.scales";
  const Tensors first = test::read_safetensors(folder / kFirst);
  const auto it = std::find_if(first.begin(), first.end(), [&](const auto& tensor) { return tensor.name == name; });
  ASSERT_NE(it, first.end());
  test::edit_safetensors(folder / kLast, [&](Tensors& tensors) { tensors.push_back(*it); });
  EXPECT_TRUE(
      contains(refusal(folder), fmt::format("the tensor {} lies in {}, but {} names {}", name, kLast, kIndex, kFirst)));
}

TEST(Checkpoint, OneTensorUnderTwoSpellingsIsRefused) {
  const fs::path folder = tiny("spelled_twice", 1);
  test::edit_safetensors(folder / "model.safetensors", [](Tensors& tensors) {
    test::RawTensor copy = test::tensor_named(tensors, "language_model.model.norm.weight");
    copy.name = "model.norm.weight";
    tensors.push_back(copy);
  });
  test::rewrite_index(folder);
  EXPECT_TRUE(contains(
      refusal(folder),
      "one tensor is there twice: language_model.model.norm.weight in model.safetensors and model.norm.weight"));
}

TEST(Checkpoint, ANeededTensorThatTheIndexForgetsIsRefusedByNameAndPlace) {
  const fs::path folder = tiny("unindexed", 1);
  test::edit_json(folder / kIndex, [](auto& json) { json["weight_map"].erase("language_model.lm_head.biases"); });
  EXPECT_TRUE(contains(refusal(folder), "the tensor lm_head.biases"));
  EXPECT_TRUE(contains(refusal(folder), "it lies in model.safetensors, but the index does not list it"));
}

TEST(Checkpoint, AnIndexedTensorThatNoShardHoldsIsRefused) {
  const fs::path folder = tiny("unheld", 2);
  test::edit_json(folder / kIndex, [](auto& json) { json["weight_map"]["language_model.model.ghost"] = kLast; });
  EXPECT_TRUE(
      contains(refusal(folder), fmt::format("the tensor language_model.model.ghost is missing from {}", kLast)));
}

TEST(Checkpoint, IndexFilesThatReachElsewhereOrMakeNoSenseAreRefused) {
  const fs::path folder = tiny("bad_index", 1);
  const auto with_file = [&](const auto& value) {
    test::edit_json(folder / kIndex, [&](auto& json) { json["weight_map"]["language_model.lm_head.biases"] = value; });
    return refusal(folder);
  };
  EXPECT_TRUE(
      contains(with_file("../model.safetensors"), "lies in ../model.safetensors, expected the name of a .safetensors"));
  EXPECT_TRUE(contains(with_file("/etc/passwd"), "lies in /etc/passwd"));
  EXPECT_TRUE(contains(with_file(5), "lies in 5"));
  test::write_text(folder / kIndex, R"({"metadata": {}})");
  EXPECT_TRUE(contains(refusal(folder), "weight_map is missing"));
  test::write_text(folder / kIndex, R"({"weight_map": {"a": "model.safetensors", "a": "model.safetensors"}})");
  EXPECT_TRUE(contains(refusal(folder), "the key a appears twice"));
}

TEST(Checkpoint, AFolderWithoutWeightsIsNamed) {
  const fs::path folder = tiny("no_weights", 2);
  fs::remove(folder / kIndex);
  EXPECT_TRUE(contains(refusal(folder), "holds neither model.safetensors.index.json nor model.safetensors"));
}

TEST(Checkpoint, AMissingTensorIsNamed) {
  const fs::path folder = tiny("missing_tensor", 1);
  test::edit_safetensors(folder / "model.safetensors", [](Tensors& tensors) {
    std::erase_if(tensors,
                  [](const auto& each) { return each.name == "language_model.model.layers.2.mlp.gate.scales"; });
  });
  test::rewrite_index(folder);
  EXPECT_TRUE(contains(refusal(folder), "the tensor layers.2.mlp.gate.scales (layer 2 gate.scales) is missing from"));
}

TEST(Checkpoint, AnUnknownTensorIsNamed) {
  const fs::path folder = tiny("unknown_tensor", 1);
  test::edit_safetensors(folder / "model.safetensors", [](Tensors& tensors) {
    tensors.push_back({"language_model.model.layers.2.mlp.gate.tq_packed", "U8", {1}, std::vector<std::byte>(1)});
  });
  test::rewrite_index(folder);
  EXPECT_TRUE(
      contains(refusal(folder),
               "the tensor language_model.model.layers.2.mlp.gate.tq_packed (in model.safetensors) has no place"));
}

TEST(Checkpoint, MoreLayersThanTheConfigSaysAreRefused) {
  const fs::path folder = tiny("fewer_layers", 1);
  test::edit_safetensors(folder / "model.safetensors", [](Tensors& tensors) {
    tensors.push_back({"language_model.model.layers.4.mlp.gate.scales", "U8", {1}, std::vector<std::byte>(1)});
  });
  test::rewrite_index(folder);
  EXPECT_TRUE(contains(refusal(folder), "layers.4.mlp.gate.scales (in model.safetensors) has no place"));
  test::edit_json(folder / "config.json", [](auto& json) {
    json["text_config"].erase("layer_types");
    json["text_config"]["full_attention_interval"] = 4;
    json["text_config"]["num_hidden_layers"] = 48;
  });
  EXPECT_TRUE(contains(refusal(folder), "layers.4.input_layernorm.weight (layer 4 input_layernorm.weight) is missing"));
}

}  // namespace
}  // namespace lily
