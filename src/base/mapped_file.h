// A read-only memory map of a whole file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace lily {

/// Maps a regular file for reading; the mapping lives as long as the object. Throws Error(kIo) naming the file.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }
  /// Tells the kernel that [offset, offset + length) will not be read again, so its pages may go.
  void release(size_t offset, size_t length) const;

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// Reads a whole small file (JSON, text) into a string. Throws Error(kIo) when it is missing, a folder, or larger than
/// max_bytes.
std::string read_file(const std::filesystem::path& path, size_t max_bytes);

}  // namespace lily
