#include "backend/cpu/sample_launch.h"

#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>

#include "base/error.h"

namespace lily::cpu {
namespace {

constexpr uint32_t kPromptBit = 0x80000000U;

struct Candidate {
  uint32_t id;
  float logit;
};

/// Larger logit first, lower id on ties.
bool before(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

/// e^((logit - top) / temperature) of a candidate.
double weight_of(const Candidate& candidate, double top, float temperature) {
  return std::exp((static_cast<double>(candidate.logit) - top) / static_cast<double>(temperature));
}

/// Cuts the candidates to the smallest set of most likely ones whose weights reach `share` of `total`, best first.
/// Sorts a growing prefix only: a whole vocabulary takes tens of milliseconds.
void keep_share(std::vector<Candidate>& candidates, float temperature, double share, double total) {
  const auto top = static_cast<double>(std::min_element(candidates.begin(), candidates.end(), before)->logit);
  double sum = 0.0;
  size_t sorted = 0;
  for (size_t wanted = 64; sorted < candidates.size(); wanted *= 8) {
    const size_t end = std::min(candidates.size(), wanted);
    std::partial_sort(candidates.begin() + static_cast<std::ptrdiff_t>(sorted),
                      candidates.begin() + static_cast<std::ptrdiff_t>(end), candidates.end(), before);
    for (; sorted < end; ++sorted) {
      sum += weight_of(candidates[sorted], top, temperature);
      if (sum >= share * total) {
        candidates.resize(sorted + 1);
        return;
      }
    }
  }
}

class SampleLaunch : public Launch {
 public:
  SampleLaunch(const KernelTable& kernels, const ModelShape& shape, uint32_t max_logit_rows, const Sample& op)
      : Launch("sample", lily::accesses(Op(op))),
        kernels_(kernels),
        vocab_(shape.vocab),
        max_logit_rows_(max_logit_rows),
        op_(op) {}
  uint32_t items(const StepView& step) const override { return static_cast<uint32_t>(step.step->samples.size()); }
  uint32_t grain(const StepView&) const override { return 1; }

  void run(const StepView& step, ItemRange range, const Worker& worker) const override {
    const Addresses& memory = *worker.memory;
    for (uint32_t item = range.begin; item < range.end; ++item) {
      const SampleParams& params = step.step->samples[item];
      LILY_CHECK(params.logit_row < max_logit_rows_, "logit row {} of {}", params.logit_row, max_logit_rows_);
      const float* logits = memory.at<float>(op_.logits) + uint64_t{params.logit_row} * vocab_;
      uint32_t* counts = memory.at<uint32_t>(op_.token_counts) + uint64_t{params.sequence} * vocab_;
      SampleResult& result = memory.at<SampleResult>(op_.samples)[uint64_t{step.step->ring} * max_logit_rows_ + item];
      result = {};
      const LogitScan scan = kernels_.scan_logits(logits, vocab_);
      if (scan.non_finite != 0) {
        result.non_finite = 1;
        memory.at<int32_t>(op_.mailbox)[params.sequence] =
            0;  // a valid id, so that a step already in flight stays in bounds
        continue;
      }
      const std::optional<uint32_t> token = draw(params, logits, counts, scan);
      memory.at<int32_t>(op_.mailbox)[params.sequence] = static_cast<int32_t>(token.value_or(0));
      if (!token.has_value()) {
        continue;  // every token is banned: result.token stays -1
      }
      result.token = static_cast<int32_t>(*token);
      if (params.counts_tokens()) {
        ++counts[*token];
      }
      if (params.want_logprob || params.top_logprobs > 0) {
        report(params, logits, scan, result);
      }
    }
  }

 private:
  static bool plain_argmax(const SampleParams& params) {
    return params.temperature == 0.0F && !params.counts_tokens() && params.bias.empty() && params.banned.empty() &&
           params.mask == nullptr;
  }

  /// nullopt: bias, bans and mask leave no token.
  static std::optional<uint32_t> draw(const SampleParams& params, const float* logits, const uint32_t* counts,
                                      const LogitScan& scan) {
    if (plain_argmax(params) && scan.argmax < params.vocabulary) {
      return scan.argmax;
    }
    std::vector<Candidate> candidates = allowed(params, logits, counts);
    if (candidates.empty()) {
      return std::nullopt;
    }
    if (params.temperature == 0.0F) {
      return std::min_element(candidates.begin(), candidates.end(), before)->id;
    }
    if (params.top_k != 0 && params.top_k < candidates.size()) {
      std::nth_element(candidates.begin(), candidates.begin() + params.top_k, candidates.end(), before);
      candidates.resize(params.top_k);
    }
    return pick(params, candidates);
  }

  /// Ids that may be drawn, with bias and penalties applied.
  static std::vector<Candidate> allowed(const SampleParams& params, const float* logits, const uint32_t* counts) {
    std::vector<float> adjusted(logits, logits + params.vocabulary);
    for (const auto& [id, value] : params.bias) {
      adjusted[id] += value;
    }
    for (const uint32_t id : params.banned) {
      adjusted[id] = -std::numeric_limits<float>::infinity();
    }
    if (params.counts_tokens()) {
      for (uint32_t id = 0; id < params.vocabulary; ++id) {
        if (counts[id] == 0) {
          continue;
        }
        adjusted[id] =
            adjusted[id] > 0.0F ? adjusted[id] / params.repetition_penalty : adjusted[id] * params.repetition_penalty;
        const uint32_t generated = counts[id] & ~kPromptBit;
        if (generated > 0) {
          adjusted[id] -= params.presence_penalty + params.frequency_penalty * static_cast<float>(generated);
        }
      }
    }
    std::vector<Candidate> candidates;
    candidates.reserve(params.vocabulary);
    for (uint32_t id = 0; id < params.vocabulary; ++id) {
      const bool masked = params.mask != nullptr && (params.mask[id / 32] >> (id % 32) & 1U) == 0;
      if (!masked && adjusted[id] > -std::numeric_limits<float>::infinity()) {
        candidates.push_back({id, adjusted[id]});
      }
    }
    return candidates;
  }

  /// Temperature, top-p, min-p and the draw. Candidates stand in id order unless a filter has sorted them.
  static uint32_t pick(const SampleParams& params, std::vector<Candidate>& candidates) {
    const auto top = static_cast<double>(std::min_element(candidates.begin(), candidates.end(), before)->logit);
    const auto weight = [&](const Candidate& candidate) { return weight_of(candidate, top, params.temperature); };
    const auto total_weight = [&] {
      double total = 0.0;
      for (const Candidate& candidate : candidates) {
        total += weight(candidate);
      }
      return total;
    };
    if (params.top_k != 0) {
      std::sort(candidates.begin(), candidates.end(), before);
    }
    if (params.top_p < 1.0F) {
      keep_share(candidates, params.temperature, static_cast<double>(params.top_p), total_weight());
    }
    if (params.min_p > 0.0F) {  // relative to the best, whose weight is 1
      std::erase_if(candidates,
                    [&](const Candidate& candidate) { return weight(candidate) < static_cast<double>(params.min_p); });
    }
    double rest = sampling_uniform(params.seed, params.choice, params.position) * total_weight();
    for (size_t i = 0; i + 1 < candidates.size(); ++i) {
      rest -= weight(candidates[i]);
      if (rest < 0.0) {
        return candidates[i].id;
      }
    }
    return candidates.back().id;
  }

  /// Log-probabilities of the raw logits over the real vocabulary; padding ids, however large, have no part in them.
  void report(const SampleParams& params, const float* logits, const LogitScan& scan, SampleResult& result) const {
    const float top =
        scan.argmax < params.vocabulary ? scan.maximum : *std::max_element(logits, logits + params.vocabulary);
    const uint32_t whole = params.vocabulary / 16 * 16;
    double total = whole > 0 ? static_cast<double>(kernels_.sum_exp(logits, whole, top, 1.0F)) : 0.0;
    for (uint32_t id = whole; id < params.vocabulary; ++id) {
      total += std::exp(static_cast<double>(logits[id]) - static_cast<double>(top));
    }
    const double log_total = std::log(total) + static_cast<double>(top);
    const auto logprob = [&](uint32_t id) { return static_cast<float>(static_cast<double>(logits[id]) - log_total); };
    result.logprob = logprob(static_cast<uint32_t>(result.token));
    std::vector<Candidate> best;
    for (uint32_t id = 0; id < params.vocabulary && params.top_logprobs > 0; ++id) {
      const Candidate candidate{id, logits[id]};
      if (best.size() == params.top_logprobs && !before(candidate, best.back())) {
        continue;
      }
      best.insert(std::upper_bound(best.begin(), best.end(), candidate, before), candidate);
      if (best.size() > params.top_logprobs) {
        best.pop_back();
      }
    }
    result.top_count = static_cast<uint32_t>(best.size());
    for (uint32_t i = 0; i < result.top_count; ++i) {
      result.top_ids[i] = best[i].id;
      result.top_logprobs[i] = logprob(best[i].id);
    }
  }

  const KernelTable& kernels_;
  uint32_t vocab_;
  uint32_t max_logit_rows_;
  Sample op_;
};

}  // namespace

double sampling_uniform(uint64_t seed, uint32_t choice, uint32_t position) {
  const uint64_t bits = mix(mix(mix(seed) ^ choice) ^ (uint64_t{position} << 32));
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

void lower_sample(std::vector<std::unique_ptr<Launch>>& launches, const KernelTable& kernels, const ModelShape& shape,
                  uint32_t max_logit_rows, const Sample& op) {
  launches.push_back(std::make_unique<SampleLaunch>(kernels, shape, max_logit_rows, op));
}

}  // namespace lily::cpu
