#include "app/sampling_flags.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "model/sampling_limits.h"
#include "text/unicode.h"

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

using Check = std::function<std::string(const std::string&)>;

/// Decimal digits that mean what they say: CLI11 would take 010 for 8 and a negative number for a huge one.
template <typename T>
Check whole_number(T low, std::string expected) {
  return [low, expected = std::move(expected)](const std::string& text) {
    T value = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const size_t sign = text.starts_with('-') ? 1 : 0;
    const bool octal = text.size() > sign + 1 && text[sign] == '0';
    const bool good = error == std::errc{} && stop == text.data() + text.size() && !octal && value >= low;
    return good ? std::string() : fmt::format("expected {}, found \"{}\"", expected, text);
  };
}

Check number(const SamplingLimits& limits) {
  return [limits](const std::string& text) {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    const bool decimal = text.find_first_not_of("0123456789+-.eE") == std::string::npos;
    const bool good = !text.empty() && decimal && *end == '\0' && limits.holds(value);
    return good ? std::string() : fmt::format("expected a number from {}, found \"{}\"", limits.text, text);
  };
}

}  // namespace

std::function<std::string(const std::string&)> seed_check() {
  return whole_number<uint64_t>(0, fmt::format("a whole number from 0 to {}", UINT64_MAX));
}

void add_sampling_flags(CLI::App& command, SamplingFlags& flags) {
  SamplingOptions& sampling = flags.sampling;
  command
      .add_option("-n,--max-tokens", flags.max_tokens, "Longest answer, in tokens (default: what the context holds)")
      ->check(whole_number<uint32_t>(1, fmt::format("a whole number from 1 to {}", UINT32_MAX)))
      ->group(kGroup);
  command.add_option("-t,--temperature", sampling.temperature, "0: always the most likely token; up to 2")
      ->check(number(kTemperatureLimits))
      ->group(kGroup);
  command.add_option("--top-k", sampling.top_k, "Draw among the k most likely tokens; 0: all")
      ->check(whole_number<int64_t>(-1, fmt::format("a whole number: {}", kTopKLimits.text)))
      ->group(kGroup);
  command.add_option("--top-p", sampling.top_p, "Draw among the most likely tokens that make up this probability")
      ->check(number(kTopPLimits))
      ->group(kGroup);
  command
      .add_option("--min-p", sampling.min_p, "Leave out tokens below this share of the most likely one's probability")
      ->check(number(kMinPLimits))
      ->group(kGroup);
  command
      .add_option("--presence-penalty", sampling.presence_penalty, "-2 to 2, once for every token already generated")
      ->check(number(kPresencePenaltyLimits))
      ->group(kGroup);
  command
      .add_option("--frequency-penalty", sampling.frequency_penalty, "-2 to 2, for every time a token was generated")
      ->check(number(kFrequencyPenaltyLimits))
      ->group(kGroup);
  command
      .add_option("--repetition-penalty", sampling.repetition_penalty,
                  "Above 0, 1: off; makes tokens of prompt and answer less likely")
      ->check(number(kRepetitionPenaltyLimits))
      ->group(kGroup);
  command.add_option("--seed", sampling.seed, "Seed of the random draws (default: a new one every time)")
      ->check(seed_check())
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
  for (size_t i = 0; i < flags.stop.size(); ++i) {
    if (!is_valid_utf8(flags.stop[i])) return invalid("--stop: text {} is not valid UTF-8", i + 1);
  }
  request.stop_strings = flags.stop;
  request.max_tokens = flags.max_tokens;
  return request;
}

}  // namespace lily
