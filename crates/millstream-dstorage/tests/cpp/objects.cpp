// The objects: what IUnknown promises, tables of methods and structures as MSVC lays them out, and
// the methods of the factory, files, status arrays and codecs.
#include "conformance.h"

#include <cstddef>

static ULONG references(IUnknown *object) {
    object->AddRef();
    return object->Release();
}

// An object of each kind, and the interfaces that it must have.
struct Kind {
    Held<IUnknown> object;
    std::vector<const GUID *> interfaces;
};

static std::vector<Kind> kinds(const Session &session) {
    auto codec = made<IDStorageCompressionCodec>([](REFIID iid, void **out) {
        return DStorageCreateCompressionCodec(GDEFLATE, 0, iid, out);
    });
    std::vector<Kind> all;
    all.push_back({queried<IUnknown>(session.factory.get()),
                   {&__uuidof(IDStorageFactory), &__uuidof(IDStorageCustomDecompressionQueue),
                    &__uuidof(IDStorageCustomDecompressionQueue1)}});
    all.push_back({session.file(L"unknown.bin", {1, 2, 3}), {&__uuidof(IDStorageFile)}});
    all.push_back({session.statuses(1), {&__uuidof(IDStorageStatusArray)}});
    all.push_back({session.queue(FROM_FILE),
                   {&__uuidof(IDStorageQueue), &__uuidof(IDStorageQueue1),
                    &__uuidof(IDStorageQueue2), &__uuidof(IDStorageQueue3)}});
    all.push_back({std::move(codec), {&__uuidof(IDStorageCompressionCodec)}});
    for (auto &kind : all)
        kind.interfaces.push_back(&__uuidof(IUnknown));
    return all;
}

static void check_query_of_each_interface_from_each() {
    Session session;
    auto all = kinds(session);
    for (auto &kind : all) {
        auto identity = queried<IUnknown>(kind.object.get());
        for (auto from : kind.interfaces) {
            void *out = nullptr;
            EXPECT(S_OK, kind.object->QueryInterface(*from, &out));
            Held<IUnknown> object(static_cast<IUnknown *>(out));
            for (auto &other : all) {
                for (auto iid : other.interfaces) {
                    bool has = &other == &kind || *iid == __uuidof(IUnknown);
                    out = &all;
                    ULONG before = references(identity.get());
                    EXPECT(has ? S_OK : E_NOINTERFACE, object->QueryInterface(*iid, &out));
                    CHECK((out != nullptr) == has);
                    CHECK(references(identity.get()) == before + (has ? 1 : 0));
                    if (has) {
                        Held<IUnknown> queried_object(static_cast<IUnknown *>(out));
                        auto same = queried<IUnknown>(queried_object.get());
                        CHECK(same.get() == identity.get());
                    }
                    CHECK(references(identity.get()) == before);
                }
            }
            EXPECT(E_POINTER, object->QueryInterface(*from, nullptr));
        }
    }
}

static void check_counts() {
    Session session;
    auto file = session.file(L"counts.bin", {1});
    auto statuses = session.statuses(1);
    auto queue = session.queue(FROM_FILE);
    for (IUnknown *object : {static_cast<IUnknown *>(file.get()),
                             static_cast<IUnknown *>(statuses.get()),
                             static_cast<IUnknown *>(queue.get())}) {
        CHECK(references(object) == 1);
        CHECK(object->AddRef() == 2);
        CHECK(object->AddRef() == 3);
        CHECK(object->Release() == 2);
        CHECK(object->Release() == 1);
        // From four threads at once.
        std::vector<std::thread> threads;
        for (int i = 0; i < 4; i++)
            threads.emplace_back([object] {
                for (int round = 0; round < 10000; round++) {
                    object->AddRef();
                    object->Release();
                }
            });
        for (auto &thread : threads)
            thread.join();
        CHECK(references(object) == 1);
    }
}

// Returns the slot of a virtual method: a pointer to one is 1 more than its offset in the table.
template <class Method> static size_t slot_of(Method method) {
    uintptr_t words[2];
    static_assert(sizeof method == sizeof words, "a pointer and an adjustment of the object");
    memcpy(words, &method, sizeof words);
    CHECK((words[0] & 1) == 1 && words[1] == 0);
    return (words[0] - 1) / sizeof(void *);
}

