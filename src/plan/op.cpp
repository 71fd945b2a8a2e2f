#include "plan/op.h"

#include <iterator>

namespace lily {
namespace {

template <typename... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <typename... F>
Overloaded(F...) -> Overloaded<F...>;

Access reads(Ref ref) {
  return {ref, false};
}
Access writes(Ref ref) {
  return {ref, true};
}

std::vector<Access> with_groups(std::vector<Access> list, Ref groups) {
  if (groups.valid()) {
    list.push_back(reads(groups));
  }
  return list;
}

}  // namespace

std::vector<Access> accesses(const Op& op) {
  using List = std::vector<Access>;
  return std::visit(
      Overloaded{
          [](const EmbedTokens& o) -> List {
            return {reads(o.mailbox), writes(o.out)};
          },
          [](const NormLinear& o) -> List {
            return {reads(o.x), writes(o.out)};
          },
          [](const LinearResidual& o) -> List {
            return {reads(o.x), writes(o.residual)};
          },
          [](const GatedDeltaNet& o) -> List {
            return {reads(o.proj), writes(o.state), writes(o.window), writes(o.out)};
          },
          [](const QkNormRopeAppend& o) -> List {
            return {reads(o.proj), reads(o.block_table), writes(o.query), writes(o.keys), writes(o.values)};
          },
          [](const Attention& o) -> List {
            return {reads(o.query), reads(o.proj), reads(o.keys), reads(o.values), reads(o.block_table), writes(o.out)};
          },
          [](const NormRouter& o) -> List {
            return {reads(o.residual), writes(o.normed), writes(o.logits)};
          },
          [](const RouterTopK& o) -> List {
            return {reads(o.logits), writes(o.experts), writes(o.scores)};
          },
          [](const ExpertGroup& o) -> List {
            return {reads(o.experts), writes(o.groups)};
          },
          [](const ExpertGateUp& o) -> List {
            return with_groups({reads(o.normed), reads(o.experts), writes(o.hidden), writes(o.shared_hidden)},
                               o.groups);
          },
          [](const ExpertDownCombine& o) -> List {
            return with_groups(
                {reads(o.hidden), reads(o.shared_hidden), reads(o.experts), reads(o.scores), writes(o.residual)},
                o.groups);
          },
          [](const FinalNorm& o) -> List {
            return {reads(o.residual), writes(o.out)};
          },
          [](const LmHead& o) -> List {
            return {reads(o.x), writes(o.logits)};
          },
          [](const CaptureHidden& o) -> List {
            return {reads(o.residual), writes(o.out)};
          },
          [](const Sample& o) -> List {
            return {reads(o.logits), writes(o.token_counts), writes(o.mailbox), writes(o.samples)};
          },
      },
      op);
}

std::vector<Weight> weights(const Op& op) {
  using List = std::vector<Weight>;
  return std::visit(Overloaded{
                        [](const EmbedTokens& o) -> List { return {o.table}; },
                        [](const NormLinear& o) -> List {
                          return {o.gain, o.weight};
                        },
                        [](const LinearResidual& o) -> List { return {o.weight}; },
                        [](const GatedDeltaNet& o) -> List {
                          return {o.conv, o.a_log, o.dt_bias, o.norm};
                        },
                        [](const QkNormRopeAppend& o) -> List {
                          return {o.q_norm, o.k_norm};
                        },
                        [](const NormRouter& o) -> List {
                          return {o.gain, o.router};
                        },
                        [](const ExpertGateUp& o) -> List {
                          return {o.gate_up, o.shared_gate_up};
                        },
                        [](const ExpertDownCombine& o) -> List {
                          return {o.down, o.shared_down};
                        },
                        [](const FinalNorm& o) -> List { return {o.gain}; },
                        [](const LmHead& o) -> List { return {o.weight}; },
                        [](const auto&) -> List { return {}; },
                    },
                    op);
}

std::string_view name(const Op& op) {
  constexpr std::string_view kNames[] = {
      "embed_tokens",        "norm_linear", "linear_residual", "gated_delta_net", "qk_norm_rope_append",
      "attention",           "norm_router", "router_top_k",    "expert_group",    "expert_gate_up",
      "expert_down_combine", "final_norm",  "lm_head",         "capture_hidden",  "sample"};
  static_assert(std::size(kNames) == std::variant_size_v<Op>);
  return kNames[op.index()];
}

}  // namespace lily
