// The commands that run the demo model: run, perplexity and bench, against the reference outputs where there are any.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/e2e/cli/process.h"

namespace lily::test {
namespace {

using nlohmann::ordered_json;

constexpr const char* kDemo = LILY_SOURCE_DIR "/models/demo";

ordered_json json_of(const Outcome& outcome) {
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  ordered_json value = ordered_json::parse(outcome.out, nullptr, false);
  EXPECT_TRUE(value.is_object()) << outcome.out.substr(0, 400);
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 1);
  return value;
}

void expect_refused(const Outcome& outcome, std::string_view part) {
  EXPECT_EQ(outcome.exit, 2) << outcome.out;
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(outcome.err.starts_with("lily: error: ")) << outcome.err;
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
}

const ordered_json& references() {
  static const ordered_json cases = ordered_json::parse(read_whole(std::string(kDemo) + "/reference.json"));
  return cases;
}

std::string listed(const ordered_json& ids) {
  const std::string text = ids.dump();
  return text.substr(1, text.size() - 2);
}

/// How many tokens from the start must equal the reference: up to the first close call.
size_t certain_tokens(const ordered_json& reference, double margin) {
  const auto& margins = reference["greedy_margins"];
  size_t count = 0;
  while (count < margins.size() && margins[count].get<double>() > margin) ++count;
  return count;
}

TEST(Run, TokenIdsGiveTheReferenceTokens) {
  for (size_t i = 0; i < references().size(); ++i) {
    const ordered_json& reference = references()[i];
    const ordered_json out =
        json_of(run_lily({"run", "--model", kDemo, "--token-ids", listed(reference["prompt_ids"]), "--max-tokens", "64",
                          "--temperature", "0", "--ignore-eos", "--activations", "f32", "--json"}));
    EXPECT_EQ(out["prompt_ids"], reference["prompt_ids"]);
    EXPECT_EQ(out["finish_reason"], "length");
    ASSERT_EQ(out["token_ids"].size(), 64U);
    EXPECT_FALSE(out.contains("logprobs"));
    EXPECT_EQ(out["timings"]["prefill_tokens"], reference["prompt_ids"].size());
    EXPECT_EQ(out["timings"]["decode_tokens"], 63);
    EXPECT_TRUE(out["timings"]["prefill_ms"].is_number());
    EXPECT_TRUE(out["timings"]["decode_ms"].is_number());
    for (size_t at = 0; at < certain_tokens(reference, 0.002); ++at) {
      ASSERT_EQ(out["token_ids"][at], reference["greedy_ids"][at]) << "prompt " << i << ", token " << at;
    }
  }
}

TEST(Run, LogprobsComeWithAlternatives) {
  const ordered_json out = json_of(run_lily(
      {"run", "-p", "What is 2 + 3?", "--no-think", "-t", "0", "--logprobs", "3", "--max-tokens", "4", "--json"}));
  ASSERT_EQ(out["logprobs"].size(), out["token_ids"].size());
  for (size_t i = 0; i < out["logprobs"].size(); ++i) {
    const ordered_json& entry = out["logprobs"][i];
    EXPECT_EQ(entry["id"], out["token_ids"][i]);
    ASSERT_EQ(entry["top"].size(), 3U);
    EXPECT_EQ(entry["top"][0]["id"], entry["id"]);  // greedy: the most likely one was taken
    EXPECT_EQ(entry["top"][0]["logprob"], entry["logprob"]);
    EXPECT_GE(entry["top"][0]["logprob"].get<double>(), entry["top"][1]["logprob"].get<double>());
    EXPECT_LE(entry["logprob"].get<double>(), 0.0);
  }
}

TEST(Run, AnAnswerHasMessageTextAndSeed) {
  const ordered_json out =
      json_of(run_lily({"run", "-p", "Hello!", "--no-think", "--seed", "7", "--max-tokens", "40", "--json"}));
  EXPECT_EQ(out["seed"], 7);
  EXPECT_EQ(out["message"]["role"], "assistant");
  EXPECT_FALSE(out["message"].contains("reasoning_content"));
  EXPECT_FALSE(out["text"].get<std::string>().empty());
  EXPECT_EQ(out["text"], out["message"]["content"]);
  const ordered_json again =
      json_of(run_lily({"run", "-p", "Hello!", "--no-think", "--seed", "7", "--max-tokens", "40", "--json"}));
  EXPECT_EQ(again["token_ids"], out["token_ids"]);
}

TEST(Run, StreamsTheAnswerAndSumsUpOnStandardError) {
  const std::vector<std::string> args = {"run", "-p", "What is 2 + 3?", "-t", "0", "--max-tokens", "200"};
  std::vector<std::string> with_json = args;
  with_json.emplace_back("--json");
  const ordered_json json = json_of(run_lily(with_json));
  const Outcome streamed = run_lily(args);
  EXPECT_EQ(streamed.exit, 0);
  std::string content = json["message"]["content"].get<std::string>();
  EXPECT_FALSE(content.empty());
  EXPECT_FALSE(json["message"]["reasoning_content"].get<std::string>().empty());
  if (!content.ends_with('\n')) content += '\n';
  EXPECT_EQ(streamed.out, content);  // no reasoning in a pipe
  EXPECT_TRUE(streamed.err.starts_with("prompt ")) << streamed.err;
  EXPECT_NE(streamed.err.find("tok/s"), std::string::npos);
  std::vector<std::string> whole = args;
  whole.insert(whole.end(), {"--no-stream", "--quiet"});
  const Outcome at_once = run_lily(whole);
  EXPECT_EQ(at_once.out, content);
  EXPECT_EQ(at_once.err, "");
}

TEST(Run, PromptsComeFromArgumentsAndStandardInputAlike) {
  const auto ids = [](const Outcome& outcome) { return json_of(outcome)["prompt_ids"]; };
  const std::vector<std::string> tail = {"--max-tokens", "1", "--json"};
  const auto with = [&](std::vector<std::string> args) {
    args.insert(args.end(), tail.begin(), tail.end());
    return args;
  };
  const ordered_json expected = ids(run_lily(with({"run", "-p", "hi there"})));
  EXPECT_EQ(ids(run_lily(with({"run", "-p", "-"}), "hi there")), expected);
  EXPECT_EQ(ids(run_lily(with({"run"}), "hi there\n")), expected);
  EXPECT_EQ(ids(run_lily(with({"run", "-p", "--dashed"}))), ids(run_lily(with({"run"}), "--dashed")));
  EXPECT_EQ(ids(run_lily(with({"run", "--raw", "-p", "<|im_start|>hi"}))).front(), 6068);
  EXPECT_EQ(ids(run_lily(with({"run"}), "a\xff")), ids(run_lily(with({"run"}), "a\uFFFD")));
  EXPECT_GT(ids(run_lily(with({"run", "-p", "hi there", "--system", "Be brief."}))).size(), expected.size());
  expect_refused(run_lily({"run", "-p", ""}), "the prompt is empty");
  expect_refused(run_lily({"run"}, " \n"), "the prompt is empty");
  expect_refused(run_lily({"run", "--token-ids", "[]"}), "the list is empty");
  expect_refused(run_lily({"run", "--token-ids", "1,6144"}), "6144");
}

TEST(Run, ToolCallsAreParsedAndShown) {
  const std::string tools = fresh_folder("tools") + "/tools.json";
  write_file(tools,
             R"([{"type": "function", "function": {"name": "get_weather", "description": "Get the weather for a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}])");
  const std::vector<std::string> args = {
      "run", "-p", "What is the weather in Paris?", "--tools", tools, "--no-think", "-t", "0", "--max-tokens", "120"};
  std::vector<std::string> with_json = args;
  with_json.emplace_back("--json");
  const ordered_json out = json_of(run_lily(with_json));
  EXPECT_EQ(out["finish_reason"], "tool_calls") << out["text"];
  ASSERT_TRUE(out["message"].contains("tool_calls")) << out["text"];
  EXPECT_EQ(out["message"]["tool_calls"][0]["function"]["name"], "get_weather");
  const Outcome shown = run_lily(args);
  EXPECT_NE(shown.out.find("[tool call] get_weather {"), std::string::npos) << shown.out;
}

