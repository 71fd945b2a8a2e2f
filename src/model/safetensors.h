// The safetensors container: one mapped file, its header read strictly. Knows names, dtypes, shapes and byte ranges,
// nothing of models.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"

namespace lily {

enum class StoredDtype {
  kBool,
  kU8,
  kI8,
  kF8E4M3,
  kF8E5M2,
  kF8E8M0,
  kU16,
  kI16,
  kF16,
  kBf16,
  kU32,
  kI32,
  kF32,
  kU64,
  kI64,
  kF64
};

/// The name in the file: "BF16".
std::string_view dtype_name(StoredDtype dtype);

/// One tensor as the file holds it. `data` may begin at any byte address.
struct StoredTensor {
  std::string name;
  StoredDtype dtype = StoredDtype::kU8;
  std::vector<uint64_t> shape;
  std::span<const std::byte> data;
};

/// "[512, 32]"
std::string shape_text(std::span<const uint64_t> shape);

/// What a header says, in the order of the data.
struct SafetensorsHeader {
  size_t header_bytes = 0;  // the 8 bytes of the length and the JSON
  std::vector<StoredTensor> tensors;
};

/// Reads the header at the start of `bytes`, the whole file. Throws Error(kCheckpoint) that begins with `file`, on
/// anything but: a JSON object of entries, known dtypes, byte ranges that fit the shapes and tile the rest of the file
/// without gap, overlap or rest, and no name twice. Allocates in proportion to the header that is really there,
/// whatever numbers it states.
SafetensorsHeader parse_safetensors(std::span<const std::byte> bytes, std::string_view file);

/// A mapped file with its parsed header. Moving keeps every `data` valid.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::vector<StoredTensor>& tensors() const { return header_.tensors; }
  std::span<const std::byte> header() const { return file_.bytes().first(header_.header_bytes); }
  std::span<const std::byte> bytes() const { return file_.bytes(); }
  std::string name() const { return file_.path().filename().string(); }
  /// Lets the pages of `data` go when it lies in this file; false when it does not.
  bool release(std::span<const std::byte> data) const;

 private:
  MappedFile file_;
  SafetensorsHeader header_;
};

}  // namespace lily
