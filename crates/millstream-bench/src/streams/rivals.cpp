// Rivals of the workload `streams` in C++: std::fstream and stdio, with calls of one size.
// Prints wall and processor time in nanoseconds, and the sum of the words that it read.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <string>
#include <vector>

namespace {

std::vector<char> whole(const char *path) {
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    std::vector<char> bytes(static_cast<size_t>(file.tellg()));
    file.seekg(0);
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return bytes;
}

uint64_t sum_of(const char *bytes, size_t len) {
    uint64_t sum = 0;
    for (size_t at = 0; at + 4 <= len; at += 4) {
        uint32_t word;
        std::memcpy(&word, bytes + at, 4);
        sum += word;
    }
    return sum;
}

[[noreturn]] void fail(const char *what) {
    std::perror(what);
    std::exit(1);
}

}  // namespace

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    const std::string way = argv[1];
    const size_t chunk = std::strtoull(argv[2], nullptr, 10);
    const std::vector<char> bytes = whole(argv[4]);
    std::vector<char> piece(chunk);
    uint64_t sum = 0;

    timespec cpu_start, cpu_end;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu_start);
    const auto start = std::chrono::steady_clock::now();
    if (way == "iostream-write") {
        std::ofstream file(argv[3], std::ios::binary | std::ios::trunc);
        for (size_t at = 0; at < bytes.size(); at += chunk)
            file.write(&bytes[at], static_cast<std::streamsize>(std::min(chunk, bytes.size() - at)));
        file.close();
        if (!file) fail("write");
    } else if (way == "iostream-read") {
        std::ifstream file(argv[3], std::ios::binary);
        for (size_t at = 0; at < bytes.size(); at += chunk) {
            const size_t len = std::min(chunk, bytes.size() - at);
            file.read(piece.data(), static_cast<std::streamsize>(len));
            sum += sum_of(piece.data(), len);
        }
        if (!file) fail("read");
    } else if (way == "stdio-write") {
        std::FILE *file = std::fopen(argv[3], "wb");
        if (!file) fail("open");
        for (size_t at = 0; at < bytes.size(); at += chunk) {
            const size_t len = std::min(chunk, bytes.size() - at);
            if (std::fwrite(&bytes[at], 1, len, file) != len) fail("write");
        }
        if (std::fclose(file) != 0) fail("close");
    } else if (way == "stdio-read") {
        std::FILE *file = std::fopen(argv[3], "rb");
        if (!file) fail("open");
        for (size_t at = 0; at < bytes.size(); at += chunk) {
            const size_t len = std::min(chunk, bytes.size() - at);
            if (std::fread(piece.data(), 1, len, file) != len) fail("read");
            sum += sum_of(piece.data(), len);
        }
        std::fclose(file);
    } else {
        return 2;
    }
    const auto end = std::chrono::steady_clock::now();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu_end);
    const auto wall = std::chrono::duration_cast<std::chrono::nanoseconds>(end - start).count();
    const long long cpu = (cpu_end.tv_sec - cpu_start.tv_sec) * 1000000000LL +
                          (cpu_end.tv_nsec - cpu_start.tv_nsec);
    std::printf("%lld %lld %llu\n", static_cast<long long>(wall), cpu,
                static_cast<unsigned long long>(sum));
    return 0;
}
