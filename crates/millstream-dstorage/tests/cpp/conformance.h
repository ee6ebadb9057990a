// What the programs in C++ share: checks that name their line, objects that release themselves,
// files, requests, and waits with a limit.
#pragma once

#include <windows.h>

#include <dstorage.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

// The seed of the schedule that runs, for the message of a failed check.
inline std::atomic<int64_t> current_seed{-1};

[[noreturn]] inline void fail() {
    if (current_seed >= 0)
        fprintf(stderr, "repeat with: conformance 1 %lld\n", (long long)current_seed);
    exit(1);
}

#define CHECK(condition)                                                                          \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);         \
            fail();                                                                               \
        }                                                                                         \
    } while (0)

// Of a call: it must return this HRESULT.
#define EXPECT(result, call)                                                                      \
    do {                                                                                          \
        HRESULT got_ = (call);                                                                    \
        HRESULT expected_ = (result);                                                             \
        if (got_ != expected_) {                                                                  \
            fprintf(stderr, "%s:%d: %s: %#010lx, expected %#010lx\n", __FILE__, __LINE__, #call,  \
                    (unsigned long)got_, (unsigned long)expected_);                               \
            fail();                                                                               \
        }                                                                                         \
    } while (0)

// The compiler knows identifiers of interfaces by these alone.
__CRT_UUID_DECL(IDStorageFactory, 0x6924ea0c, 0xc3cd, 0x4826, 0xb1, 0x0a, 0xf6, 0x4f, 0x4e, 0xd9,
                0x27, 0xc1)
__CRT_UUID_DECL(IDStorageFile, 0x5de95e7b, 0x955a, 0x4868, 0xa7, 0x3c, 0x24, 0x3b, 0x29, 0xf4,
                0xb8, 0xda)
__CRT_UUID_DECL(IDStorageStatusArray, 0x82397587, 0x7cd5, 0x453b, 0xa0, 0x2e, 0x31, 0x37, 0x9b,
                0xd6, 0x46, 0x56)
__CRT_UUID_DECL(IDStorageQueue, 0xcfdbd83f, 0x9e06, 0x4fda, 0x8e, 0xa5, 0x69, 0x04, 0x21, 0x37,
                0xf4, 0x9b)
__CRT_UUID_DECL(IDStorageQueue1, 0xdd2f482c, 0x5eff, 0x41e8, 0x9c, 0x9e, 0xd2, 0x37, 0x4b, 0x27,
                0x81, 0x28)
__CRT_UUID_DECL(IDStorageQueue2, 0xb1c9d643, 0x3a49, 0x44a2, 0xb4, 0x6f, 0x65, 0x36, 0x49, 0x47,
                0x0d, 0x18)
__CRT_UUID_DECL(IDStorageQueue3, 0xdeb54c52, 0xeca8, 0x46b3, 0x82, 0xa7, 0x03, 0x1b, 0x72, 0x26,
                0x26, 0x53)
__CRT_UUID_DECL(IDStorageCustomDecompressionQueue, 0x97179b2f, 0x2c21, 0x49ca, 0x82, 0x91, 0x4e,
                0x1b, 0xf4, 0xa1, 0x60, 0xdf)
__CRT_UUID_DECL(IDStorageCustomDecompressionQueue1, 0x0d47c6c9, 0xe61a, 0x4706, 0x93, 0xb4, 0x68,
                0xbf, 0xe3, 0xf4, 0xaa, 0x4a)
__CRT_UUID_DECL(IDStorageCompressionCodec, 0x84ef5121, 0x9b43, 0x4d03, 0xb5, 0xc1, 0xcc, 0x34,
                0x60, 0x6b, 0x26, 0x2d)

using Bytes = std::vector<uint8_t>;

