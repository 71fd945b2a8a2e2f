// A fixed team of threads that walk through a job in lockstep: the caller is thread 0, barriers spin about 20 us and
// then park.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace lily::cpu {

/// Physical cores that this process may run on: its affinity mask and its control group's quota on Linux, performance
/// cores on macOS, logical processors elsewhere. At least 1.
uint32_t usable_cores();

class ThreadPool {
 public:
  /// Throws Error(kMemory) when the system starts fewer threads.
  explicit ThreadPool(uint32_t threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ThreadPool(ThreadPool&&) = delete;
  ThreadPool& operator=(ThreadPool&&) = delete;

  uint32_t threads() const { return threads_; }
  /// Runs job(thread) on every thread and returns when all are done. One caller at a time.
  void run(const std::function<void(uint32_t)>& job);
  /// Called by every thread inside a job: none passes before all have arrived; what was written before is visible
  /// after.
  void barrier();

 private:
  void worker(uint32_t thread);
  void stop();

  uint32_t threads_;
  std::vector<std::thread> workers_;
  const std::function<void(uint32_t)>* job_ = nullptr;
  alignas(64) std::atomic<uint32_t> epoch_{0};
  alignas(64) std::atomic<uint32_t> arrived_{0};
  alignas(64) std::atomic<uint32_t> generation_{0};
  std::atomic<bool> stopping_{false};
};

}  // namespace lily::cpu
