// Requests: what they read, every error of their parameters, bytes that lie, and the record of a
// failure. No byte beside a destination is ever written.
#include "conformance.h"

#include <functional>

// A destination between bytes that must stay as they are.
struct Guarded {
    static constexpr size_t MARGIN = 4096;
    size_t size;
    Bytes bytes;

    explicit Guarded(size_t size) : size(size), bytes(size + 2 * MARGIN, 0xa5) {}
    uint8_t *data() { return bytes.data() + MARGIN; }

    // Whether the bytes in a range of the destination are untouched, and those beside it.
    bool is_untouched(bool inside) const {
        for (size_t at = 0; at < bytes.size(); at++) {
            bool is_inside = at >= MARGIN && at < MARGIN + size;
            if ((!is_inside || inside) && bytes[at] != 0xa5)
                return false;
        }
        return true;
    }

    bool has(const Bytes &expected) {
        return expected.size() == size && memcmp(data(), expected.data(), size) == 0;
    }
};

using Change = std::function<void(DSTORAGE_REQUEST &)>;

// Runs a changed read of 1000 bytes; it must end with this result, and a record of it.
static void expect_changed(HRESULT expected, const Change &change) {
    Session session;
    auto file = session.file(L"changed.bin", pattern(1000, 20));
    auto queue = session.queue(FROM_FILE);
    Guarded into(1000);
    auto request = of_file(file.get(), 0, 1000, into.data(), 1000);
    request.Name = "changed";
    change(request);
    EXPECT(expected, run(session, queue.get(), {request}));
    CHECK(into.is_untouched(FAILED(expected)));
    auto record = record_of(queue.get());
    CHECK(record.FailureCount == (FAILED(expected) ? 1u : 0u));
    auto &first = record.FirstFailure;
    EXPECT(expected, first.HResult);
    CHECK(info_of(queue.get()).EmptySlotCount == 127);
    if (SUCCEEDED(expected)) {
        CHECK(first.CommandType == DSTORAGE_COMMAND_TYPE_NONE);
        return;
    }
    CHECK(first.CommandType == DSTORAGE_COMMAND_TYPE_REQUEST);
    CHECK(strcmp(first.Request.RequestName, "changed") == 0);
    CHECK(memcmp(&first.Request.Request, &request, sizeof request) == 0);
    CHECK(WaitForSingleObject(queue->GetErrorEvent(), 0) == WAIT_TIMEOUT);
}

static void check_errors_of_parameters() {
    using R = DSTORAGE_REQUEST &;
    expect_changed(S_OK, [](R) {});
    for (int at : {0, 3, 6})
        expect_changed(E_DSTORAGE_RESERVED_FIELDS, [=](R it) { it.Options.Reserved1[at] = 1; });
    for (int bit : {0, 31, 47})
        expect_changed(E_DSTORAGE_RESERVED_FIELDS,
                       [=](R it) { it.Options.Reserved = 1ull << bit; });
    expect_changed(E_DSTORAGE_INVALID_SOURCE_TYPE,
                   [](R it) { it.Options.SourceType = FROM_MEMORY; });
    for (int type : {1, 2, 3, 4, 5, 6, 127})
        expect_changed(E_DSTORAGE_INVALID_DESTINATION_TYPE, [=](R it) {
            it.Options.DestinationType = DSTORAGE_REQUEST_DESTINATION_TYPE(type);
        });
    for (int format : {3, 0x7f})
        expect_changed(E_INVALIDARG, [=](R it) {
            it.Options.CompressionFormat = DSTORAGE_COMPRESSION_FORMAT(format);
        });
    // A destination that is too small, or too large.
    for (UINT32 size : {0u, 999u, 1001u, ~0u})
        expect_changed(E_DSTORAGE_INVALID_DESTINATION_SIZE,
                       [=](R it) { it.Destination.Memory.Size = size; });
    for (UINT32 size : {0u, 999u, 1001u, ~0u})
        expect_changed(E_DSTORAGE_INVALID_DESTINATION_SIZE,
                       [=](R it) { it.Source.File.Size = size; });
    for (auto format : {GDEFLATE, CUSTOM})
        for (UINT32 size : {0u, 999u, 1001u, ~0u})
            expect_changed(E_DSTORAGE_INVALID_DESTINATION_SIZE, [=](R it) {
                it.Options.CompressionFormat = format;
                it.UncompressedSize = size;
            });
    for (UINT32 size : {0u, 999u, ~0u})
        expect_changed(S_OK, [=](R it) { it.UncompressedSize = size; });
    for (uintptr_t address : {uintptr_t(0), uintptr_t(1), UINTPTR_MAX - 500, UINTPTR_MAX / 2})
        expect_changed(E_DSTORAGE_ACCESS_VIOLATION, [=](R it) {
            it.Destination.Memory.Buffer = reinterpret_cast<void *>(address);
        });
    for (UINT64 offset : {1ull, 1000ull, 1ull << 32, 1ull << 62, ~0ull - 10, ~0ull})
        expect_changed(E_DSTORAGE_END_OF_FILE, [=](R it) { it.Source.File.Offset = offset; });
    expect_changed(E_DSTORAGE_INVALID_FILE_HANDLE, [](R it) { it.Source.File.Source = nullptr; });
    expect_changed(E_DSTORAGE_DECOMPRESSION_ERROR, [](R it) {
        it.Options.CompressionFormat = GDEFLATE;
        it.Source.File.Size = 0;
    });
    // Sizes that overflow 32 bits together with an address or an offset.
    expect_changed(E_DSTORAGE_ACCESS_VIOLATION, [](R it) {
        it.Source.File.Size = it.Destination.Memory.Size = ~0u;
        it.Source.File.Offset = ~0ull - ~0u;
        it.Destination.Memory.Buffer = reinterpret_cast<void *>(UINTPTR_MAX - 4096);
    });
}