constexpr auto NONE = DSTORAGE_COMPRESSION_FORMAT_NONE;
constexpr auto GDEFLATE = DSTORAGE_COMPRESSION_FORMAT_GDEFLATE;
constexpr auto CUSTOM = DSTORAGE_CUSTOM_COMPRESSION_0;
constexpr auto FROM_FILE = DSTORAGE_REQUEST_SOURCE_FILE;
constexpr auto FROM_MEMORY = DSTORAGE_REQUEST_SOURCE_MEMORY;

// The longest wait for what comes.
constexpr DWORD PATIENCE_MS = 60000;

// The number of a system's error, as HRESULT_FROM_WIN32 has it.
constexpr HRESULT win32(unsigned error) { return HRESULT(0x80070000u | error); }

struct Releases {
    void operator()(IUnknown *object) const { object->Release(); }
};

// A reference that is released.
template <class T> using Held = std::unique_ptr<T, Releases>;

// Returns the object that a call creates.
template <class T, class Call> Held<T> made(Call call) {
    void *out = nullptr;
    EXPECT(S_OK, call(__uuidof(T), &out));
    CHECK(out != nullptr);
    return Held<T>(static_cast<T *>(out));
}

template <class T> Held<T> queried(IUnknown *object) {
    return made<T>([&](REFIID iid, void **out) { return object->QueryInterface(iid, out); });
}

inline Held<IDStorageFactory> the_factory() { return made<IDStorageFactory>(DStorageGetFactory); }

// A sequence of numbers that a seed determines.
struct Random {
    uint64_t state;

    uint64_t next() {
        state += 0x9e3779b97f4a7c15;
        uint64_t mixed = (state ^ state >> 30) * 0xbf58476d1ce4e5b9;
        mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
        return mixed ^ mixed >> 31;
    }

    uint32_t below(uint32_t limit) { return uint32_t(next() % limit); }
};

// Bytes that differ from place to place and compress well.
inline Bytes pattern(size_t size, uint64_t seed) {
    Random random{seed};
    Bytes bytes, word(61);
    for (auto &byte : word)
        byte = uint8_t(random.next());
    while (bytes.size() < size)
        bytes.insert(bytes.end(), word.begin(), word.begin() + 1 + random.below(60));
    bytes.resize(size);
    return bytes;
}

// An event of the program.
struct Event {
    HANDLE handle = CreateEventW(nullptr, TRUE, FALSE, nullptr);

    Event() { CHECK(handle != nullptr); }
    Event(const Event &) = delete;
    ~Event() { CloseHandle(handle); }
    bool is_set_within(DWORD ms) const { return WaitForSingleObject(handle, ms) == WAIT_OBJECT_0; }
};

struct Session {
    Held<IDStorageFactory> factory = the_factory();

    Held<IDStorageFile> open(const wchar_t *name) const {
        return made<IDStorageFile>(
            [&](REFIID iid, void **out) { return factory->OpenFile(name, iid, out); });
    }

    // Writes a file into the current folder and opens it.
    Held<IDStorageFile> file(const wchar_t *name, const Bytes &bytes) const {
        FILE *file = _wfopen(name, L"wb");
        CHECK(file != nullptr);
        CHECK(fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size());
        CHECK(fclose(file) == 0);
        return open(name);
    }

    Held<IDStorageQueue3> queue(DSTORAGE_REQUEST_SOURCE_TYPE source, UINT16 capacity = 128) const {
        DSTORAGE_QUEUE_DESC desc{};
        desc.SourceType = source;
        desc.Capacity = capacity;
        desc.Priority =
            source == FROM_MEMORY ? DSTORAGE_PRIORITY_REALTIME : DSTORAGE_PRIORITY_NORMAL;
        desc.Name = "test";
        return made<IDStorageQueue3>(
            [&](REFIID iid, void **out) { return factory->CreateQueue(&desc, iid, out); });
    }

    Held<IDStorageStatusArray> statuses(UINT32 count) const {
        return made<IDStorageStatusArray>([&](REFIID iid, void **out) {
            return factory->CreateStatusArray(count, "statuses", iid, out);
        });
    }

