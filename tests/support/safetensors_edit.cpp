#include "tests/support/safetensors_edit.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "model/safetensors.h"

namespace lily::test {

namespace fs = std::filesystem;

std::string framed_header(std::string json, bool odd_data) {
  if ((json.size() % 2 == 1) != odd_data) {
    json += ' ';
  }
  const uint64_t length = json.size();
  std::string text(sizeof(length), '\0');
  std::memcpy(text.data(), &length, sizeof(length));
  return text + json;
}

std::vector<RawTensor> read_safetensors(const fs::path& path) {
  const SafetensorsFile file(path);
  std::vector<RawTensor> tensors;
  for (const StoredTensor& tensor : file.tensors()) {
    tensors.push_back({tensor.name, std::string(dtype_name(tensor.dtype)), tensor.shape,
                       std::vector<std::byte>(tensor.data.begin(), tensor.data.end())});
  }
  return tensors;
}

void write_safetensors(const fs::path& path, const std::vector<RawTensor>& tensors, bool odd_data) {
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "mlx"}}}};
  uint64_t at = 0;
  for (const RawTensor& tensor : tensors) {
    header[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {at, at + tensor.data.size()}}};
    at += tensor.data.size();
  }
  std::string text = framed_header(header.dump(), odd_data);
  for (const RawTensor& tensor : tensors) {
    text.append(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
  }
  write_text(path, text);
}

void edit_safetensors(const fs::path& path, const std::function<void(std::vector<RawTensor>&)>& edit) {
  std::vector<RawTensor> tensors = read_safetensors(path);
  edit(tensors);
  write_safetensors(path, tensors);
}

RawTensor& tensor_named(std::vector<RawTensor>& tensors, std::string_view name) {
  const auto it =
      std::find_if(tensors.begin(), tensors.end(), [&](const RawTensor& each) { return each.name == name; });
  LILY_CHECK(it != tensors.end(), "no tensor {} among {}", name, tensors.size());
  return *it;
}

void rewrite_index(const fs::path& folder) {
  nlohmann::ordered_json map = nlohmann::ordered_json::object();
  uint64_t total = 0;
  std::vector<fs::path> shards;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors" && entry.path().filename().string().starts_with("model")) {
      shards.push_back(entry.path());
    }
  }
  std::sort(shards.begin(), shards.end());
  for (const fs::path& shard : shards) {
    const SafetensorsFile file(shard);
    for (const StoredTensor& tensor : file.tensors()) {
      map[tensor.name] = file.name();
      total += tensor.data.size();
    }
  }
  const nlohmann::ordered_json index = {{"metadata", {{"total_size", total}}}, {"weight_map", map}};
  write_text(folder / "model.safetensors.index.json", index.dump(4));
}

void edit_json(const fs::path& path, const std::function<void(nlohmann::ordered_json&)>& edit) {
  auto json = nlohmann::ordered_json::parse(read_text(path));
  edit(json);
  write_text(path, json.dump(2));
}

std::string read_text(const fs::path& path) {
  const std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  LILY_CHECK(file.good(), "cannot read {}", path.string());
  return text.str();
}

void write_text(const fs::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.flush();
  LILY_CHECK(file.good(), "cannot write {}", path.string());
}

fs::path fresh_folder(const std::string& name) {
  // The process id keeps binaries that run side by side apart.
  struct Root {
    fs::path path = fs::temp_directory_path() / fmt::format("lily_test_{}", ::getpid());
    Root() { fs::remove_all(path); }
    Root(const Root&) = delete;
    Root& operator=(const Root&) = delete;
    ~Root() {
      std::error_code ignored;
      fs::remove_all(path, ignored);
    }
  };
  static const Root root;
  fs::path folder = root.path / name;
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

}  // namespace lily::test