static void check_sources_in_memory() {
    Session session;
    auto queue = session.queue(FROM_MEMORY);
    Bytes from = pattern(70000, 21), stored = compressed(from), into(from.size());
    EXPECT(S_OK, run(session, queue.get(), {of_memory(from, into)}));
    CHECK(into == from);
    into.assign(into.size(), 0);
    EXPECT(S_OK, run(session, queue.get(), {of_memory(stored, into, GDEFLATE)}));
    CHECK(into == from);
    into.assign(into.size(), 0xa5);
    auto request = of_memory(from, into);
    for (uintptr_t address : {uintptr_t(0), uintptr_t(4096), UINTPTR_MAX - 5}) {
        request.Source.Memory.Source = reinterpret_cast<void *>(address);
        EXPECT(E_DSTORAGE_ACCESS_VIOLATION, run(session, queue.get(), {request}));
    }
    request = of_memory(from, into);
    request.Options.SourceType = FROM_FILE;
    EXPECT(E_DSTORAGE_INVALID_SOURCE_TYPE, run(session, queue.get(), {request}));
    request = of_memory(from, into);
    request.Source.Memory.Size = 69999;
    EXPECT(E_DSTORAGE_INVALID_DESTINATION_SIZE, run(session, queue.get(), {request}));
    CHECK(into == Bytes(from.size(), 0xa5));
    // Pages that can be read and not written, and the reverse of neither.
    auto pages = static_cast<uint8_t *>(
        VirtualAlloc(nullptr, 8192, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE));
    CHECK(pages != nullptr);
    DWORD before;
    CHECK(VirtualProtect(pages + 4096, 4096, PAGE_READONLY, &before));
    Bytes page(8192, 7);
    request = of_memory(page, page);
    request.Destination.Memory.Buffer = pages;
    EXPECT(E_DSTORAGE_ACCESS_VIOLATION, run(session, queue.get(), {request}));
    request = of_memory(page, page);
    request.Source.Memory.Source = pages;
    EXPECT(S_OK, run(session, queue.get(), {request}));
    CHECK(VirtualProtect(pages + 4096, 4096, PAGE_NOACCESS, &before));
    EXPECT(E_DSTORAGE_ACCESS_VIOLATION, run(session, queue.get(), {request}));
    CHECK(VirtualFree(pages, 0, MEM_RELEASE));
    EXPECT(E_DSTORAGE_ACCESS_VIOLATION, run(session, queue.get(), {request}));
}