    Held<IDStorageCustomDecompressionQueue1> custom() const {
        return queried<IDStorageCustomDecompressionQueue1>(factory.get());
    }
};

// Returns a request for `size` bytes of a file, which become `raw` bytes.
inline DSTORAGE_REQUEST of_file(IDStorageFile *file, uint64_t offset, uint32_t size, void *into,
                                uint32_t raw, DSTORAGE_COMPRESSION_FORMAT format = NONE) {
    DSTORAGE_REQUEST request{};
    request.Options.CompressionFormat = format;
    request.Options.SourceType = FROM_FILE;
    request.Options.DestinationType = DSTORAGE_REQUEST_DESTINATION_MEMORY;
    request.Source.File = {file, offset, size};
    request.Destination.Memory = {into, raw};
    request.UncompressedSize = raw;
    return request;
}

inline DSTORAGE_REQUEST of_file(IDStorageFile *file, uint64_t offset, Bytes &into) {
    uint32_t size = uint32_t(into.size());
    return of_file(file, offset, size, into.data(), size);
}

// Returns a request for bytes in memory.
inline DSTORAGE_REQUEST of_memory(const Bytes &from, Bytes &into,
                                  DSTORAGE_COMPRESSION_FORMAT format = NONE) {
    DSTORAGE_REQUEST request{};
    request.Options.CompressionFormat = format;
    request.Options.SourceType = FROM_MEMORY;
    request.Options.DestinationType = DSTORAGE_REQUEST_DESTINATION_MEMORY;
    request.Source.Memory = {from.data(), uint32_t(from.size())};
    request.Destination.Memory = {into.data(), uint32_t(into.size())};
    request.UncompressedSize = uint32_t(into.size());
    return request;
}

// Grows with each queue that is finished; `main` ends a program in which it does not.
inline std::atomic<uint64_t> progress{0};

// Submits the queue and waits until all that was enqueued has completed.
inline void finish(IDStorageQueue3 *queue) {
    progress++;
    Event done;
    queue->EnqueueSetEvent(done.handle);
    queue->Submit();
    CHECK(done.is_set_within(PATIENCE_MS));
}

inline DSTORAGE_ERROR_RECORD record_of(IDStorageQueue *queue) {
    DSTORAGE_ERROR_RECORD record;
    memset(&record, 0xa5, sizeof record);
    queue->RetrieveErrorRecord(&record);
    return record;
}

inline DSTORAGE_QUEUE_INFO info_of(IDStorageQueue *queue) {
    DSTORAGE_QUEUE_INFO info;
    memset(&info, 0xa5, sizeof info);
    queue->Query(&info);
    return info;
}

// Runs requests on a queue that has none; returns the result of a status behind them.
inline HRESULT run(const Session &session, IDStorageQueue3 *queue,
                   const std::vector<DSTORAGE_REQUEST> &requests) {
    auto statuses = session.statuses(2);
    // Takes the failures before it.
    queue->EnqueueStatus(statuses.get(), 0);
    for (auto &request : requests)
        queue->EnqueueRequest(&request);
    queue->EnqueueStatus(statuses.get(), 1);
    finish(queue);
    CHECK(statuses->IsComplete(1));
    return statuses->GetHResult(1);
}

// Compresses bytes with the library's codec.
inline Bytes compressed(const Bytes &raw) {
    auto codec = made<IDStorageCompressionCodec>([](REFIID iid, void **out) {
        return DStorageCreateCompressionCodec(GDEFLATE, 1, iid, out);
    });
    Bytes stored(codec->CompressBufferBound(raw.size()));
    size_t size = 0;
    EXPECT(S_OK, codec->CompressBuffer(raw.data(), raw.size(), DSTORAGE_COMPRESSION_FASTEST,
                                       stored.data(), stored.size(), &size));
    stored.resize(size);
    return stored;
}

// The parts of the program.
void check_objects();
void check_requests();
void check_queues();
void check_too_many_queues();
void check_schedules(uint64_t first_seed, uint64_t count);
void check_leaks(uint64_t loads);
