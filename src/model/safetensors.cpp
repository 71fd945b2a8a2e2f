#include "model/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.h"

namespace lily {
namespace {

static_assert(std::endian::native == std::endian::little, "the format and every reader of it here are little-endian");

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the limit of the reference implementation
constexpr size_t kMaxRank = 8;
constexpr size_t kLengthBytes = 8;

struct DtypeInfo {
  StoredDtype dtype;
  std::string_view name;
  uint64_t bytes;
};

constexpr std::array kDtypes = {
    DtypeInfo{StoredDtype::kBool, "BOOL", 1},      DtypeInfo{StoredDtype::kU8, "U8", 1},
    DtypeInfo{StoredDtype::kI8, "I8", 1},          DtypeInfo{StoredDtype::kF8E4M3, "F8_E4M3", 1},
    DtypeInfo{StoredDtype::kF8E5M2, "F8_E5M2", 1}, DtypeInfo{StoredDtype::kF8E8M0, "F8_E8M0", 1},
    DtypeInfo{StoredDtype::kU16, "U16", 2},        DtypeInfo{StoredDtype::kI16, "I16", 2},
    DtypeInfo{StoredDtype::kF16, "F16", 2},        DtypeInfo{StoredDtype::kBf16, "BF16", 2},
    DtypeInfo{StoredDtype::kU32, "U32", 4},        DtypeInfo{StoredDtype::kI32, "I32", 4},
    DtypeInfo{StoredDtype::kF32, "F32", 4},        DtypeInfo{StoredDtype::kU64, "U64", 8},
    DtypeInfo{StoredDtype::kI64, "I64", 8},        DtypeInfo{StoredDtype::kF64, "F64", 8},
};

/// A header entry before its numbers are believed.
struct Entry {
  std::string name;
  std::optional<std::string> dtype;
  std::optional<std::vector<uint64_t>> shape;
  std::optional<std::vector<uint64_t>> offsets;
};

/// Printable, bounded form of a name from the file.
std::string printable(std::string_view name) {
  std::string text(name.substr(0, 200));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, '?');
  return text;
}

/// Takes the header's JSON event by event, so that depth is bounded and a repeated key is seen.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(std::string_view file) : file_(file) {}
  std::vector<Entry>& entries() { return entries_; }

  bool null() override { unexpected("null"); }
  bool boolean(bool /*value*/) override { unexpected("a boolean"); }
  bool number_integer(number_integer_t value) override { unexpected(fmt::format("{}", value)); }
  bool number_float(number_float_t /*value*/, const string_t& text) override { unexpected(text); }
  bool binary(binary_t& /*value*/) override { unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::kShape && place_ != Place::kOffsets) {
      unexpected(fmt::format("{}", value));
    }
    auto& list = place_ == Place::kShape ? entries_.back().shape : entries_.back().offsets;
    if (list->size() == kMaxRank) {
      throw Error(ErrorCode::kCheckpoint, "{}: {}: {} has more than {} numbers", file_, printable(entries_.back().name),
                  key_, kMaxRank);
    }
    list->push_back(value);
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::kEntry && key_ == "dtype") {
      entries_.back().dtype = std::move(value);
    } else if (place_ != Place::kMetadata) {
      unexpected(fmt::format("the string {}", printable(value)));
    }
    return true;
  }

  bool start_object(size_t /*count*/) override {
    switch (place_) {
      case Place::kStart:
        place_ = Place::kFile;
        return true;
      case Place::kFile:
        place_ = key_ == "__metadata__" ? Place::kMetadata : Place::kEntry;
        if (place_ == Place::kEntry) {
          entries_.push_back({.name = key_, .dtype = {}, .shape = {}, .offsets = {}});
        }
        return true;
      default:
        unexpected("an object");
    }
  }

  bool end_object() override {
    place_ = place_ == Place::kFile ? Place::kEnd : Place::kFile;
    return true;
  }

  bool start_array(size_t /*count*/) override {
    if (place_ != Place::kEntry || (key_ != "shape" && key_ != "data_offsets")) {
      unexpected("a list");
    }
    auto& list = key_ == "shape" ? entries_.back().shape : entries_.back().offsets;
    list.emplace();
    place_ = key_ == "shape" ? Place::kShape : Place::kOffsets;
    return true;
  }

  bool end_array() override {
    place_ = Place::kEntry;
    return true;
  }

  bool key(string_t& value) override {
    key_ = std::move(value);
    if (place_ == Place::kEntry) {
      const Entry& entry = entries_.back();
      if (key_ != "dtype" && key_ != "shape" && key_ != "data_offsets") {
        throw Error(ErrorCode::kCheckpoint, "{}: {}: key {} is not known, expected dtype, shape and data_offsets",
                    file_, printable(entry.name), printable(key_));
      }
      if ((key_ == "dtype" && entry.dtype) || (key_ == "shape" && entry.shape) ||
          (key_ == "data_offsets" && entry.offsets)) {
        throw Error(ErrorCode::kCheckpoint, "{}: {}: {} appears twice", file_, printable(entry.name), key_);
      }
    }
    return true;
  }

  bool parse_error(size_t position, const std::string& /*token*/, const nlohmann::json::exception& /*error*/) override {
    throw Error(ErrorCode::kCheckpoint, "{}: the header is not valid JSON: broken at its byte {}", file_, position);
  }

 private:
  enum class Place { kStart, kFile, kMetadata, kEntry, kShape, kOffsets, kEnd };

  [[noreturn]] void unexpected(std::string_view what) const {
    throw Error(ErrorCode::kCheckpoint, "{}: the header holds {} at {}, where the format does not allow it", file_,
                what, place_ == Place::kStart ? "its top" : printable(key_));
  }

  std::string_view file_;
  std::vector<Entry> entries_;
  std::string key_;
  Place place_ = Place::kStart;
};