TEST(Run, StopStringsAndBiasAreObeyed) {
  const std::vector<std::string> base = {"run",          "--raw", "-p",    "Once upon a time", "-t", "0",
                                         "--max-tokens", "30",    "--json"};
  const ordered_json free = json_of(run_lily(base));
  std::vector<std::string> stopped = base;
  stopped.insert(stopped.end(), {"--stop", "zzz", "--stop", " a "});
  const ordered_json cut = json_of(run_lily(stopped));
  ASSERT_NE(free["text"].get<std::string>().find(" a "), std::string::npos) << free["text"];
  EXPECT_EQ(cut["finish_reason"], "stop");
  EXPECT_EQ(cut["stop"], " a ");
  EXPECT_EQ(cut["text"].get<std::string>(),
            free["text"].get<std::string>().substr(0, free["text"].get<std::string>().find(" a ")));
  std::vector<std::string> biased = base;
  const std::string first = std::to_string(free["token_ids"][0].get<int>());
  biased.insert(biased.end(), {"--logit-bias", first + "=-100"});
  EXPECT_NE(json_of(run_lily(biased))["token_ids"][0], free["token_ids"][0]);
  expect_refused(run_lily({"run", "-p", "x", "--logit-bias", "abc"}), "--logit-bias");
  expect_refused(run_lily({"run", "-p", "x", "-t", "9"}), "temperature");
}