// MSVC gives each method of a class without overloads the next slot after those of its base.
static void check_slots() {
    // The first is QueryInterface, which this compiler's header overloads.
    size_t next = 1;
    auto is_next = [&](size_t slot) { return slot == next++; };
    CHECK(is_next(slot_of(&IUnknown::AddRef)));
    CHECK(is_next(slot_of(&IUnknown::Release)));
    CHECK(is_next(slot_of(&IDStorageFactory::CreateQueue)));
    CHECK(is_next(slot_of(&IDStorageFactory::OpenFile)));
    CHECK(is_next(slot_of(&IDStorageFactory::CreateStatusArray)));
    CHECK(is_next(slot_of(&IDStorageFactory::SetDebugFlags)));
    CHECK(is_next(slot_of(&IDStorageFactory::SetStagingBufferSize)));
    next = 3;
    CHECK(is_next(slot_of(&IDStorageFile::Close)));
    CHECK(is_next(slot_of(&IDStorageFile::GetFileInformation)));
    next = 3;
    CHECK(is_next(slot_of(&IDStorageStatusArray::IsComplete)));
    CHECK(is_next(slot_of(&IDStorageStatusArray::GetHResult)));
    next = 3;
    CHECK(is_next(slot_of(&IDStorageQueue::EnqueueRequest)));
    CHECK(is_next(slot_of(&IDStorageQueue::EnqueueStatus)));
    CHECK(is_next(slot_of(&IDStorageQueue::EnqueueSignal)));
    CHECK(is_next(slot_of(&IDStorageQueue::Submit)));
    CHECK(is_next(slot_of(&IDStorageQueue::CancelRequestsWithTag)));
    CHECK(is_next(slot_of(&IDStorageQueue::Close)));
    CHECK(is_next(slot_of(&IDStorageQueue::GetErrorEvent)));
    CHECK(is_next(slot_of(&IDStorageQueue::RetrieveErrorRecord)));
    CHECK(is_next(slot_of(&IDStorageQueue::Query)));
    CHECK(is_next(slot_of(&IDStorageQueue1::EnqueueSetEvent)));
    CHECK(is_next(slot_of(&IDStorageQueue2::GetCompressionSupport)));
    CHECK(is_next(slot_of(&IDStorageQueue3::EnqueueRequests)));
    next = 3;
    CHECK(is_next(slot_of(&IDStorageCustomDecompressionQueue::GetEvent)));
    CHECK(is_next(slot_of(&IDStorageCustomDecompressionQueue::GetRequests)));
    CHECK(is_next(slot_of(&IDStorageCustomDecompressionQueue::SetRequestResults)));
    CHECK(is_next(slot_of(&IDStorageCustomDecompressionQueue1::GetRequests1)));
    next = 3;
    CHECK(is_next(slot_of(&IDStorageCompressionCodec::CompressBuffer)));
    CHECK(is_next(slot_of(&IDStorageCompressionCodec::DecompressBuffer)));
    CHECK(is_next(slot_of(&IDStorageCompressionCodec::CompressBufferBound)));
}

static_assert(sizeof(DSTORAGE_QUEUE_DESC) == 32 && sizeof(DSTORAGE_QUEUE_INFO) == 40, "");
static_assert(sizeof(DSTORAGE_REQUEST_OPTIONS) == 16 && sizeof(DSTORAGE_SOURCE) == 24, "");
static_assert(sizeof(DSTORAGE_DESTINATION) == 40 && sizeof(DSTORAGE_REQUEST) == 104, "");
static_assert(offsetof(DSTORAGE_REQUEST, Destination) == 40, "");
static_assert(offsetof(DSTORAGE_REQUEST, CancellationTag) == 88, "");
static_assert(sizeof(DSTORAGE_ERROR_PARAMETERS_REQUEST) == 688, "");
static_assert(sizeof(DSTORAGE_ERROR_RECORD) == 704, "");
static_assert(offsetof(DSTORAGE_ERROR_RECORD, FirstFailure) == 8, "");
static_assert(sizeof(DSTORAGE_CUSTOM_DECOMPRESSION_REQUEST) == 48, "");
static_assert(sizeof(DSTORAGE_CONFIGURATION) == 28 && sizeof(DSTORAGE_CONFIGURATION1) == 32, "");

