#include "plan/plan.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace lily {

void Plan::add(const Op& op) {
  for (const Access& access : accesses(op)) {
    LILY_CHECK(access.ref.valid() && access.ref.buffer < buffers.size(),
               "{}: {} has an operand that was never declared", name, lily::name(op));
    const PlanBuffer& buffer = buffers[access.ref.buffer];
    LILY_CHECK(access.ref.offset + access.ref.bytes <= buffer.bytes, "{}: {} reaches byte {} of {}, which has {}", name,
               lily::name(op), access.ref.offset + access.ref.bytes, buffer.name, buffer.bytes);
  }
  for (const Weight weight : weights(op)) {
    LILY_CHECK(weight.index < weight_table->views.size(), "{}: {} names a weight that is not in the table", name,
               lily::name(op));
  }
  ops.push_back(op);
}

uint32_t Plan::state(std::string_view buffer_name) const {
  const auto found =
      std::find_if(buffers.begin(), buffers.end(), [&](const PlanBuffer& b) { return b.name == buffer_name; });
  LILY_CHECK(found != buffers.end() && found->kind == BufferKind::kState, "{}: no state buffer called {}", name,
             buffer_name);
  return static_cast<uint32_t>(found - buffers.begin());
}

PlanBuilder::PlanBuilder(std::string name, const ModelShape& shape, const StateSizes& sizes, const PlanOptions& options,
                         const WeightTable& weights) {
  LILY_CHECK(options.max_rows > 0, "{}: a plan needs at least one row", name);
  plan_.name = std::move(name);
  plan_.options = options;
  plan_.sizes = sizes;
  plan_.shape = shape;
  plan_.weight_table = &weights;
}

Ref PlanBuilder::declare(std::string name, BufferKind kind, uint64_t bytes) {
  LILY_CHECK(bytes > 0, "{}: buffer {} is empty", plan_.name, name);
  plan_.buffers.push_back({std::move(name), kind, bytes});
  return {static_cast<uint32_t>(plan_.buffers.size() - 1), 0, bytes};
}

Ref PlanBuilder::temp(std::string name, uint64_t bytes) {
  return declare(std::move(name), BufferKind::kTemp, bytes);
}
Ref PlanBuilder::state(std::string name, uint64_t bytes) {
  return declare(std::move(name), BufferKind::kState, bytes);
}

uint64_t weight_bytes_read(const Plan& plan, uint32_t rows) {
  uint64_t total = 0;
  for (const Op& op : plan.ops) {
    for (const Weight weight : weights(op)) {
      const WeightView& view = plan.weight_table->view(weight);
      if (std::holds_alternative<EmbedTokens>(op)) {
        total += view.bytes / view.rows * std::min(rows, view.rows);
      } else if (view.experts > 1) {
        const uint64_t touched = std::min<uint64_t>(view.experts, uint64_t{rows} * plan.shape.experts_per_token);
        total += view.bytes / view.experts * touched;
      } else {
        total += view.bytes;
      }
    }
  }
  return total;
}

std::string dump(const Plan& plan) {
  std::string text =
      fmt::format("plan {} rows {} context {} activation {}\n", plan.name, plan.options.max_rows,
                  plan.options.max_context, plan.options.activation == ActivationType::kBf16 ? "bf16" : "f32");
  const auto range = [&](const Ref& ref) {
    const PlanBuffer& buffer = plan.buffers[ref.buffer];
    return ref.offset == 0 && ref.bytes == buffer.bytes
               ? buffer.name
               : fmt::format("{}[{}..{})", buffer.name, ref.offset, ref.offset + ref.bytes);
  };
  for (const Op& op : plan.ops) {
    text += fmt::format("  {:<20}", name(op));
    for (const Weight weight : weights(op)) {
      text += fmt::format(" w:{}", plan.weight_table->view(weight).name);
    }
    for (const Access& access : accesses(op)) {
      text += fmt::format(" {}:{}", access.writes ? "out" : "in", range(access.ref));
    }
    text += '\n';
  }
  return text;
}

}  // namespace lily