TEST(Run, APromptBeyondTheContextNamesBothNumbers) {
  std::string text;
  while (text.size() < 50000) text += "Once upon a time there was a king. ";
  const Outcome outcome = run_lily({"run", "-p", "-"}, text);
  expect_refused(outcome, "the context holds 4096");
  EXPECT_NE(outcome.err.find("the prompt has "), std::string::npos);
  expect_refused(run_lily({"run", "-p", "a b c d e f g h", "--ctx", "8"}), "the context holds 8");
}

TEST(Run, WorksWithoutALocale) {
  const Outcome outcome = run_lily(Launch{.args = {"run", "-p", "é 🙂", "--no-think", "--max-tokens", "3", "--json"},
                                          .input = {},
                                          .env = {{"LANG", "C"}, {"LC_ALL", "C"}}});
  EXPECT_FALSE(json_of(outcome)["prompt_ids"].empty());
}

TEST(Run, AModelThatDoesNotExistIsNamed) {
  expect_refused(run_lily({"run", "-m", "/nonexistent", "-p", "x"}),
                 "/nonexistent does not exist, expected the folder");
}

TEST(Run, EverySimdLevelAndActivationTypeRuns) {
  for (const char* activations : {"bf16", "f32"}) {
    const ordered_json out =
        json_of(run_lily({"run", "--token-ids", "1545,782,258,545", "--max-tokens", "5", "-t", "0", "--simd",
                          "portable", "--activations", activations, "--threads", "1", "--json"}));
    EXPECT_EQ(out["token_ids"][0], 456) << activations;
  }
}

TEST(Perplexity, EqualsTheReference) {
  const std::string folder = fresh_folder("perplexity");
  for (size_t i = 0; i < references().size(); ++i) {
    const ordered_json& reference = references()[i];
    write_file(folder + "/ids.json", reference["prompt_ids"].dump());
    const ordered_json out =
        json_of(run_lily({"perplexity", "--token-ids", folder + "/ids.json", "--activations", "f32", "--json"}));
    const size_t tokens = reference["prompt_ids"].size();
    EXPECT_EQ(out["tokens"], tokens);
    ASSERT_EQ(out["nll"].size(), tokens - 1);
    ASSERT_EQ(out["argmax"].size(), tokens);
    ASSERT_EQ(out["margin"].size(), tokens);
    EXPECT_NEAR(out["mean_nll"].get<double>(), reference["mean_nll"].get<double>(), 2e-3) << i;
    EXPECT_NEAR(out["perplexity"].get<double>(), std::exp(out["mean_nll"].get<double>()), 1e-9);
    for (size_t at = 0; at + 1 < tokens; ++at) {
      ASSERT_NEAR(out["nll"][at].get<double>(), reference["nll"][at].get<double>(), 0.02) << i << " " << at;
    }
    if (certain_tokens(reference, 0.01) > 0) {
      EXPECT_EQ(out["argmax"].back(), reference["greedy_ids"][0]) << i;
    }
  }
}

TEST(Perplexity, WindowsStartFreshAndTheTailIsDropped) {
  const std::string folder = fresh_folder("windows");
  std::vector<int> ids;
  for (const auto& id : references()[6]["prompt_ids"]) ids.push_back(id.get<int>());
  ids.resize(50);
  write_file(folder + "/ids.json", ordered_json(ids).dump());
  const ordered_json all =
      json_of(run_lily({"perplexity", "--token-ids", folder + "/ids.json", "--window", "20", "--json"}));
  EXPECT_EQ(all["tokens"], 40);
  EXPECT_EQ(all["windows"], 2);
  ASSERT_EQ(all["nll"].size(), 38U);
  ASSERT_EQ(all["argmax"].size(), 40U);
  write_file(folder + "/second.json", ordered_json(std::vector<int>(ids.begin() + 20, ids.begin() + 40)).dump());
  const ordered_json second = json_of(run_lily({"perplexity", "--token-ids", folder + "/second.json", "--json"}));
  for (size_t i = 0; i < 19; ++i) EXPECT_EQ(all["nll"][19 + i], second["nll"][i]) << i;
}

