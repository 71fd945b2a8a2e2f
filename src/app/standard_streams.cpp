#include "app/standard_streams.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "base/mapped_file.h"
#include "text/stream_decoder.h"

namespace lily {
namespace {

std::atomic<bool> reader_gone{false};

void wait_for(int descriptor, short events) {
  pollfd entry{.fd = descriptor, .events = events, .revents = 0};
  poll(&entry, 1, -1);
}

}  // namespace

void write_output(std::string_view text) {
  while (!text.empty() && !reader_gone.load(std::memory_order_relaxed)) {
    const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EPIPE) {
      reader_gone.store(true, std::memory_order_relaxed);
    } else if (errno == EAGAIN) {
      wait_for(STDOUT_FILENO, POLLOUT);
    } else if (errno != EINTR) {
      throw Error(ErrorCode::kRuntime, "cannot write to standard output: {}", std::strerror(errno));
    }
  }
}

bool output_closed() {
  return reader_gone.load(std::memory_order_relaxed);
}

void open_missing_streams() {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) < 0 && errno == EBADF) open("/dev/null", O_RDWR);  // takes the lowest free number
  }
}

void write_error_line(std::string_view line) {
  const std::string text = std::string(line) + "\n";
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stderr));
}

namespace {

/// All that the descriptor gives until its end. `name` is what messages call it.
std::string read_stream(int descriptor, const std::string& name) {
  std::string text;
  size_t used = 0;
  while (true) {
    if (text.size() - used < 65536) text.resize(used + used / 2 + 65536);
    const ssize_t got = read(descriptor, text.data() + used, text.size() - used);
    if (got == 0) break;
    if (got < 0) {
      if (errno == EAGAIN) wait_for(descriptor, POLLIN);
      if (errno == EINTR || errno == EAGAIN) continue;
      throw Error(ErrorCode::kIo, "cannot read {}: {}", name, std::strerror(errno));
    }
    used += static_cast<size_t>(got);
    if (used > kMaxInputBytes) {
      throw Error(ErrorCode::kIo, "{} is longer than {} MB", name, kMaxInputBytes >> 20);
    }
  }
  text.resize(used);
  return text;
}

}  // namespace

std::string read_input() {
  return read_stream(STDIN_FILENO, "standard input");
}

std::string read_input_file(const std::string& path) {
  if (path == "-") return read_input();
  struct stat info {};
  if (stat(path.c_str(), &info) != 0 || !S_ISFIFO(info.st_mode)) return read_file(path, kMaxInputBytes);
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);  // waits for a writer, as a shell's <(...) has one
  if (descriptor < 0) throw Error(ErrorCode::kIo, "cannot open {}: {}", path, std::strerror(errno));
  const auto closer = [](const int* open_one) { close(*open_one); };
  const std::unique_ptr<const int, decltype(closer)> closing(&descriptor, closer);
  return read_stream(descriptor, path);
}

std::string valid_utf8(std::string_view text) {
  StreamDecoder decoder;
  std::string out = decoder.push(text);
  out += decoder.finish();
  return out;
}

}  // namespace lily