// Objects of another kind, released ones, and what is none, in place of files and status arrays.
static void check_wrong_objects() {
    Session session;
    auto queue = session.queue(FROM_FILE);
    auto file = session.file(L"wrong.bin", pattern(100, 22));
    auto statuses = session.statuses(1);
    uint64_t words[20] = {};
    Bytes into(100);
    void *none[] = {nullptr, reinterpret_cast<void *>(1), words, queue.get(),
                    session.factory.get()};
    auto request = of_file(file.get(), 0, into);
    auto as_file = [&](void *object) {
        request.Source.File.Source = static_cast<IDStorageFile *>(object);
        EXPECT(E_DSTORAGE_INVALID_FILE_HANDLE, run(session, queue.get(), {request}));
        record_of(queue.get());
    };
    auto as_statuses = [&](void *object, UINT32 index, HRESULT expected) {
        queue->EnqueueStatus(static_cast<IDStorageStatusArray *>(object), index);
        finish(queue.get());
        auto record = record_of(queue.get());
        EXPECT(expected, record.FirstFailure.HResult);
        CHECK(record.FirstFailure.CommandType == DSTORAGE_COMMAND_TYPE_STATUS);
        CHECK(record.FirstFailure.Status.StatusArray == object);
        CHECK(record.FirstFailure.Status.Index == index);
    };
    for (void *object : none) {
        as_file(object);
        as_statuses(object, 0, E_DSTORAGE_INVALID_STATUS_ARRAY);
    }
    as_file(statuses.get());
    as_statuses(file.get(), 0, E_DSTORAGE_INVALID_STATUS_ARRAY);
    as_statuses(statuses.get(), 1, E_DSTORAGE_INDEX_BOUND);
    as_statuses(statuses.get(), ~0u, E_DSTORAGE_INDEX_BOUND);
    void *released[] = {file.release(), statuses.release()};
    for (void *object : released)
        CHECK(static_cast<IUnknown *>(object)->Release() == 0);
    as_file(released[0]);
    as_statuses(released[1], 0, E_DSTORAGE_INVALID_STATUS_ARRAY);
    CHECK(into == Bytes(100));
}

// Runs a stream that lies, from a file and from memory; the record must be filled.
static void expect_lie(const Session &session, const Bytes &stored, uint32_t raw) {
    auto file = session.file(L"lies.bin", stored);
    for (bool is_file : {true, false}) {
        auto queue = session.queue(is_file ? FROM_FILE : FROM_MEMORY);
        Guarded into(raw);
        auto request = of_file(file.get(), 0, uint32_t(stored.size()), into.data(), raw, GDEFLATE);
        if (!is_file) {
            request.Options.SourceType = FROM_MEMORY;
            request.Source.Memory = {stored.data(), uint32_t(stored.size())};
        }
        request.Name = "a stream that lies";
        request.CancellationTag = 0x1234;
        EXPECT(E_DSTORAGE_DECOMPRESSION_ERROR, run(session, queue.get(), {request}));
        auto record = record_of(queue.get());
        auto &first = record.FirstFailure;
        CHECK(record.FailureCount == 1);
        EXPECT(E_DSTORAGE_DECOMPRESSION_ERROR, first.HResult);
        CHECK(first.CommandType == DSTORAGE_COMMAND_TYPE_REQUEST);
        CHECK(wcscmp(first.Request.Filename, is_file ? L"lies.bin" : L"") == 0);
        CHECK(strcmp(first.Request.RequestName, "a stream that lies") == 0);
        CHECK(memcmp(&first.Request.Request, &request, sizeof request) == 0);
        CHECK(into.is_untouched(false));
    }
}

static void check_streams_that_lie() {
    Session session;
    Bytes raw = pattern(200000, 40), stored = compressed(raw);
    uint32_t size = uint32_t(raw.size());
    auto file = session.file(L"true.bin", stored);
    auto queue = session.queue(FROM_FILE);
    Guarded into(size);
    EXPECT(S_OK, run(session, queue.get(),
                     {of_file(file.get(), 0, uint32_t(stored.size()), into.data(), size,
                              GDEFLATE)}));
    CHECK(into.has(raw) && into.is_untouched(false));
    for (uint32_t wrong : {1u, size - 1, size + 1})
        expect_lie(session, stored, wrong);
    for (size_t kept : {size_t(1), size_t(7), size_t(8), stored.size() / 2, stored.size() - 1})
        expect_lie(session, Bytes(stored.begin(), stored.begin() + kept), size);
    expect_lie(session, Bytes(5000, 0xff), size);
    // The header and the table of tiles.
    for (size_t at = 0; at < 8 + 4 * 4; at++) {
        Bytes lie = stored;
        lie[at] ^= 0x81;
        expect_lie(session, lie, size);
    }
    // Tiles: damage may decode to other bytes, as the format has no checksum.
    Random random{41};
    for (int round = 0; round < 60; round++) {
        Bytes lie = stored;
        for (uint32_t i = 0; i <= random.below(4); i++)
            lie[24 + random.below(uint32_t(lie.size() - 24))] ^= 1 << random.below(8);
        auto memory = session.queue(FROM_MEMORY);
        Guarded other(size);
        auto request = of_memory(lie, lie, GDEFLATE);
        request.Destination.Memory = {other.data(), size};
        request.UncompressedSize = size;
        HRESULT result = run(session, memory.get(), {request});
        CHECK(result == S_OK || result == E_DSTORAGE_DECOMPRESSION_ERROR);
        CHECK(other.is_untouched(false));
    }
}

void check_requests() {
    check_errors_of_parameters();
    check_sources_in_memory();
    check_wrong_objects();
    check_streams_that_lie();
}