TEST(Perplexity, ReadsTextAndRefusesWhatDoesNotFit) {
  const std::string folder = fresh_folder("perplexity_text");
  write_file(folder + "/text.txt", "Once upon a time there was a king who had a daughter.");
  const Outcome text = run_lily({"perplexity", "--file", folder + "/text.txt"});
  EXPECT_EQ(text.exit, 0) << text.err;
  EXPECT_TRUE(text.out.starts_with("perplexity ")) << text.out;
  expect_refused(run_lily({"perplexity"}), "either --token-ids FILE or --file TEXT");
  write_file(folder + "/one.json", "[1]");
  expect_refused(run_lily({"perplexity", "--token-ids", folder + "/one.json"}), "the input has 1 tokens");
  write_file(folder + "/many.json", ordered_json(std::vector<int>(5000, 1)).dump());
  const Outcome many = run_lily({"perplexity", "--token-ids", folder + "/many.json"});
  expect_refused(many, "5000");
  EXPECT_NE(many.err.find("4096"), std::string::npos);
  write_file(folder + "/foreign.json", "[1, 6144]");
  expect_refused(run_lily({"perplexity", "--token-ids", folder + "/foreign.json"}), "6144");
  expect_refused(run_lily({"perplexity", "--file", folder + "/none.txt"}), "none.txt");
}

TEST(Bench, JsonFollowsTheContract) {
  const ordered_json out =
      json_of(run_lily({"bench", "--prompt-tokens", "70", "--decode-steps", "6", "--repeat", "2", "--json"}));
  EXPECT_EQ(out["schema_version"], 1);
  EXPECT_EQ(out["meta"]["backend"], "cpu");
  EXPECT_EQ(out["workload"]["prompt_len"], 70);
  EXPECT_EQ(out["workload"]["prompt_kind"], "u32_golden_ratio_hash_mod_vocab");
  EXPECT_EQ(out["workload"]["decode_steps"], 6);
  EXPECT_GT(out["results"]["prefill"]["tok_s"].get<double>(), 0);
  EXPECT_GT(out["results"]["decode"]["tok_s"].get<double>(), 0);
  EXPECT_EQ(out["results"]["decode"]["step_wall_secs"].size(), 6U);
  EXPECT_EQ(out["results"]["decode"]["token_ids"].size(), 6U);
  EXPECT_EQ(out["repeats"].size(), 2U);
  EXPECT_EQ(out["repeats"][0]["decode"]["token_digest"], out["repeats"][1]["decode"]["token_digest"]);
  EXPECT_GT(out["probe"]["gb_per_second"].get<double>(), 0);
  EXPECT_GT(out["limits"]["bytes_per_token"].get<uint64_t>(), 1000000U);
}

TEST(Bench, TheWorkIsThatOfRun) {
  const ordered_json bench =
      json_of(run_lily({"bench", "--prompt-tokens", "70", "--decode-steps", "6", "--repeat", "1", "--json"}));
  std::string ids;
  for (uint32_t i = 0; i < 70; ++i) ids += std::to_string(i * 2654435761U % 6144) + " ";
  const ordered_json run =
      json_of(run_lily({"run", "--token-ids", ids, "-t", "0", "--ignore-eos", "--max-tokens", "7", "--json"}));
  EXPECT_EQ(run["token_ids"][0], bench["results"]["prefill"]["first_token_id"]);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(run["token_ids"][i + 1], bench["results"]["decode"]["token_ids"][i]);
}

TEST(Bench, SeveralLengthsAndRefusals) {
  const ordered_json out =
      json_of(run_lily({"bench", "--prompt-tokens", "3,5", "--decode-steps", "2", "--repeat", "1", "--json"}));
  ASSERT_EQ(out["points"].size(), 2U);
  EXPECT_EQ(out["points"][1]["workload"]["prompt_len"], 5);
  const Outcome text = run_lily({"bench", "--prompt-tokens", "3", "--decode-steps", "2", "--repeat", "1"});
  EXPECT_EQ(text.exit, 0) << text.err;
  EXPECT_NE(text.out.find("decode reads"), std::string::npos) << text.out;
  expect_refused(run_lily({"bench", "--prompt-tokens", "5000"}), "but it holds 4096");
}

}  // namespace
}  // namespace lily::test
