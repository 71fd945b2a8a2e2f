#include "model/checkpoint.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "model/json_fields.h"
#include "model/tensor_names.h"

namespace lily {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr const char* kLoneFile = "model.safetensors";

/// The index names files beside itself; anything with a path in it could reach out of the folder.
bool is_plain_shard_name(const std::string& name) {
  constexpr std::string_view kSuffix = ".safetensors";
  return name.size() > kSuffix.size() && std::string_view(name).ends_with(kSuffix) &&
         name.find_first_of(std::string("/\\\0", 3)) == std::string::npos;
}

std::map<std::string, std::string, std::less<>> read_index(const fs::path& path) {
  const nlohmann::json json = parse_json_object(path, ErrorCode::kCheckpoint);
  const auto weight_map = json.find("weight_map");
  if (weight_map == json.end() || !weight_map->is_object() || weight_map->empty()) {
    throw Error(ErrorCode::kCheckpoint, "{}: weight_map is {}, expected an object of tensor names and their files",
                kIndexFile, weight_map == json.end() ? "missing" : shown(*weight_map));
  }
  std::map<std::string, std::string, std::less<>> index;
  for (const auto& [name, file] : weight_map->items()) {
    if (!file.is_string() || !is_plain_shard_name(file.get<std::string>())) {
      throw Error(ErrorCode::kCheckpoint,
                  "{}: {} lies in {}, expected the name of a .safetensors file beside the index", kIndexFile, name,
                  shown(file));
    }
    index.emplace(name, file.get<std::string>());
  }
  return index;
}

/// FNV-1a, 64 bits: a checkpoint identity needs spread, not secrecy.
class Fnv1a {
 public:
  void add(std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) {
      hash_ = (hash_ ^ static_cast<uint64_t>(byte)) * 0x100000001b3U;
    }
  }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325U;
};

}  // namespace

Checkpoint::Checkpoint(const fs::path& folder) : folder_(folder) {
  if (fs::exists(folder / kIndexFile)) {
    const WeightMap index = read_index(folder / kIndexFile);
    std::set<std::string> files;
    for (const auto& [name, file] : index) {
      files.insert(file);
    }
    for (const std::string& file : files) {
      if (!fs::exists(folder / file)) {
        throw Error(ErrorCode::kCheckpoint, "the shard {} is missing from {}, though {} names it", file,
                    folder.string(), kIndexFile);
      }
    }
    open_shards({files.begin(), files.end()});
    collect(&index);
  } else if (fs::exists(folder / kLoneFile)) {
    open_shards({kLoneFile});
    collect(nullptr);
  } else {
    throw Error(ErrorCode::kCheckpoint, "{} holds neither {} nor {}, expected the shards of an MLX 4-bit checkpoint",
                folder.string(), kIndexFile, kLoneFile);
  }
  note_stray_files();
}

void Checkpoint::open_shards(const std::vector<std::string>& files) {
  // Views point into the mappings and tensors_ into the vector, so it must not grow again.
  shards_.reserve(files.size());
  for (const std::string& file : files) {
    shards_.emplace_back(folder_ / file);
  }
}

void Checkpoint::collect(const WeightMap* index) {
  size_t listed_found = 0;
  for (const SafetensorsFile& shard : shards_) {
    for (const StoredTensor& tensor : shard.tensors()) {
      if (index != nullptr) {
        const auto entry = index->find(tensor.name);
        if (entry == index->end()) {
          unindexed_.emplace(canonical_name(tensor.name), shard.name());
          continue;
        }
        if (entry->second != shard.name()) {
          throw Error(ErrorCode::kCheckpoint, "the tensor {} lies in {}, but {} names {}", tensor.name, shard.name(),
                      kIndexFile, entry->second);
        }
        ++listed_found;
      }
      add(tensor, shard);
    }
  }
  if (index == nullptr || listed_found == index->size()) {
    return;
  }
  // Names within a shard are unique, so a smaller count means that a listed tensor is nowhere.
  for (const auto& [name, file] : *index) {
    if (!holds(file, name)) {
      throw Error(ErrorCode::kCheckpoint, "the tensor {} is missing from {}, though {} lists it there", name, file,
                  kIndexFile);
    }
  }
}

bool Checkpoint::holds(std::string_view file, std::string_view name) const {
  return std::any_of(shards_.begin(), shards_.end(), [&](const SafetensorsFile& shard) {
    const std::vector<StoredTensor>& held = shard.tensors();
    return shard.name() == file &&
           std::any_of(held.begin(), held.end(), [&](const StoredTensor& each) { return each.name == name; });
  });
}

void Checkpoint::add(const StoredTensor& tensor, const SafetensorsFile& shard) {
  if (is_vision_tensor(tensor.name)) {
    return;
  }
  const auto [it, added] = tensors_.emplace(canonical_name(tensor.name), CheckpointTensor{&tensor, &shard});
  if (!added) {
    throw Error(ErrorCode::kCheckpoint, "one tensor is there twice: {} in {} and {} in {}", it->second.stored->name,
                it->second.shard->name(), tensor.name, shard.name());
  }
}

void Checkpoint::note_stray_files() const {
  std::error_code failed;
  std::vector<std::string> stray;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, failed)) {
    const std::string name = entry.path().filename().string();
    const bool opened =
        std::any_of(shards_.begin(), shards_.end(), [&](const SafetensorsFile& shard) { return shard.name() == name; });
    if (entry.path().extension() == ".safetensors" && name.starts_with("model") && !opened) {
      stray.push_back(name);
    }
  }
  std::sort(stray.begin(), stray.end());
  for (const std::string& name : stray) {
    log_warning("{} is not part of the checkpoint in {}; ignored", name, folder_.string());
  }
}

std::string Checkpoint::unindexed_in(std::string_view canonical) const {
  const auto it = unindexed_.find(canonical);
  return it == unindexed_.end() ? std::string() : it->second;
}

uint64_t Checkpoint::file_bytes() const {
  uint64_t bytes = 0;
  for (const SafetensorsFile& shard : shards_) {
    bytes += shard.bytes().size();
  }
  return bytes;
}

uint64_t Checkpoint::fingerprint() const {
  constexpr size_t kSampleBytes = 64;
  Fnv1a hash;
  for (const SafetensorsFile& shard : shards_) {
    const std::string name = shard.name();
    const uint64_t size = shard.bytes().size();
    hash.add(std::as_bytes(std::span(name)));
    hash.add(std::as_bytes(std::span(&size, 1)));
    hash.add(shard.header());
    // Fine-tuned copies differ in no size and no header, only in values.
    for (const StoredTensor& tensor : shard.tensors()) {
      hash.add(tensor.data.first(std::min(kSampleBytes, tensor.data.size())));
    }
  }
  return hash.value();
}

void Checkpoint::release(std::span<const std::byte> data) const {
  for (const SafetensorsFile& shard : shards_) {
    if (shard.release(data)) {
      return;
    }
  }
}

}  // namespace lily
