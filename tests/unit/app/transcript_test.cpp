#include "app/transcript.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace lily {
namespace {

std::filesystem::path fresh_folder() {
  std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "lily_transcript_test";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

std::string content_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

Transcript example() {
  Transcript transcript;
  transcript.model = "models/demo";
  transcript.thinking = false;
  transcript.messages = {{{"role", "system"}, {"content", "be brief"}},
                         {{"role", "user"}, {"content", "é \"x\"\n"}},
                         {{"role", "assistant"}, {"content", "yes"}, {"reasoning_content", "hm"}}};
  return transcript;
}

TEST(Transcript, TextReadsBackAsItWas) {
  const std::string text = transcript_text(example(), "2025-01-02T03:04:05Z");
  const Result<ordered_json> json = parse_json(text);
  ASSERT_TRUE(json.ok()) << json.failure().message;
  EXPECT_EQ(json.value()["format"], "lily-transcript");
  EXPECT_EQ(json.value()["version"], 1);
  EXPECT_EQ(json.value()["saved"], "2025-01-02T03:04:05Z");
  const Result<Transcript> back = parse_transcript(text);
  ASSERT_TRUE(back.ok()) << back.failure().message;
  EXPECT_EQ(back.value().messages, example().messages);
  EXPECT_FALSE(back.value().thinking);
  EXPECT_TRUE(back.value().preserve_thinking);
  EXPECT_EQ(back.value().model, "models/demo");
}

TEST(Transcript, AnEmptyConversationIsATranscript) {
  const Result<Transcript> back = parse_transcript(transcript_text({}, "t"));
  ASSERT_TRUE(back.ok());
  EXPECT_TRUE(back.value().messages.empty());
}

TEST(Transcript, ABareListOfMessagesIsOneToo) {
  const Result<Transcript> back = parse_transcript(R"([{"role": "user", "content": "a"}])");
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back.value().messages.size(), 1U);
  EXPECT_TRUE(back.value().thinking);
}

TEST(Transcript, RefusesWhatIsNone) {
  for (const char* text : {"", "{", "{}", "3", "[1]", R"({"messages": 3})", R"([{"content": "a"}])"}) {
    EXPECT_FALSE(parse_transcript(text).ok()) << text;
  }
}

TEST(Transcript, SavesLoadsAndReplacesItsOwnKind) {
  const std::filesystem::path file = fresh_folder() / "a.json";
  ASSERT_TRUE(save_transcript(example(), file).ok());
  const Result<Transcript> back = load_transcript(file);
  ASSERT_TRUE(back.ok()) << back.failure().message;
  EXPECT_EQ(back.value().messages, example().messages);
  EXPECT_TRUE(save_transcript({}, file).ok());
  EXPECT_TRUE(load_transcript(file).value().messages.empty());
  EXPECT_EQ(std::filesystem::status(file).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  const std::filesystem::directory_iterator entries(file.parent_path());
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1) << "nothing else is left behind";
}

TEST(Transcript, NeverOverwritesAnotherFile) {
  const std::filesystem::path file = fresh_folder() / "notes.txt";
  std::ofstream(file) << "precious";
  const Result<void> saved = save_transcript(example(), file);
  ASSERT_FALSE(saved.ok());
  EXPECT_NE(saved.failure().message.find("no transcript"), std::string::npos);
  EXPECT_EQ(content_of(file), "precious");
}

TEST(Transcript, NeverOverwritesAListOfMessages) {
  const std::filesystem::path file = fresh_folder() / "messages.json";
  const std::string list = R"([{"role": "user", "content": "a"}])";
  std::ofstream(file) << list;
  EXPECT_FALSE(save_transcript(example(), file).ok());
  EXPECT_EQ(content_of(file), list);
}

TEST(Transcript, NamesTheFileThatFails) {
  const std::filesystem::path file = fresh_folder() / "missing" / "a.json";
  const Result<void> saved = save_transcript(example(), file);
  ASSERT_FALSE(saved.ok());
  EXPECT_NE(saved.failure().message.find(file.string()), std::string::npos);
  const Result<Transcript> loaded = load_transcript(file);
  ASSERT_FALSE(loaded.ok());
  EXPECT_NE(loaded.failure().message.find(file.string()), std::string::npos);
}

}  // namespace
}  // namespace lily
