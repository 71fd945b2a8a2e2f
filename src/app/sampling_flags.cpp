#include "app/sampling_flags.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdlib>
#include <system_error>
#include <utility>

namespace lily {
namespace {

constexpr const char* kGroup = "Sampling";

Result<std::pair<uint32_t, double>> parse_bias(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals != std::string::npos) {
    uint32_t id = 0;
    const char* end_of_id = text.data() + equals;
    const auto [stop, error] = std::from_chars(text.data(), end_of_id, id);
    const char* number = text.c_str() + equals + 1;
    char* end = nullptr;
    const double value = std::strtod(number, &end);
    if (error == std::errc{} && stop == end_of_id && end != number && *end == '\0') return std::pair(id, value);
  }
  return invalid("--logit-bias: \"{}\" is not id=value, such as 1024=-100", text);
}

}  // namespace

void add_sampling_flags(CLI::App& command, SamplingFlags& flags) {
  SamplingOptions& sampling = flags.sampling;
  command
      .add_option("-n,--max-tokens", flags.max_tokens, "Longest answer, in tokens (default: what the context holds)")
      ->group(kGroup);
  command.add_option("-t,--temperature", sampling.temperature, "0: always the most likely token; up to 2")
      ->group(kGroup);
  command.add_option("--top-k", sampling.top_k, "Draw among the k most likely tokens; 0: all")->group(kGroup);
  command.add_option("--top-p", sampling.top_p, "Draw among the most likely tokens that make up this probability")
      ->group(kGroup);
  command
      .add_option("--min-p", sampling.min_p, "Leave out tokens below this share of the most likely one's probability")
      ->group(kGroup);
  command
      .add_option("--presence-penalty", sampling.presence_penalty, "-2 to 2, once for every token already generated")
      ->group(kGroup);
  command
      .add_option("--frequency-penalty", sampling.frequency_penalty, "-2 to 2, for every time a token was generated")
      ->group(kGroup);
  command
      .add_option("--repetition-penalty", sampling.repetition_penalty,
                  "Above 0, 1: off; makes tokens of prompt and answer less likely")
      ->group(kGroup);
  command.add_option("--seed", sampling.seed, "Seed of the random draws (default: a new one every time)")
      ->group(kGroup);
  command
      .add_option("--logit-bias", flags.logit_bias, "id=value, added to the logit of a token; -100 bans it; repeatable")
      ->type_name("ID=VALUE")
      ->allow_extra_args(false)
      ->group(kGroup);
  command.add_option("--stop", flags.stop, "Text that ends the answer and is left out of it; repeatable")
      ->allow_extra_args(false)
      ->group(kGroup);
}

Result<GenerateRequest> request_from(const SamplingFlags& flags) {
  GenerateRequest request;
  request.sampling = flags.sampling;
  for (const std::string& text : flags.logit_bias) {
    Result<std::pair<uint32_t, double>> bias = parse_bias(text);
    if (!bias) return bias.failure();
    request.sampling.logit_bias.push_back(bias.value());
  }
  request.stop_strings = flags.stop;
  request.max_tokens = flags.max_tokens;
  return request;
}

}  // namespace lily
