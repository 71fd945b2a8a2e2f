#include "backend/cpu/memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace lily::cpu {
namespace {

constexpr uint64_t kHugePage = uint64_t{2} << 20;
constexpr uint64_t kPage = 4096;  // threads' scratch starts at its multiples, so that no two share a cache line

}  // namespace

Memory::Memory(uint64_t bytes, std::string_view name) : bytes_(bytes) {
  if (bytes == 0) {
    return;
  }
  void* mapping = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) {
    throw Error(ErrorCode::kMemory, "cannot allocate {} bytes for {}: {}", bytes, name, std::strerror(errno));
  }
  data_ = static_cast<std::byte*>(mapping);
#if defined(MADV_HUGEPAGE)
  if (bytes >= kHugePage) {
    ::madvise(mapping, bytes, MADV_HUGEPAGE);
  }
#endif
}

Memory::~Memory() {
  if (data_ != nullptr) {
    ::munmap(data_, bytes_);
  }
}

Memory::Memory(Memory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void Workspace::reserve(uint64_t arena_bytes, uint64_t scratch_bytes) {
  const uint64_t stride = (scratch_bytes + kPage - 1) / kPage * kPage;
  if (arena_bytes <= arena_.bytes() && stride <= stride_) {
    return;
  }
  if (arena_bytes > arena_.bytes()) {
    arena_ = Memory();  // gone before the larger one comes
    arena_ = Memory(arena_bytes, "temporaries");
  }
  if (stride > stride_) {
    scratch_ = Memory();
    scratch_ = Memory(stride * threads_, "thread scratch");
    stride_ = stride;
  }
  ++generation_;
}

}  // namespace lily::cpu