// Bit fields as MSVC lays them out, from the lowest bit of their own type.
static void check_bit_fields() {
    DSTORAGE_REQUEST_OPTIONS options{};
    options.CompressionFormat = CUSTOM;
    options.SourceType = FROM_MEMORY;
    options.DestinationType = DSTORAGE_REQUEST_DESTINATION_TILES;
    uint8_t bytes[16], expected[16] = {0x80};
    expected[8] = 1 | 4 << 1;
    memcpy(bytes, &options, sizeof bytes);
    CHECK(memcmp(bytes, expected, sizeof bytes) == 0);
}

// Calls the method in a slot of the object's table.
template <class Result, class... Arguments>
static Result call(void *object, size_t slot, Arguments... arguments) {
    void **table = *static_cast<void ***>(object);
    using Method = Result(STDMETHODCALLTYPE *)(void *, Arguments...);
    return reinterpret_cast<Method>(table[slot])(object, arguments...);
}

// A load that knows no class: objects are addresses, methods are slots.
static void check_a_load_through_slots() {
    Session session;
    void *factory = session.factory.get(), *queue = nullptr, *file = nullptr, *array = nullptr;
    session.file(L"slots.bin", pattern(5000, 1));
    using Iid = const GUID *;
    DSTORAGE_QUEUE_DESC desc{FROM_FILE, 128, DSTORAGE_PRIORITY_HIGH, nullptr, nullptr};
    const DSTORAGE_QUEUE_DESC *about = &desc;
    Iid iid = &__uuidof(IDStorageQueue3);
    EXPECT(S_OK, (call<HRESULT>(factory, 3, about, iid, &queue)));
    iid = &__uuidof(IDStorageFile);
    EXPECT(S_OK, (call<HRESULT>(factory, 4, L"slots.bin", iid, &file)));
    iid = &__uuidof(IDStorageStatusArray);
    EXPECT(S_OK, (call<HRESULT>(factory, 5, UINT32(2), "name", iid, &array)));
    call<void>(factory, 6, UINT32(DSTORAGE_DEBUG_NONE));
    EXPECT(E_DSTORAGE_STAGING_BUFFER_LOCKED, (call<HRESULT>(factory, 7, UINT32(1 << 20))));
    BY_HANDLE_FILE_INFORMATION information{};
    EXPECT(S_OK, (call<HRESULT>(file, 4, &information)));
    CHECK(information.nFileSizeLow == 5000);

    Bytes into(5000), wrong(1);
    Event done;
    auto request = of_file(static_cast<IDStorageFile *>(file), 0, into);
    auto past = of_file(static_cast<IDStorageFile *>(file), 5000, wrong);
    call<void>(queue, 3, &request);
    call<void>(queue, 4, array, UINT32(1));
    CHECK(!(call<bool>(array, 3, UINT32(1))));
    call<void>(queue, 14, &past, UINT32(1), static_cast<void *>(nullptr), UINT64(0),
               UINT32(DSTORAGE_ENQUEUE_REQUEST_FLAG_NONE));
    call<void>(queue, 5, static_cast<void *>(nullptr), UINT64(1));
    call<void>(queue, 7, UINT64(1), UINT64(1));
    call<void>(queue, 12, done.handle);
    call<void>(queue, 6);
    CHECK(done.is_set_within(PATIENCE_MS));
    CHECK((call<bool>(array, 3, UINT32(1))));
    EXPECT(S_OK, (call<HRESULT>(array, 4, UINT32(1))));
    CHECK(into == pattern(5000, 1));

    CHECK(WaitForSingleObject(call<HANDLE>(queue, 9), 0) == WAIT_OBJECT_0);
    DSTORAGE_ERROR_RECORD record{};
    call<void>(queue, 10, &record);
    CHECK(record.FailureCount == 2);
    EXPECT(E_DSTORAGE_END_OF_FILE, record.FirstFailure.HResult);
    DSTORAGE_QUEUE_INFO info{};
    call<void>(queue, 11, &info);
    CHECK(info.EmptySlotCount == 127 && info.Desc.Priority == DSTORAGE_PRIORITY_HIGH);
    CHECK((call<UINT32>(queue, 13, UINT8(GDEFLATE))) == DSTORAGE_COMPRESSION_SUPPORT_CPU_FALLBACK);
    call<void>(queue, 8);
    call<void>(file, 3);
    for (void *object : {queue, file, array}) {
        CHECK((call<ULONG>(object, 1)) == 2);
        CHECK((call<ULONG>(object, 2)) == 1);
        CHECK((call<ULONG>(object, 2)) == 0);
    }
}

