#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace lily {
namespace {

/// An open descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(const std::filesystem::path& path)
      // Without O_NONBLOCK a FIFO would wait here for a writer; regular files do not know it.
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {  // NOLINT(cppcoreguidelines-pro-type-vararg)
    if (fd_ < 0) {
      throw Error(ErrorCode::kIo, "cannot open {}: {}", path.string(), std::strerror(errno));
    }
  }
  ~Descriptor() { ::close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor(Descriptor&&) = delete;
  Descriptor& operator=(Descriptor&&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

size_t regular_file_size(const Descriptor& file, const std::filesystem::path& path) {
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) {
    throw Error(ErrorCode::kIo, "cannot stat {}: {}", path.string(), std::strerror(errno));
  }
  if (!S_ISREG(info.st_mode)) {
    throw Error(ErrorCode::kIo, "{} is not a regular file", path.string());
  }
  return static_cast<size_t>(info.st_size);
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  const Descriptor file(path);
  size_ = regular_file_size(file, path);
  if (size_ == 0) {
    return;
  }
  void* mapping = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (mapping == MAP_FAILED) {
    throw Error(ErrorCode::kIo, "cannot map {} ({} bytes): {}", path.string(), size_, std::strerror(errno));
  }
  data_ = static_cast<const std::byte*>(mapping);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) {
    ::munmap(const_cast<std::byte*>(data_), size_);
  }
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void MappedFile::release(size_t offset, size_t length) const {
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t begin = (offset + page - 1) / page * page;
  const size_t end = (offset + length) / page * page;
  if (data_ != nullptr && begin < end && end <= size_) {
    ::madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
  }
}

std::string read_file(const std::filesystem::path& path, size_t max_bytes) {
  const Descriptor file(path);
  const size_t size = regular_file_size(file, path);
  if (size > max_bytes) {
    throw Error(ErrorCode::kIo, "{} has {} bytes, expected at most {}", path.string(), size, max_bytes);
  }
  std::string text(size, '\0');
  size_t done = 0;
  while (done < size) {
    const ssize_t got = ::read(file.get(), text.data() + done, size - done);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      throw Error(ErrorCode::kIo, "cannot read {}: {}", path.string(),
                  got == 0 ? "it became shorter" : std::strerror(errno));
    }
    done += static_cast<size_t>(got);
  }
  return text;
}

}  // namespace lily
