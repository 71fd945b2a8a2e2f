#include "model/config.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/checkpoint_writer.h"
#include "tests/support/expect_error.h"
#include "tests/support/safetensors_edit.h"

namespace lily {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using test::caught;
using test::contains;

constexpr const char* kMini = LILY_SOURCE_DIR "/tests/golden/mini";
constexpr const char* kDemo = LILY_SOURCE_DIR "/models/demo";

/// A folder with the golden model's config.json, changed by `edit`; load_config looks at no weights.
fs::path config_folder(const std::string& name, const std::function<void(Json&)>& edit) {
  fs::path folder = test::fresh_folder(name);
  fs::copy_file(fs::path(kMini) / "config.json", folder / "config.json");
  test::edit_json(folder / "config.json", edit);
  return folder;
}

TEST(Config, ReadsTheGoldenModel) {
  const ModelConfig config = load_config(kMini);
  EXPECT_EQ(config.shape, test::tiny_shape());
  EXPECT_EQ(config.eos_ids, (std::vector<uint32_t>{2, 0}));
  EXPECT_EQ(config.mtp_layers, 1U);
  EXPECT_TRUE(config.quantization.present);
  EXPECT_EQ(config.quantization.bits, 4U);
  ASSERT_EQ(config.quantization.overrides.size(), 8U);
  EXPECT_EQ(config.quantization.overrides.at("layers.3.mlp.shared_expert_gate").bits, 8U);
  EXPECT_FALSE(config.eos_token.has_value());
}

TEST(Config, ReadsTheDemoModel) {
  const ModelConfig config = load_config(kDemo);
  EXPECT_EQ(config.shape.hidden, 256U);
  EXPECT_EQ(config.shape.vocab, 6144U);
  EXPECT_EQ(config.shape.linear_layers(), 6U);
  EXPECT_EQ(config.shape.attention_layers(), 2U);
  EXPECT_EQ(config.shape.experts, 32U);
  EXPECT_EQ(config.shape.experts_per_token, 8U);
  EXPECT_EQ(config.shape.rotary_dim, 64U);
  EXPECT_EQ(config.shape.rope_theta, 1e7F);
  EXPECT_EQ(config.shape.rms_eps, 1e-6F);
  EXPECT_EQ(config.eos_ids, (std::vector<uint32_t>{6069, 6067}));
  EXPECT_EQ(config.generation.temperature, 0.6F);
  EXPECT_EQ(config.generation.top_k, 20U);
  EXPECT_EQ(config.generation.top_p, 0.95F);
  EXPECT_EQ(config.generation.do_sample, true);
  EXPECT_FALSE(config.generation.min_p.has_value());
  EXPECT_FALSE(config.generation.presence_penalty.has_value());
}

TEST(Config, ReadsTheSameShapeFromATextOnlyFile) {
  const fs::path folder = config_folder("text_only", [](Json& json) {
    Json flat = json["text_config"];
    flat["quantization"] = json["quantization"];
    json = flat;
  });
  const ModelConfig config = load_config(folder);
  EXPECT_EQ(config.shape, test::tiny_shape());
  EXPECT_EQ(config.eos_ids, (std::vector<uint32_t>{0}));
  EXPECT_EQ(config.quantization.overrides.size(), 8U);
}

TEST(Config, DerivesLayerKindsFromTheInterval) {
  const fs::path folder = config_folder("interval", [](Json& json) { json["text_config"].erase("layer_types"); });
  EXPECT_EQ(load_config(folder).shape.layer_kinds, test::tiny_shape().layer_kinds);
}

TEST(Config, TakesRopeSettingsFromTheTopWhereThereIsNoRopeObject) {
  const fs::path folder = config_folder("rope_top", [](Json& json) {
    json["text_config"].erase("rope_parameters");
    json["text_config"]["rope_theta"] = 5'000'000;
    json["text_config"]["partial_rotary_factor"] = 0.25;
  });
  EXPECT_EQ(load_config(folder).shape.rope_theta, 5e6F);
}

TEST(Config, OverridesOfBothSpellingsMeetUnderOneName) {
  const fs::path folder = config_folder("spellings", [](Json& json) {
    json["quantization"]["model.language_model.layers.0.mlp.gate"] = {{"bits", 8}, {"group_size", 64}};
    json["quantization"]["language_model.lm_head"] = false;
    json["quantization"]["model.layers.1.mlp.switch_mlp.up_proj"] = {{"bits", 6}};
  });
  const ModelConfig config = load_config(folder);
  EXPECT_EQ(config.quantization.overrides.at("layers.0.mlp.gate").bits, 8U);
  EXPECT_FALSE(config.quantization.overrides.at("lm_head").quantised);
  EXPECT_EQ(config.quantization.overrides.at("layers.1.mlp.switch_mlp.up_proj").bits, 6U);

  const fs::path quarrel = config_folder("quarrel", [](Json& json) {
    json["quantization"]["model.layers.0.mlp.gate"] = {{"bits", 4}, {"group_size", 64}};
  });
  EXPECT_TRUE(contains(caught([&] { load_config(quarrel); }).text, "layers.0.mlp.gate is described twice"));
}

// Wherever the ids of the end of a turn are written, and in whatever form, all of them count.
TEST(Config, EosIdsAreTheUnionOfEveryPlace) {
  const std::vector<Json> forms = {Json(7), Json::array({7}), Json::array({7, 7})};
  for (const Json& form : forms) {
    for (const std::string place : {"config", "text_config", "generation_config"}) {
      const fs::path folder = config_folder("eos", [&](Json& json) {
        json.erase("eos_token_id");
        json["text_config"].erase("eos_token_id");
        if (place == "config") {
          json["eos_token_id"] = form;
        } else if (place == "text_config") {
          json["text_config"]["eos_token_id"] = form;
        }
      });
      if (place == "generation_config") {
        test::write_text(folder / "generation_config.json", Json{{"eos_token_id", form}}.dump());
      }
      EXPECT_EQ(load_config(folder).eos_ids, (std::vector<uint32_t>{7})) << place << ' ' << form;
    }
  }
  const fs::path folder = config_folder("eos_all", [](Json& json) {
    json["eos_token_id"] = {5, 4};
    json["text_config"]["eos_token_id"] = 4;
  });
  test::write_text(folder / "generation_config.json", R"({"eos_token_id": [6, 5, 319, 320]})");
  test::write_text(folder / "tokenizer_config.json", R"({"eos_token": "<|im_end|>"})");
  testing::internal::CaptureStderr();
  const ModelConfig config = load_config(folder);
  EXPECT_TRUE(contains(testing::internal::GetCapturedStderr(), "320, outside the vocabulary of 320"));
  EXPECT_EQ(config.eos_ids, (std::vector<uint32_t>{5, 4, 6, 319}));
  EXPECT_EQ(config.eos_token, "<|im_end|>");
}

TEST(Config, AbsentAndNullEosLeaveTheSetToTheTokenizer) {
  const fs::path folder = config_folder("eos_none", [](Json& json) {
    json.erase("eos_token_id");
    json["text_config"]["eos_token_id"] = nullptr;
  });
  test::write_text(folder / "tokenizer_config.json", R"({"eos_token": {"content": "<|im_end|>", "special": true}})");
  const ModelConfig config = load_config(folder);
  EXPECT_TRUE(config.eos_ids.empty());
  EXPECT_EQ(config.eos_token, "<|im_end|>");

  test::write_text(folder / "tokenizer_config.json", R"({"eos_token": null})");
  EXPECT_FALSE(load_config(folder).eos_token.has_value());
}

struct Refusal {
  std::string name;
  std::function<void(Json& top, Json& text)> edit;
  std::vector<std::string> says;
};

class ConfigRefusal : public testing::TestWithParam<Refusal> {};

TEST_P(ConfigRefusal, NamesTheKeyTheValueAndWhatIsSupported) {
  const Refusal& refusal = GetParam();
  const fs::path folder = config_folder("refusal", [&](Json& json) { refusal.edit(json, json["text_config"]); });
  const test::CaughtError error = caught([&] { load_config(folder); });
  EXPECT_NE(error.code, ErrorCode::kRuntime);
  for (const std::string& part : refusal.says) {
    EXPECT_TRUE(contains(error.text, part));
  }
}

/// A refusal of one value of text_config.
Refusal text_value(const std::string& name, const std::string& key, const Json& value, std::vector<std::string> says) {
  says.push_back(key);
  return {name, [key, value](Json&, Json& text) { text[key] = value; }, std::move(says)};
}

INSTANTIATE_TEST_SUITE_P(
    OtherModels, ConfigRefusal,
    testing::Values(
        Refusal{"dense",
                [](Json& top, Json& text) {
                  top["model_type"] = "qwen3_5";
                  text["num_hidden_layers"] = 48;
                },
                {"model_type is qwen3_5, expected qwen3_5_moe"}},
        Refusal{"no_type", [](Json& top, Json&) { top.erase("model_type"); }, {"model_type is missing"}},
        Refusal{"dense_text", [](Json&, Json& text) { text["model_type"] = "qwen3_5_text"; }, {"qwen3_5_text"}},
        Refusal{"mxfp4",
                [](Json& top, Json&) {
                  top["quantization"] = {{"group_size", 32}, {"bits", 4}, {"mode", "mxfp4"}};
                },
                {"mode is mxfp4, expected affine"}},
        Refusal{"group_32",
                [](Json& top, Json&) {
                  top["quantization"] = {{"group_size", 32}, {"bits", 4}};
                },
                {"group_size is 32, expected 64"}},
        Refusal{"bits_6", [](Json& top, Json&) { top["quantization"]["bits"] = 6; }, {"bits is 6, expected 4 or 8"}},
        Refusal{"fp8",
                [](Json& top, Json&) {
                  top.erase("quantization");
                  top["quantization_config"] = {{"quant_method", "fp8"}};
                },
                {"quant_method is fp8"}},
        Refusal{"tied", [](Json& top, Json&) { top["tie_word_embeddings"] = true; }, {"tie_word_embeddings is true"}},
        Refusal{"yarn",
                [](Json&, Json& text) { text["rope_parameters"]["rope_type"] = "yarn"; },
                {"rope_type is yarn, expected default"}},
        Refusal{"yarn_old",
                [](Json&, Json& text) {
                  text["rope_scaling"] = {{"type", "yarn"}, {"factor", 4}};
                },
                {"type is yarn"}},
        Refusal{"rotary_128",
                [](Json&, Json& text) { text["rope_parameters"]["partial_rotary_factor"] = 0.5; },
                {"partial_rotary_factor turns 128", "supported are 64"}},
        text_value("layers_48", "num_hidden_layers", 48, {"layer_types is", "list of 48"}),
        text_value("layer_type", "layer_types", {"linear_attention", "mamba", "linear_attention", "full_attention"},
                   {"mamba"}),
        text_value("all_linear", "layer_types",
                   {"linear_attention", "linear_attention", "linear_attention", "linear_attention"},
                   {"layer_types needs at least one linear_attention and one full_attention layer", "found 4 and 0"}),
        text_value("all_full", "layer_types", {"full_attention", "full_attention", "full_attention", "full_attention"},
                   {"found 0 and 4"}),
        Refusal{"interval_beyond_the_layers",
                [](Json&, Json& text) {
                  text.erase("layer_types");
                  text["full_attention_interval"] = 5;
                },
                {"found 4 and 0"}},
        text_value("gate_off", "attn_output_gate", false, {"false, expected true"}),
        text_value("gate_type", "output_gate_type", "sigmoid", {"sigmoid, expected silu or swish"}),
        text_value("act", "hidden_act", "gelu", {"gelu, expected silu"}),
        text_value("bias", "attention_bias", true, {"true, expected false"}),
        text_value("dense_layers", "mlp_only_layers", {0}, {"an empty list"})),
    [](const auto& tested) { return tested.param.name; });

INSTANTIATE_TEST_SUITE_P(
    BadNumbers, ConfigRefusal,
    testing::Values(text_value("head_dim", "head_dim", 128, {"is 128, expected 256"}),
                    text_value("key_dim", "linear_key_head_dim", 64, {"is 64, expected 128"}),
                    text_value("value_dim", "linear_value_head_dim", 64, {"is 64, expected 128"}),
                    text_value("conv", "linear_conv_kernel_dim", 3, {"is 3, expected 4"}),
                    text_value("hidden_odd", "hidden_size", 100, {"multiple of 64"}),
                    text_value("hidden_huge", "hidden_size", 4294967296, {"expected an integer"}),
                    text_value("hidden_negative", "hidden_size", -128, {"is -128"}),
                    text_value("hidden_float", "hidden_size", 128.5, {"is 128.5"}),
                    text_value("hidden_text", "hidden_size", "128", {"expected an integer"}),
                    text_value("hidden_null", "hidden_size", nullptr, {"missing"}),
                    text_value("vocab", "vocab_size", 321, {"multiple of 64"}),
                    text_value("vocab_huge", "vocab_size", 4294967232, {"expected an integer"}),
                    text_value("inner", "moe_intermediate_size", 96, {"multiple of 64"}),
                    text_value("shared", "shared_expert_intermediate_size", 0, {"is 0"}),
                    text_value("kv_heads", "num_key_value_heads", 3, {"num_attention_heads is 4, expected a multiple"}),
                    text_value("no_kv_heads", "num_key_value_heads", 0, {"is 0"}),
                    text_value("value_heads", "linear_num_key_heads", 3, {"linear_num_value_heads is 2"}),
                    text_value("experts", "num_experts", 1024, {"1 to 512"}),
                    text_value("top_k", "num_experts_per_tok", 17, {"1 to 16"}),
                    text_value("top_k_experts", "num_experts_per_tok", 9, {"at most num_experts (8)"}),
                    text_value("no_layers", "num_hidden_layers", 0, {"is 0"}),
                    text_value("eps", "rms_norm_eps", 0, {"is 0"}),
                    text_value("positions", "max_position_embeddings", 4294967295, {"4294967295"}),
                    text_value("eos", "eos_token_id", "<|im_end|>", {"a token id or a list"}),
                    text_value("eos_negative", "eos_token_id", -1, {"-1"})),
    [](const auto& tested) { return tested.param.name; });

TEST(ConfigFolder, AGgufFileAPlainFileAndAMissingPathAreNamed) {
  const fs::path folder = test::fresh_folder("not_folders");
  test::write_text(folder / "model.gguf", "GGUF");
  test::write_text(folder / "notes.txt", "hello");
  test::CaughtError error = caught([&] { load_config(folder / "model.gguf"); });
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_TRUE(contains(error.text, "is a GGUF file, expected the folder of an MLX 4-bit checkpoint"));
  error = caught([&] { load_config(folder / "notes.txt"); });
  EXPECT_TRUE(contains(error.text, "is a file, expected the folder"));
  error = caught([&] { load_config(folder / "absent"); });
  EXPECT_EQ(error.code, ErrorCode::kIo);
  EXPECT_TRUE(contains(error.text, "does not exist, expected the folder"));
}

TEST(ConfigFolder, AnEmptyFolderAndAFolderOfAnotherKindAreNamed) {
  const fs::path folder = test::fresh_folder("folders");
  EXPECT_TRUE(contains(caught([&] { load_config(folder); }).text, "holds nothing (it is empty), expected the folder"));
  test::write_text(folder / "notes.txt", "hello");
  EXPECT_TRUE(contains(caught([&] { load_config(folder); }).text, "holds no config.json, expected"));
  test::write_text(folder / "q4.gguf", "GGUF");
  EXPECT_TRUE(contains(caught([&] { load_config(folder); }).text, "holds the GGUF file q4.gguf and no config.json"));
}

TEST(ConfigFile, BrokenJsonIsRefusedWithItsPlace) {
  const fs::path folder = test::fresh_folder("broken_json");
  const auto refusal = [&](const std::string& text) {
    test::write_text(folder / "config.json", text);
    const test::CaughtError error = caught([&] { load_config(folder); });
    EXPECT_EQ(error.code, ErrorCode::kConfig);
    return error.text;
  };
  EXPECT_TRUE(contains(refusal(R"({"model_type": )"), "not valid JSON: broken at byte 15 of 15"));
  EXPECT_TRUE(contains(refusal(""), "not valid JSON"));
  EXPECT_TRUE(contains(refusal("[1, 2]"), "holds [1,2], expected a JSON object"));
  EXPECT_TRUE(contains(refusal(R"({"a": 1, "b": {"c": 1, "c": 2}})"), "the key c appears twice"));
  EXPECT_TRUE(contains(refusal("{\"a\": 1e999}"), "not valid JSON"));
  EXPECT_TRUE(contains(refusal("{\"a\": " + std::string(100'000, '[')), "nested deeper than 32 levels"));
  EXPECT_TRUE(contains(refusal("{\"model_type\": \"\xff\"}"), "not valid JSON"));
  EXPECT_TRUE(
      contains(refusal(R"({"model_type": "qwen3_5_moe", "text_config": 5})"), "text_config is 5, expected an object"));
}

TEST(ConfigFile, BrokenSidecarsAreNamed) {
  const fs::path folder = config_folder("sidecars", [](Json&) {});
  test::write_text(folder / "generation_config.json", R"({"temperature": 5})");
  EXPECT_TRUE(contains(caught([&] { load_config(folder); }).text,
                       "generation_config.json: temperature is 5, expected a number from 0 to 2"));
  test::write_text(folder / "generation_config.json", R"({"temperature": "hot"})");
  EXPECT_TRUE(contains(caught([&] { load_config(folder); }).text,
                       "generation_config.json: temperature is hot, expected a number"));
  test::write_text(folder / "generation_config.json", "{}");
  test::write_text(folder / "tokenizer_config.json", "{");
  EXPECT_TRUE(contains(caught([&] { load_config(folder); }).text, "tokenizer_config.json is not valid JSON"));
}

}  // namespace
}  // namespace lily