/// Bytes of a shape, or nullopt where the product passes 64 bits.
std::optional<uint64_t> byte_count(std::span<const uint64_t> shape, uint64_t element_bytes) {
  // A zero makes the product zero whatever the other dimensions are, but a later factor must not overflow before it is
  // met.
  if (std::find(shape.begin(), shape.end(), 0U) != shape.end()) {
    return 0;
  }
  uint64_t bytes = element_bytes;
  for (const uint64_t extent : shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) {
      return std::nullopt;
    }
  }
  return bytes;
}

struct PlacedTensor {
  StoredTensor tensor;
  uint64_t begin = 0;
  uint64_t end = 0;
};

PlacedTensor check_entry(Entry entry, std::string_view file) {
  const std::string name = printable(entry.name);
  if (!entry.dtype || !entry.shape || !entry.offsets) {
    throw Error(ErrorCode::kCheckpoint, "{}: {}: {} is missing", file, name,
                !entry.dtype   ? "dtype"
                : !entry.shape ? "shape"
                               : "data_offsets");
  }
  const auto* info =
      std::find_if(kDtypes.begin(), kDtypes.end(), [&](const DtypeInfo& known) { return known.name == *entry.dtype; });
  if (info == kDtypes.end()) {
    throw Error(ErrorCode::kCheckpoint, "{}: {}: dtype {} is not known", file, name, printable(*entry.dtype));
  }
  if (entry.offsets->size() != 2) {
    throw Error(ErrorCode::kCheckpoint, "{}: {}: data_offsets has {} numbers, expected 2", file, name,
                entry.offsets->size());
  }
  const uint64_t begin = (*entry.offsets)[0];
  const uint64_t end = (*entry.offsets)[1];
  const std::optional<uint64_t> bytes = byte_count(*entry.shape, info->bytes);
  if (!bytes) {
    throw Error(ErrorCode::kCheckpoint, "{}: {}: shape {} of {} overflows 64 bits", file, name,
                shape_text(*entry.shape), info->name);
  }
  if (end < begin || end - begin != *bytes) {
    throw Error(ErrorCode::kCheckpoint, "{}: {}: data_offsets are [{}, {}], expected {} bytes for {} {}", file, name,
                begin, end, *bytes, info->name, shape_text(*entry.shape));
  }
  return {{std::move(entry.name), info->dtype, std::move(*entry.shape), {}}, begin, end};
}

void check_names(std::span<const PlacedTensor> placed, std::string_view file) {
  std::vector<std::string_view> names;
  names.reserve(placed.size());
  for (const PlacedTensor& each : placed) {
    names.emplace_back(each.tensor.name);
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) {
    throw Error(ErrorCode::kCheckpoint, "{}: the tensor {} appears twice", file, printable(*twice));
  }
}

