// Whole safetensors files in memory, for tests that break or rewrite small checkpoints: read, change tensors, write
// back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace lily::test {

struct RawTensor {
  std::string name;
  std::string dtype;
  std::vector<uint64_t> shape;
  std::vector<std::byte> data;
};

/// A header as the file begins: the length, the JSON, and a space where the data must begin at an odd (or even) offset.
std::string framed_header(std::string json, bool odd_data);

std::vector<RawTensor> read_safetensors(const std::filesystem::path& path);
void write_safetensors(const std::filesystem::path& path, const std::vector<RawTensor>& tensors, bool odd_data = true);

/// Reads the tensors of one file, lets `edit` change them, writes them back.
void edit_safetensors(const std::filesystem::path& path, const std::function<void(std::vector<RawTensor>&)>& edit);
/// The tensor of that name; fails the program when there is none.
RawTensor& tensor_named(std::vector<RawTensor>& tensors, std::string_view name);
/// Writes model.safetensors.index.json anew from the model*.safetensors files that lie in `folder`.
void rewrite_index(const std::filesystem::path& folder);

/// Reads a JSON file, lets `edit` change it, writes it back.
void edit_json(const std::filesystem::path& path, const std::function<void(nlohmann::ordered_json&)>& edit);

std::string read_text(const std::filesystem::path& path);
void write_text(const std::filesystem::path& path, std::string_view text);

/// An empty folder under the system's temporary folder, removed when the program ends; one of that name made before is
/// emptied.
std::filesystem::path fresh_folder(const std::string& name);

}  // namespace lily::test
