// The shards of a checkpoint folder as one set of tensors under canonical names. Decides which files belong to it and
// that no tensor is there twice; does not know which tensors a model needs (bind_weights.cpp).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/safetensors.h"

namespace lily {

/// A tensor of the checkpoint and where it came from.
struct CheckpointTensor {
  const StoredTensor* stored = nullptr;
  const SafetensorsFile* shard = nullptr;
};

class Checkpoint {
 public:
  /// Maps the shards that model.safetensors.index.json names, or else the lone model.safetensors. Throws Error
  /// (kCheckpoint, kIo) when a shard or an indexed tensor is missing, or one tensor is there twice. Other
  /// model*.safetensors files are ignored with a note.
  explicit Checkpoint(const std::filesystem::path& folder);
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  const std::vector<SafetensorsFile>& shards() const { return shards_; }
  /// By canonical name; vision tensors are left out, MTP tensors (mtp.…) are in.
  const std::map<std::string, CheckpointTensor, std::less<>>& tensors() const { return tensors_; }
  /// The shard that holds a tensor which the index fails to list, by canonical name; empty when there is none.
  std::string unindexed_in(std::string_view canonical) const;

  uint64_t file_bytes() const;
  /// 64-bit hash of shard names, sizes, headers and the first bytes of every tensor.
  uint64_t fingerprint() const;
  void release(std::span<const std::byte> data) const;

 private:
  using WeightMap = std::map<std::string, std::string, std::less<>>;  // stored name to shard file

  void open_shards(const std::vector<std::string>& files);
  void collect(const WeightMap* index);
  void add(const StoredTensor& tensor, const SafetensorsFile& shard);
  bool holds(std::string_view file, std::string_view name) const;
  void note_stray_files() const;

  std::filesystem::path folder_;
  std::vector<SafetensorsFile> shards_;
  std::map<std::string, CheckpointTensor, std::less<>> tensors_;
  std::map<std::string, std::string, std::less<>> unindexed_;  // canonical name to shard file
};

}  // namespace lily
