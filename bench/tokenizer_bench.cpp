// Speed of Tokenizer::encode in bytes a second on one thread. Reads a text of the caller's choice:
//   LILY_BENCH_TEXT=file LILY_BENCH_MODEL=folder tokenizer_bench     (model default: models/demo)
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <random>
#include <string>

#include "base/mapped_file.h"
#include "text/tokenizer.h"

namespace lily {
namespace {

constexpr size_t kTextBytes = size_t{4} << 20U;

const Tokenizer& tokenizer() {
  static const Tokenizer loaded = [] {
    const char* folder = std::getenv("LILY_BENCH_MODEL");
    return Tokenizer::load(folder != nullptr ? folder : LILY_SOURCE_DIR "/models/demo");
  }();
  return loaded;
}

void encode(benchmark::State& state, const std::string& text) {
  const Tokenizer& model = tokenizer();
  size_t tokens = 0;
  for (auto iteration : state) {
    (void)iteration;
    tokens += model.encode(text, AddedTokens::kAllow).size();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(text.size()));
  state.counters["tokens/s"] = benchmark::Counter(static_cast<double>(tokens), benchmark::Counter::kIsRate);
}

void BM_EncodeText(benchmark::State& state) {
  const char* path = std::getenv("LILY_BENCH_TEXT");
  if (path == nullptr) {
    state.SkipWithError("set LILY_BENCH_TEXT to a text file");
    return;
  }
  const std::string once = read_file(path, kTextBytes);
  std::string text;
  while (!once.empty() && text.size() < kTextBytes) {
    text += once;
  }
  encode(state, text);
}
BENCHMARK(BM_EncodeText)->Unit(benchmark::kMillisecond);

// Words that never come twice: no help from the cache.
void BM_EncodeNewWords(benchmark::State& state) {
  std::mt19937 random(1);
  std::string text;
  while (text.size() < kTextBytes) {
    for (auto left = 3 + random() % 8; left != 0; --left) {
      text.push_back(static_cast<char>('a' + random() % 26));
    }
    text.push_back(' ');
  }
  encode(state, text);
}
BENCHMARK(BM_EncodeNewWords)->Unit(benchmark::kMillisecond);

// One piece of the given length, for the heap.
void BM_EncodeOnePiece(benchmark::State& state) {
  std::mt19937 random(2);
  std::string text;
  while (text.size() < static_cast<size_t>(state.range(0))) {
    text.push_back(static_cast<char>('a' + random() % 26));
  }
  encode(state, text);
}
BENCHMARK(BM_EncodeOnePiece)->Arg(32)->Arg(64)->Arg(65)->Arg(1 << 10)->Arg(1 << 20);

void BM_Load(benchmark::State& state) {
  const char* folder = std::getenv("LILY_BENCH_MODEL");
  for (auto iteration : state) {
    (void)iteration;
    benchmark::DoNotOptimize(Tokenizer::load(folder != nullptr ? folder : LILY_SOURCE_DIR "/models/demo"));
  }
}
BENCHMARK(BM_Load)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lily

BENCHMARK_MAIN();
