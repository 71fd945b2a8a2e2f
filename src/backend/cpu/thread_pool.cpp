#include "backend/cpu/thread_pool.h"

#include <pthread.h>
#if defined(__linux__)
#include <sched.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#endif

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace lily::cpu {
namespace {

constexpr auto kSpin = std::chrono::microseconds(20);

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Returns once `word` differs from `old`: spins for kSpin, then sleeps.
void wait_change(const std::atomic<uint32_t>& word, uint32_t old) {
  const auto start = std::chrono::steady_clock::now();
  do {
    for (int i = 0; i < 64; ++i) {
      if (word.load(std::memory_order_acquire) != old) {
        return;
      }
      relax();
    }
  } while (std::chrono::steady_clock::now() - start < kSpin);
  while (word.load(std::memory_order_acquire) == old) {
    word.wait(old, std::memory_order_acquire);
  }
}

#if defined(__linux__)
/// Whole processors that the control group's quota pays for; UINT32_MAX without a quota.
uint32_t quota_cores() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0.0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0.0) {
    return UINT32_MAX;
  }
  const double cores = std::strtod(quota.c_str(), nullptr) / period;
  return cores >= 1.0 ? static_cast<uint32_t>(cores + 0.5) : 1;
}
#endif

}  // namespace

uint32_t usable_cores() {
  uint32_t logical = std::max(1U, std::thread::hardware_concurrency());
#if defined(__linux__)
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
    logical = std::max(1U, static_cast<uint32_t>(CPU_COUNT(&allowed)));
    std::set<std::pair<uint32_t, uint32_t>> cores;
    for (uint32_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &allowed)) {
        continue;
      }
      const std::string base = fmt::format("/sys/devices/system/cpu/cpu{}/topology/", cpu);
      uint32_t package = 0;
      uint32_t core = cpu;
      std::ifstream(base + "physical_package_id") >> package;
      std::ifstream(base + "core_id") >> core;
      cores.emplace(package, core);
    }
    if (!cores.empty()) {
      logical = std::min(logical, static_cast<uint32_t>(cores.size()));
    }
  }
  logical = std::min(logical, quota_cores());
#elif defined(__APPLE__)
  // Performance cores where there are two kinds: shares are equal, so the slowest core sets the pace.
  for (const char* name : {"hw.perflevel0.physicalcpu", "hw.physicalcpu"}) {
    uint32_t count = 0;
    size_t size = sizeof count;
    if (sysctlbyname(name, &count, &size, nullptr, 0) == 0 && count > 0) {
      return count;
    }
  }
#endif
  return logical;
}

ThreadPool::ThreadPool(uint32_t threads) : threads_(threads) {
  LILY_CHECK(threads >= 1, "a pool needs at least one thread");
  workers_.reserve(threads - 1);
  // Signals belong to the thread that reads them; workers take none.
  sigset_t all;
  sigset_t previous;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &previous);
  std::string failure;
  for (uint32_t thread = 1; thread < threads && failure.empty(); ++thread) {
    try {
      workers_.emplace_back([this, thread] { worker(thread); });
    } catch (const std::system_error& error) {
      failure = fmt::format("cannot start thread {} of {}: {}", thread + 1, threads, error.what());
    }
  }
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
  if (!failure.empty()) {
    stop();
    throw Error(ErrorCode::kMemory, "{}", failure);
  }
}

ThreadPool::~ThreadPool() {
  stop();
}

void ThreadPool::stop() {
  stopping_.store(true, std::memory_order_release);
  epoch_.fetch_add(1, std::memory_order_acq_rel);
  epoch_.notify_all();
  for (std::thread& worker_thread : workers_) {
    worker_thread.join();
  }
}

void ThreadPool::run(const std::function<void(uint32_t)>& job) {
  if (threads_ == 1) {
    job(0);
    return;
  }
  job_ = &job;
  epoch_.fetch_add(1, std::memory_order_acq_rel);
  epoch_.notify_all();
  job(0);
  barrier();
}

void ThreadPool::barrier() {
  if (threads_ == 1) {
    return;
  }
  const uint32_t generation = generation_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
    arrived_.store(0, std::memory_order_relaxed);
    generation_.fetch_add(1, std::memory_order_acq_rel);
    generation_.notify_all();
    return;
  }
  wait_change(generation_, generation);
}

void ThreadPool::worker(uint32_t thread) {
  uint32_t seen = 0;
  while (true) {
    wait_change(epoch_, seen);
    ++seen;
    if (stopping_.load(std::memory_order_acquire)) {
      return;
    }
    (*job_)(thread);
    barrier();
  }
}

}  // namespace lily::cpu