static void check_factory() {
    IDStorageFactory *released;
    {
        Session session;
        auto other = the_factory();
        CHECK(other.get() == session.factory.get());
        CHECK(references(other.get()) == 2);
        released = other.get();
    }
    // One factory for the process: its address stays, and calls after the last release fail.
    void *out = &released;
    EXPECT(E_DSTORAGE_NOT_RUNNING,
           released->OpenFile(L"slots.bin", __uuidof(IDStorageFile), &out));
    CHECK(out == nullptr);
    DSTORAGE_QUEUE_DESC desc{FROM_FILE, 128, DSTORAGE_PRIORITY_NORMAL, nullptr, nullptr};
    EXPECT(E_DSTORAGE_NOT_RUNNING,
           released->CreateQueue(&desc, __uuidof(IDStorageQueue), &out));
    Session again;
    again.open(L"slots.bin");
    EXPECT(E_POINTER, DStorageGetFactory(__uuidof(IDStorageFactory), nullptr));
    EXPECT(E_NOINTERFACE, DStorageGetFactory(__uuidof(IDStorageQueue), &out));
    CHECK(out == nullptr);
}

static void check_descriptions() {
    Session session;
    struct {
        DSTORAGE_QUEUE_DESC desc;
        HRESULT expected;
    } cases[] = {
        {{FROM_FILE, 128, DSTORAGE_PRIORITY_LOW, "", nullptr}, S_OK},
        {{FROM_FILE, 8192, DSTORAGE_PRIORITY_REALTIME, nullptr, nullptr}, S_OK},
        {{FROM_MEMORY, 129, DSTORAGE_PRIORITY_REALTIME, nullptr, nullptr}, S_OK},
        {{FROM_FILE, 127, DSTORAGE_PRIORITY_NORMAL, nullptr, nullptr},
         E_DSTORAGE_INVALID_QUEUE_CAPACITY},
        {{FROM_FILE, 8193, DSTORAGE_PRIORITY_NORMAL, nullptr, nullptr},
         E_DSTORAGE_INVALID_QUEUE_CAPACITY},
        {{FROM_FILE, 65535, DSTORAGE_PRIORITY_NORMAL, nullptr, nullptr},
         E_DSTORAGE_INVALID_QUEUE_CAPACITY},
        {{FROM_FILE, 128, DSTORAGE_PRIORITY(3), nullptr, nullptr},
         E_DSTORAGE_INVALID_QUEUE_PRIORITY},
        {{FROM_FILE, 128, DSTORAGE_PRIORITY(-128), nullptr, nullptr},
         E_DSTORAGE_INVALID_QUEUE_PRIORITY},
        {{FROM_MEMORY, 128, DSTORAGE_PRIORITY_HIGH, nullptr, nullptr},
         E_DSTORAGE_INVALID_MEMORY_QUEUE_PRIORITY},
        {{DSTORAGE_REQUEST_SOURCE_TYPE(~0ull), 128, DSTORAGE_PRIORITY_NORMAL, nullptr, nullptr},
         E_DSTORAGE_INVALID_SOURCE_TYPE},
    };
    for (auto &it : cases) {
        void *out = &it;
        EXPECT(it.expected, session.factory->CreateQueue(&it.desc, __uuidof(IDStorageQueue), &out));
        CHECK((out != nullptr) == (it.expected == S_OK));
        if (out)
            static_cast<IDStorageQueue *>(out)->Release();
    }
    void *out = &session;
    auto factory = session.factory.get();
    EXPECT(E_INVALIDARG, factory->CreateQueue(nullptr, __uuidof(IDStorageQueue), &out));
    CHECK(out == nullptr);
    EXPECT(E_NOINTERFACE, factory->CreateQueue(&cases[0].desc, __uuidof(IDStorageFile), &out));
    EXPECT(E_POINTER, factory->CreateQueue(&cases[0].desc, __uuidof(IDStorageQueue), nullptr));
    EXPECT(E_INVALIDARG, factory->CreateStatusArray(0, "", __uuidof(IDStorageStatusArray), &out));
    EXPECT(E_OUTOFMEMORY,
           factory->CreateStatusArray(~0u, nullptr, __uuidof(IDStorageStatusArray), &out));
    EXPECT(E_NOINTERFACE, factory->CreateStatusArray(1, nullptr, __uuidof(IDStorageFile), &out));
    auto statuses = session.statuses(2);
    EXPECT(S_OK, statuses->GetHResult(1));
    EXPECT(E_DSTORAGE_INDEX_BOUND, statuses->GetHResult(2));
    EXPECT(E_DSTORAGE_INDEX_BOUND, statuses->GetHResult(~0u));
    CHECK(statuses->IsComplete(1) && statuses->IsComplete(~0u));
}

