// The commands that run no model: tokenize, template, parse, inspect, completion, help and version; and usage errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/e2e/cli/process.h"

namespace lily::test {
namespace {

using nlohmann::ordered_json;

constexpr const char* kDemo = LILY_SOURCE_DIR "/models/demo";

/// Standard output as the one JSON object it has to be.
ordered_json json_of(const Outcome& outcome) {
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  ordered_json value = ordered_json::parse(outcome.out, nullptr, false);
  EXPECT_TRUE(value.is_object()) << outcome.out.substr(0, 400);
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 1);
  return value;
}

/// Exit status 2 and one line on standard error that says `part`.
void expect_refused(const Outcome& outcome, std::string_view part) {
  EXPECT_EQ(outcome.exit, 2) << outcome.out;
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(outcome.err.starts_with("lily: error: ")) << outcome.err;
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
}

TEST(Tokenize, EncodesTheGoldenTexts) {
  const ordered_json cases = ordered_json::parse(read_whole(LILY_SOURCE_DIR "/tests/golden/tokenizer-demo.json"));
  ASSERT_GE(cases.size(), 40U);
  for (size_t i = 0; i < cases.size(); i += 6) {  // every text is a unit test already; here a sample goes through stdin
    const std::string text = cases[i]["text"].get<std::string>();
    const ordered_json out = json_of(run_lily({"tokenize", "--json"}, text));
    EXPECT_EQ(out["ids"], cases[i]["ids"]) << text;
    EXPECT_EQ(out["pieces"].size(), out["ids"].size());
  }
}

TEST(Tokenize, SpecialTokensAreRecognisedUnlessForbidden) {
  const std::string text = "<|im_start|>user\nhi<|im_end|>";
  const ordered_json with = json_of(run_lily({"tokenize", "--json"}, text));
  EXPECT_EQ(with["ids"].front(), 6068);
  EXPECT_EQ(with["ids"].back(), 6069);
  EXPECT_EQ(with["pieces"].front(), "<|im_start|>");
  const ordered_json without = json_of(run_lily({"tokenize", "--no-special", "--json"}, text));
  for (const auto& id : without["ids"]) EXPECT_LT(id.get<int>(), 6067);
}

TEST(Tokenize, DecodeIsTheReverse) {
  const std::string text = "Once upon a time, naïve 🙂\n";
  const ordered_json ids = json_of(run_lily({"tokenize", "--json"}, text))["ids"];
  EXPECT_EQ(json_of(run_lily({"tokenize", "--decode", "--json"}, ids.dump()))["text"], text);
  EXPECT_EQ(run_lily({"tokenize", "--decode"}, ids.dump()).out, text);
  EXPECT_EQ(run_lily({"tokenize", "--decode"}, "2939, 11 1232\n0").out, "Hello, world!");
  EXPECT_EQ(run_lily({"tokenize", "--decode"}, "6068 2939").out, "<|im_start|>Hello");
  EXPECT_EQ(run_lily({"tokenize", "--decode", "--no-special"}, "6068 2939").out, "Hello");
  EXPECT_EQ(json_of(run_lily({"tokenize", "--json"}))["ids"], ordered_json::array());
}

TEST(Tokenize, BrokenInputIsReplacedOrRefused) {
  const ordered_json out = json_of(run_lily({"tokenize", "--json"}, "a\xff"));
  EXPECT_EQ(json_of(run_lily({"tokenize", "--json"}, "a\uFFFD"))["ids"], out["ids"]);
  expect_refused(run_lily({"tokenize", "--decode"}, "1 2 x"), "entry 3 is \"x\"");
  expect_refused(run_lily({"tokenize", "--decode"}, "999999"), "token id 999999 at position 0");
  expect_refused(run_lily({"tokenize", "-m", "/nonexistent/model"}), "/nonexistent/model does not exist");
}

TEST(Template, RendersTheRecordedConversations) {
  const ordered_json cases = ordered_json::parse(read_whole(LILY_SOURCE_DIR "/tests/golden/template.json"));
  const std::string folder = fresh_folder("template");
  int texts = 0;
  int errors = 0;
  for (size_t i = 0; i < cases.size(); i += 4) {
    const ordered_json& golden = cases[i];
    write_file(folder + "/messages.json", golden["messages"].dump());
    std::vector<std::string> args = {"template", "--messages", folder + "/messages.json", "--json"};
    if (golden.contains("tools") && !golden["tools"].is_null()) {
      write_file(folder + "/tools.json", golden["tools"].dump());
      args.insert(args.end(), {"--tools", folder + "/tools.json"});
    }
    const auto is = [&](const char* key, bool value) { return golden.contains(key) && golden[key] == value; };
    if (is("enable_thinking", false)) args.emplace_back("--no-think");
    if (is("preserve_thinking", true)) args.emplace_back("--preserve-thinking");
    if (is("add_generation_prompt", false)) args.emplace_back("--no-generation-prompt");
    const Outcome outcome = run_lily(args);
    if (golden.contains("text")) {
      ++texts;
      const ordered_json out = json_of(outcome);
      EXPECT_EQ(out["text"], golden["text"]) << i;
      EXPECT_FALSE(out["ids"].empty());
    } else {
      ++errors;
      EXPECT_EQ(outcome.exit, 2) << i;
    }
  }
  EXPECT_GE(texts, 10);
  EXPECT_GE(texts + errors, 30);
}

TEST(Template, ReadsPipesAndStandardInputOnce) {
  const std::string folder = fresh_folder("template_pipe");
  const std::string fifo = folder + "/messages";
  const std::string out = folder + "/out";
  const std::string command = "mkfifo " + fifo + " && { echo '[{\"role\": \"user\", \"content\": \"b\"}]' > " + fifo +
                              " & " + LILY_BINARY + " template --no-generation-prompt --messages " + fifo + " > " +
                              out + "; }";
  EXPECT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(read_whole(out), "<|im_start|>user\nb<|im_end|>\n");
  expect_refused(run_lily({"template", "--messages", "-", "--tools", "-"}, "[]"), "--messages and --tools both");
  expect_refused(run_lily({"run", "--tools", "-"}, "hi"), "--tools and the prompt both");
}

TEST(Template, RefusesToolsWithoutAName) {
  const std::string folder = fresh_folder("template_tools");
  write_file(folder + "/m.json", R"([{"role": "user", "content": "b"}])");
  for (const char* broken : {"3", "{}", R"({"name": 3})", R"({"function": {"name": ""}})", R"({"function": "f"})"}) {
    write_file(folder + "/t.json",
               R"([{"name": "flat"}, {"type": "function", "function": {"name": "f"}}, )" + std::string(broken) + "]");
    expect_refused(run_lily({"template", "--messages", folder + "/m.json", "--tools", folder + "/t.json"}),
                   "t.json: tools[2]: expected an object with the name of a function");
  }
  write_file(folder + "/m.json", R"([{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}])");
  expect_refused(run_lily({"template", "--messages", folder + "/m.json"}),
                 "messages[0]: the content has a part of type image");
}

TEST(Template, RefusesWithTheTemplatesWords) {
  const std::string folder = fresh_folder("template_errors");
  write_file(folder + "/m.json", R"([{"role": "developer", "content": "a"}, {"role": "user", "content": "b"}])");
  expect_refused(run_lily({"template", "--messages", folder + "/m.json"}), "Unexpected message role.");
  EXPECT_EQ(run_lily({"template", "--repair", "--no-generation-prompt", "--messages", folder + "/m.json"}).out,
            "<|im_start|>system\na<|im_end|>\n<|im_start|>user\nb<|im_end|>\n");
  write_file(folder + "/m.json", "[");
  expect_refused(run_lily({"template", "--messages", folder + "/m.json"}), folder + "/m.json");
  write_file(folder + "/m.json", "3");
  expect_refused(run_lily({"template", "--messages", folder + "/m.json"}), "expected a list of messages");
  expect_refused(run_lily({"template", "--messages", folder + "/none.json"}), "none.json");
  expect_refused(run_lily({"template"}), "--messages");
}

TEST(Template, AnEditedTemplateFileIsWarnedAbout) {
  const std::string folder = fresh_folder("edited_template");
  for (const char* file : {"tokenizer.json", "tokenizer_config.json"}) {
    write_file(folder + "/" + file, read_whole(std::string(kDemo) + "/" + file));
  }
  write_file(folder + "/chat_template.jinja", "{{ messages }}");
  write_file(folder + "/m.json", R"([{"role": "user", "content": "b"}])");
  const Outcome outcome = run_lily({"template", "-m", folder, "--messages", folder + "/m.json"});
  EXPECT_EQ(outcome.exit, 0);
  EXPECT_TRUE(outcome.err.starts_with("lily: warning: chat_template.jinja")) << outcome.err;
  EXPECT_EQ(outcome.out, "<|im_start|>user\nb<|im_end|>\n<|im_start|>assistant\n<think>\n");
}

constexpr const char* kTools = R"([{"type": "function", "function": {"name": "add", "parameters": {"type": "object",
  "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}}}])";
constexpr const char* kCall =
    "I add.</think>\n\nWait.\n<tool_call>\n<function=add>\n<parameter=a>\n3\n</parameter>\n"
    "<parameter=b>\n4\n</parameter>\n</function>\n</tool_call>";

TEST(Parse, SplitsReasoningContentAndCalls) {
  const std::string tools = fresh_folder("parse") + "/tools.json";
  write_file(tools, kTools);
  const std::vector<std::string> args = {"parse", "--tools", tools, "--thinking", "--seed", "1", "--json"};
  const ordered_json out = json_of(run_lily(args, kCall));
  EXPECT_EQ(out["finish_reason"], "tool_calls");
  EXPECT_EQ(out["message"]["role"], "assistant");
  EXPECT_EQ(out["message"]["reasoning_content"], "I add.");
  EXPECT_EQ(out["message"]["content"], "Wait.");
  EXPECT_EQ(out["message"]["tool_calls"][0]["function"]["name"], "add");
  EXPECT_EQ(ordered_json::parse(out["message"]["tool_calls"][0]["function"]["arguments"].get<std::string>()),
            (ordered_json{{"a", 3}, {"b", "4"}}));
  for (const char* chunk : {"1", "2", "7", "100000"}) {
    std::vector<std::string> pieces = args;
    pieces.insert(pieces.end(), {"--chunk", chunk});
    EXPECT_EQ(json_of(run_lily(pieces, kCall)), out) << chunk;
  }
  EXPECT_EQ(run_lily({"parse", "--tools", tools, "--thinking"}, kCall).out,
            "I add.\n\nWait.\n[tool call] add {\"a\":3,\"b\":\"4\"}\n[tool_calls]\n");
}

TEST(Parse, WithoutToolsMarkupIsContent) {
  const ordered_json out = json_of(run_lily({"parse", "--json"}, "<tool_call>\n<function=add>\n"));
  EXPECT_EQ(out["message"]["content"], "<tool_call>\n<function=add>\n");
  EXPECT_EQ(out["finish_reason"], "stop");
  EXPECT_EQ(json_of(run_lily({"parse", "--json", "--finish-reason", "length"}, "x"))["finish_reason"], "length");
  EXPECT_EQ(json_of(run_lily({"parse", "--json"}, "a\xff"))["message"]["content"], "a\uFFFD");
  EXPECT_EQ(json_of(run_lily({"parse", "--json"}))["message"]["content"], "");
  expect_refused(run_lily({"parse", "--finish-reason", "banana"}), "banana");
  expect_refused(run_lily({"parse", "--chunk", "0"}), "--chunk");
}

TEST(Inspect, ShowsShapeTensorsSizesAndMemory) {
  const ordered_json out = json_of(run_lily({"inspect", "--json", "--ctx", "1024"}));
  EXPECT_EQ(out["shape"]["layers"], 8);
  EXPECT_EQ(out["shape"]["hidden"], 256);
  EXPECT_EQ(out["shape"]["vocab"], 6144);
  EXPECT_EQ(out["shape"]["experts_per_token"], 8);
  EXPECT_EQ(out["shape"]["layer_kinds"][3], "full_attention");
  EXPECT_EQ(out["eos_ids"], ordered_json({6069, 6067}));
  EXPECT_EQ(out["mtp"], true);
  EXPECT_EQ(out["quantization"]["bits"], 4);
  EXPECT_GT(out["quantization"]["weights_by_bits"]["4"].get<uint64_t>(), 20000000U);
  EXPECT_EQ(out["sizes"]["shards"].size(), 2U);
  EXPECT_EQ(out["sizes"]["kv_bytes_per_token"], 2 * 2 * 512 * 2);
  EXPECT_EQ(out["memory"]["context"], 1024);
  EXPECT_EQ(out["memory"]["kv_bytes"], 1024 * 4096);
  const ordered_json& memory = out["memory"];
  EXPECT_EQ(memory["total_bytes"].get<uint64_t>(),
            memory["weights_bytes"].get<uint64_t>() + memory["kv_bytes"].get<uint64_t>() +
                memory["state_bytes"].get<uint64_t>() + memory["logits_bytes"].get<uint64_t>() +
                memory["workspace_bytes"].get<uint64_t>());
  EXPECT_EQ(out["identity"].get<std::string>().size(), 16U);
  EXPECT_GT(out["tensors"].size(), 200U);
  for (const char* key : {"name", "dtype", "shape", "bytes", "shard"})
    EXPECT_TRUE(out["tensors"][0].contains(key)) << key;
  const Outcome text = run_lily({"inspect", "--tensors"});
  EXPECT_EQ(text.exit, 0);
  EXPECT_NE(text.out.find("8: 6 gated delta net, 2 attention"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("lm_head"), std::string::npos);
}

TEST(Inspect, NumbersAreSpelledAsTheFilesSpellThem) {
  const Outcome outcome = run_lily({"inspect", "--json"});
  EXPECT_NE(outcome.out.find("\"temperature\":0.6,"), std::string::npos) << outcome.out.substr(0, 2000);
  EXPECT_NE(outcome.out.find("\"rms_eps\":1e-06,"), std::string::npos) << outcome.out.substr(0, 2000);
}

TEST(Inspect, ABrokenModelIsRefusedInOneSentence) {
  const std::string folder = fresh_folder("broken_model");
  expect_refused(run_lily({"inspect", "-m", folder}), "config.json");
  write_file(folder + "/config.json", R"({"model_type": "llama"})");
  expect_refused(run_lily({"inspect", "-m", folder}), "llama");
  expect_refused(run_lily({"inspect", "-m", folder + "/config.json"}),
                 "config.json is a file, expected the folder of an MLX");
}

TEST(ModelChoice, WhatIsNoModelFolderIsNamedByEveryCommand) {
  const std::string folder = fresh_folder("no_model");
  write_file(folder + "/x.gguf", "GGUF");
  write_file(folder + "/messages.json", R"([{"role": "user", "content": "a"}])");
  const std::string empty = fresh_folder("no_model_empty");
  for (const std::vector<std::string>& args : {std::vector<std::string>{"run", "-p", "hi"},
                                               {"tokenize"},
                                               {"template", "--messages", folder + "/messages.json"},
                                               {"chat"}}) {
    const auto refusal = [&args](const std::string& model, std::string_view part) {
      std::vector<std::string> all = args;
      all.insert(all.end(), {"-m", model});
      expect_refused(run_lily(all, "a"), part);
    };
    refusal(folder + "/x.gguf", "x.gguf is a GGUF file, expected the folder of an MLX 4-bit checkpoint");
    refusal(folder + "/messages.json", "messages.json is a file, expected the folder of an MLX 4-bit checkpoint");
    refusal(empty, "holds nothing (it is empty), expected the folder of an MLX 4-bit checkpoint");
  }
}

TEST(ModelChoice, TheEnvironmentNamesAModelAndTheOptionWins) {
  const Outcome named = run_lily(Launch{.args = {"inspect"}, .input = {}, .env = {{"LILY_MODEL", "/nonexistent/env"}}});
  expect_refused(named, "/nonexistent/env");
  const Outcome option =
      run_lily(Launch{.args = {"inspect", "-m", kDemo}, .input = {}, .env = {{"LILY_MODEL", "/nonexistent/env"}}});
  EXPECT_EQ(option.exit, 0) << option.err;
}

TEST(CommandLine, VersionTellsCommitBackendsAndLevel) {
  const Outcome outcome = run_lily({"--version"});
  EXPECT_EQ(outcome.exit, 0);
  EXPECT_TRUE(outcome.out.starts_with("lily 0.")) << outcome.out;
  for (const char* part : {"(commit ", "backends: cpu", "SIMD: ", "portable"}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << outcome.out;
  }
}

TEST(CommandLine, HelpIsOnStandardOutput) {
  const Outcome root = run_lily({"--help"});
  EXPECT_EQ(root.exit, 0);
  EXPECT_EQ(root.err, "");
  for (const char* command :
       {"run", "chat", "tokenize", "template", "parse", "inspect", "perplexity", "bench", "completion"}) {
    EXPECT_NE(root.out.find(command), std::string::npos) << command;
    const Outcome help = run_lily({command, "--help"});
    EXPECT_EQ(help.exit, 0) << command;
    EXPECT_NE(help.out.find("Usage: lily " + std::string(command)), std::string::npos) << help.out;
  }
}

TEST(CommandLine, UsageErrorsAreOneSentenceAndStatus2) {
  expect_refused(run_lily(std::vector<std::string>{}), "see lily --help");
  expect_refused(run_lily({"fly"}), "fly");
  expect_refused(run_lily({"run", "--nope"}), "--nope");
  expect_refused(run_lily({"run", "-p", "x", "--max-tokens", "many"}),
                 "--max-tokens: expected a whole number from 1 to 4294967295, found \"many\"");
  expect_refused(run_lily({"run", "-p", "x", "--max-tokens", "-1"}), "expected a whole number from 1");
  for (const char* seed : {"-1", "010", "0x10", "1.5", ""}) {
    expect_refused(run_lily({"run", "-p", "x", std::string("--seed=") + seed}), "--seed");
  }
  expect_refused(run_lily({"run", "-p", "x", "--temperature", "5"}), "expected a number from 0 to 2, found \"5\"");
  expect_refused(run_lily({"run", "-p", "x", "--top-p", "nan"}), "expected a number from 0 to 1, found \"nan\"");
  expect_refused(run_lily({"run", "-p", "x", "--stop", "a", "--stop", "b\xff"}), "--stop: text 2 is not valid UTF-8");
  expect_refused(run_lily({"run", "-p", "x", "--threads", "0"}), "--threads");
  expect_refused(run_lily({"run", "-p", "x", "--activations", "f16"}), "f16");
  expect_refused(run_lily({"run", "-p", "x", "--token-ids", "1"}), "--token-ids");
  expect_refused(run_lily({"run", "-p", "x", "--raw", "--system", "y"}), "--system");
  expect_refused(run_lily({"run", "-p", "x", "--logprobs", "21"}), "--logprobs");
  expect_refused(run_lily({"bench", "--prompt-tokens", "0"}), "--prompt-tokens");
  expect_refused(run_lily({"completion", "tcsh"}), "tcsh");
}

TEST(CommandLine, BackendsOutsideThisBuildAreRefusedByName) {
  expect_refused(run_lily({"run", "-p", "x", "--backend", "cuda"}), "--backend cuda: not in this build, which has cpu");
  expect_refused(run_lily({"run", "-p", "x", "--simd", "mmx"}), "--simd mmx");
}

TEST(Completion, BashOffersCommandsOptionsAndValues) {
  const Outcome script = run_lily({"completion", "bash"});
  ASSERT_EQ(script.exit, 0);
  const std::string folder = fresh_folder("completion");
  write_file(folder + "/lily.bash", script.out);
  const auto offered = [&](const std::string& words, int index) {
    const std::string command = "bash --norc -c 'source " + folder + "/lily.bash; compopt() { :; }; COMP_WORDS=(" +
                                words + "); COMP_CWORD=" + std::to_string(index) +
                                "; _lily; echo \"${COMPREPLY[@]}\"' > " + folder + "/out 2>&1";
    EXPECT_EQ(std::system(command.c_str()), 0) << read_whole(folder + "/out");
    return read_whole(folder + "/out");
  };
  EXPECT_EQ(offered("lily to", 1), "tokenize\n");
  EXPECT_EQ(offered("lily run --max", 2), "--max-tokens\n");
  EXPECT_EQ(offered("lily run --activations \"\"", 3), "bf16 f32\n");
  EXPECT_NE(offered("lily completion \"\"", 2).find("bash zsh fish"), std::string::npos);
  EXPECT_NE(run_lily({"completion", "zsh"}).out.find("#compdef lily"), std::string::npos);
  EXPECT_NE(run_lily({"completion", "fish"}).out.find("complete -c lily"), std::string::npos);
}

}  // namespace
}  // namespace lily::test