/// Ranges, sorted, must tile [0, data_bytes).
void check_tiling(std::span<const PlacedTensor> placed, uint64_t data_start, uint64_t file_bytes,
                  std::string_view file) {
  uint64_t last = 0;
  for (const PlacedTensor& each : placed) {
    last = std::max(last, each.end);
  }
  const uint64_t data_bytes = file_bytes - data_start;
  if (last > data_bytes) {
    throw Error(ErrorCode::kCheckpoint, "{} has {} bytes, but its header describes {} bytes: the file is cut short",
                file, file_bytes, last > UINT64_MAX - data_start ? UINT64_MAX : data_start + last);
  }
  uint64_t at = 0;
  for (const PlacedTensor& each : placed) {
    if (each.begin != at) {
      throw Error(ErrorCode::kCheckpoint, "{}: {}: data begins at {}, expected {}: {}", file,
                  printable(each.tensor.name), each.begin, at,
                  each.begin < at ? "tensors overlap" : "there is a gap before it");
    }
    at = each.end;
  }
  if (at != data_bytes) {
    throw Error(ErrorCode::kCheckpoint,
                "{} has {} bytes, but its header describes {} bytes: {} bytes follow the last tensor", file, file_bytes,
                data_start + at, data_bytes - at);
  }
}

/// The header's JSON text, its length checked against the file.
std::span<const std::byte> header_text(std::span<const std::byte> bytes, std::string_view file) {
  constexpr std::string_view kLfsPointer = "version https://git-lfs";
  if (bytes.size() >= kLfsPointer.size() && std::memcmp(bytes.data(), kLfsPointer.data(), kLfsPointer.size()) == 0) {
    throw Error(ErrorCode::kCheckpoint, "{} is a Git LFS pointer of {} bytes, expected the weights themselves", file,
                bytes.size());
  }
  if (bytes.size() < kLengthBytes) {
    throw Error(ErrorCode::kCheckpoint, "{} has {} bytes, expected at least the 8 of a safetensors header length", file,
                bytes.size());
  }
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length < 2 || length > kMaxHeaderBytes) {
    throw Error(ErrorCode::kCheckpoint, "{}: the header length is {}, expected 2 to {}: not a safetensors file", file,
                length, kMaxHeaderBytes);
  }
  if (length > bytes.size() - kLengthBytes) {
    throw Error(ErrorCode::kCheckpoint, "{} has {} bytes, but its header alone needs {}: the file is cut short", file,
                bytes.size(), kLengthBytes + length);
  }
  return bytes.subspan(kLengthBytes, length);
}

}  // namespace

std::string_view dtype_name(StoredDtype dtype) {
  return kDtypes.at(static_cast<size_t>(dtype)).name;
}

std::string shape_text(std::span<const uint64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

SafetensorsHeader parse_safetensors(std::span<const std::byte> bytes, std::string_view file) {
  const std::span<const std::byte> text = header_text(bytes, file);
  HeaderReader reader(file);
  const auto* begin = reinterpret_cast<const char*>(text.data());
  nlohmann::json::sax_parse(begin, begin + text.size(), &reader);

  std::vector<PlacedTensor> placed;
  placed.reserve(reader.entries().size());
  for (Entry& entry : reader.entries()) {
    placed.push_back(check_entry(std::move(entry), file));
  }
  check_names(placed, file);
  std::stable_sort(placed.begin(), placed.end(), [](const PlacedTensor& a, const PlacedTensor& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  const size_t data_start = kLengthBytes + text.size();
  check_tiling(placed, data_start, bytes.size(), file);

  SafetensorsHeader header{.header_bytes = data_start, .tensors = {}};
  header.tensors.reserve(placed.size());
  for (PlacedTensor& each : placed) {
    each.tensor.data = bytes.subspan(data_start + each.begin, each.end - each.begin);
    header.tensors.push_back(std::move(each.tensor));
  }
  return header;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : file_(path), header_(parse_safetensors(file_.bytes(), file_.path().filename().string())) {}

bool SafetensorsFile::release(std::span<const std::byte> data) const {
  const std::span<const std::byte> all = file_.bytes();
  const std::less_equal<> at_or_before;  // a total order, unlike the operator
  if (!at_or_before(all.data(), data.data()) || !at_or_before(data.data() + data.size(), all.data() + all.size())) {
    return false;
  }
  file_.release(static_cast<size_t>(data.data() - all.data()), data.size());
  return true;
}

}  // namespace lily