static void check_files() {
    Session session;
    auto factory = session.factory.get();
    auto open = [&](const std::wstring &path) {
        void *out = &session;
        HRESULT result = factory->OpenFile(path.c_str(), __uuidof(IDStorageFile), &out);
        CHECK(FAILED(result) && out == nullptr);
        return result;
    };
    CreateDirectoryW(L"folder", nullptr);
    EXPECT(win32(ERROR_FILE_NOT_FOUND), open(L"missing.bin"));
    EXPECT(win32(ERROR_PATH_NOT_FOUND), open(L"no folder\\missing.bin"));
    EXPECT(win32(ERROR_ACCESS_DENIED), open(L"folder"));
    EXPECT(E_DSTORAGE_UNSUPPORTED_FILE, open(L"NUL"));
    // A name of a file is too long, or the path is: systems differ.
    HRESULT result = open(std::wstring(32000, L'a'));
    CHECK(result == win32(ERROR_FILE_NOT_FOUND) || result == win32(ERROR_PATH_NOT_FOUND) ||
          result == win32(ERROR_INVALID_NAME) || result == win32(ERROR_FILENAME_EXCED_RANGE));
    EXPECT(win32(ERROR_FILENAME_EXCED_RANGE), open(std::wstring(40000, L'a')));
    void *out = &session;
    EXPECT(E_INVALIDARG, factory->OpenFile(nullptr, __uuidof(IDStorageFile), &out));
    CHECK(out == nullptr);
    EXPECT(E_POINTER, factory->OpenFile(L"slots.bin", __uuidof(IDStorageFile), nullptr));
    EXPECT(E_NOINTERFACE, factory->OpenFile(L"slots.bin", __uuidof(IDStorageQueue), &out));

    auto file = session.file(L"file.bin", pattern(300, 2));
    BY_HANDLE_FILE_INFORMATION information{};
    EXPECT(S_OK, file->GetFileInformation(&information));
    CHECK(information.nFileSizeLow == 300 && information.nFileSizeHigh == 0);
    EXPECT(E_POINTER, file->GetFileInformation(nullptr));
    auto queue = session.queue(FROM_FILE);
    Bytes into(300);
    auto request = of_file(file.get(), 0, into);
    queue->EnqueueRequest(&request);
    queue->Submit();
    file->Close();
    file->Close();
    EXPECT(E_DSTORAGE_FILE_NOT_OPEN, file->GetFileInformation(&information));
    finish(queue.get());
    CHECK(into == pattern(300, 2));
    EXPECT(E_DSTORAGE_FILE_NOT_OPEN, run(session, queue.get(), {request}));
}

static void check_codec() {
    void *out = &out;
    for (int format : {0, 3, 0x7f, 0x80, 0xff}) {
        EXPECT(E_INVALIDARG,
               DStorageCreateCompressionCodec(DSTORAGE_COMPRESSION_FORMAT(format), 1,
                                              __uuidof(IDStorageCompressionCodec), &out));
        CHECK(out == nullptr);
    }
    auto codec = made<IDStorageCompressionCodec>([](REFIID iid, void **made) {
        return DStorageCreateCompressionCodec(GDEFLATE, 0, iid, made);
    });
    Bytes raw = pattern(200000, 3), stored(codec->CompressBufferBound(raw.size())), back(200000);
    size_t size = 77, back_size = 0;
    for (int setting : {-1, 0, 1}) {
        EXPECT(S_OK, codec->CompressBuffer(raw.data(), raw.size(), DSTORAGE_COMPRESSION(setting),
                                           stored.data(), stored.size(), &size));
        EXPECT(S_OK, codec->DecompressBuffer(stored.data(), size, back.data(), back.size(),
                                             &back_size));
        CHECK(size < stored.size() && back_size == raw.size() && back == raw);
    }
    const auto usual = DSTORAGE_COMPRESSION_DEFAULT;
    auto compress = [&](const void *from, size_t length, int setting, void *into, size_t room) {
        return codec->CompressBuffer(from, length, DSTORAGE_COMPRESSION(setting), into, room, &size);
    };
    auto decompress = [&](const void *from, size_t length, void *into, size_t room) {
        return codec->DecompressBuffer(from, length, into, room, &back_size);
    };
    size_t length = size;
    auto from = raw.data(), into = back.data();
    EXPECT(E_INVALIDARG, compress(nullptr, 5, usual, into, 100));
    EXPECT(E_INVALIDARG, compress(from, ~size_t(0), usual, into, 100));
    EXPECT(E_INVALIDARG, compress(from, 5, usual, nullptr, 100));
    EXPECT(E_INVALIDARG, compress(from, 5, usual, into, ~size_t(0)));
    EXPECT(E_INVALIDARG, compress(from, 5, 9, into, 100));
    EXPECT(E_INVALIDARG, codec->CompressBuffer(from, 5, usual, into, 100, nullptr));
    EXPECT(win32(ERROR_INSUFFICIENT_BUFFER), compress(from, raw.size(), usual, into, 10));
    from = stored.data();
    EXPECT(E_INVALIDARG, decompress(nullptr, 5, into, 100));
    EXPECT(E_INVALIDARG, decompress(from, ~size_t(0), into, 100));
    EXPECT(E_INVALIDARG, decompress(from, length, nullptr, 100));
    EXPECT(E_INVALIDARG, decompress(from, length, into, ~size_t(0)));
    EXPECT(E_INVALIDARG, codec->DecompressBuffer(from, length, into, 100, nullptr));
    EXPECT(win32(ERROR_INSUFFICIENT_BUFFER), decompress(from, length, into, raw.size() - 1));
    EXPECT(E_DSTORAGE_DECOMPRESSION_ERROR, decompress(from, length - 1, into, raw.size()));
    EXPECT(E_DSTORAGE_DECOMPRESSION_ERROR, decompress(from, 0, into, raw.size()));
    CHECK(codec->CompressBufferBound(~size_t(0)) >= codec->CompressBufferBound(1 << 20));
}

static void check_configuration() {
    DSTORAGE_CONFIGURATION first{};
    DSTORAGE_CONFIGURATION1 second{};
    EXPECT(S_OK, DStorageSetConfiguration(&first));
    EXPECT(E_INVALIDARG, DStorageSetConfiguration(nullptr));
    EXPECT(E_INVALIDARG, DStorageSetConfiguration1(nullptr));
    first.NumBuiltInCpuDecompressionThreads = -2;
    EXPECT(E_INVALIDARG, DStorageSetConfiguration(&first));
    second.ForceFileBuffering = TRUE;
    EXPECT(E_DSTORAGE_FILEBUFFERING_REQUIRES_DISABLED_BYPASSIO,
           DStorageSetConfiguration1(&second));
    second.DisableBypassIO = TRUE;
    second.NumBuiltInCpuDecompressionThreads = 2;
    EXPECT(S_OK, DStorageSetConfiguration1(&second));
    Session session;
    EXPECT(S_OK, session.factory->SetStagingBufferSize(DSTORAGE_STAGING_BUFFER_SIZE_0));
    EXPECT(S_OK, DStorageSetConfiguration1(&second));
    auto queue = session.queue(FROM_FILE);
    EXPECT(E_DSTORAGE_STAGING_BUFFER_LOCKED, DStorageSetConfiguration1(&second));
    EXPECT(E_DSTORAGE_STAGING_BUFFER_LOCKED, session.factory->SetStagingBufferSize(1 << 25));
    queue.reset();
    auto file = session.open(L"slots.bin");
    EXPECT(E_DSTORAGE_STAGING_BUFFER_LOCKED, DStorageSetConfiguration1(&second));
    file->Close();
    EXPECT(S_OK, session.factory->SetStagingBufferSize(DSTORAGE_STAGING_BUFFER_SIZE_32MB));
    second = {};
    EXPECT(S_OK, DStorageSetConfiguration1(&second));
    session.factory->SetDebugFlags(~0u);
    session.factory->SetDebugFlags(DSTORAGE_DEBUG_NONE);
}

void check_objects() {
    check_slots();
    check_bit_fields();
    check_query_of_each_interface_from_each();
    check_counts();
    check_a_load_through_slots();
    check_factory();
    check_descriptions();
    check_files();
    check_codec();
    check_configuration();
}
