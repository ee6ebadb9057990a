// Queues: slots, order, markers, fences, cancellation, custom decompression, Close, and null
// arguments.
#include "conformance.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

// A fence of the program.
class Fence final : public ID3D12Fence {
public:
    ULONG STDMETHODCALLTYPE AddRef() override { return ++references; }
    ULONG STDMETHODCALLTYPE Release() override {
        ULONG left = --references;
        if (left == 0)
            delete this;
        return left;
    }

    HRESULT STDMETHODCALLTYPE QueryInterface(REFIID iid, void **out) override {
        if (iid != __uuidof(ID3D12Fence) && iid != __uuidof(IUnknown)) {
            *out = nullptr;
            return E_NOINTERFACE;
        }
        AddRef();
        *out = this;
        return S_OK;
    }

    HRESULT STDMETHODCALLTYPE GetPrivateData(REFGUID, UINT *, void *) override { return E_NOTIMPL; }
    HRESULT STDMETHODCALLTYPE SetPrivateData(REFGUID, UINT, const void *) override {
        return E_NOTIMPL;
    }
    HRESULT STDMETHODCALLTYPE SetPrivateDataInterface(REFGUID, const IUnknown *) override {
        return E_NOTIMPL;
    }
    HRESULT STDMETHODCALLTYPE SetName(const WCHAR *) override { return E_NOTIMPL; }
    HRESULT STDMETHODCALLTYPE GetDevice(REFIID, void **) override { return E_NOTIMPL; }

    UINT64 STDMETHODCALLTYPE GetCompletedValue() override {
        std::lock_guard<std::mutex> guard(lock);
        return value;
    }

    HRESULT STDMETHODCALLTYPE SetEventOnCompletion(UINT64 at, HANDLE event) override {
        std::lock_guard<std::mutex> guard(lock);
        if (value >= at)
            return SetEvent(event) ? S_OK : E_FAIL;
        waits.emplace_back(at, event);
        return S_OK;
    }

    HRESULT STDMETHODCALLTYPE Signal(UINT64 to) override {
        std::lock_guard<std::mutex> guard(lock);
        value = to;
        signals.push_back(to);
        for (auto wait = waits.begin(); wait != waits.end();) {
            bool is_reached = wait->first <= to;
            if (is_reached)
                SetEvent(wait->second);
            wait = is_reached ? waits.erase(wait) : wait + 1;
        }
        return S_OK;
    }

    std::vector<UINT64> signaled() {
        std::lock_guard<std::mutex> guard(lock);
        return signals;
    }

private:
    std::atomic<ULONG> references{1};
    std::mutex lock;
    UINT64 value = 0;
    std::vector<UINT64> signals;
    std::vector<std::pair<UINT64, HANDLE>> waits;
};

// A request that stays in its queue until `release_held`.
struct Hold {
    Bytes from{1}, into{0};

    void enqueue(IDStorageQueue *queue) {
        auto request = of_memory(from, into, CUSTOM);
        queue->EnqueueRequest(&request);
    }
};

// Ends all requests that wait for the program; returns how many.
static size_t release_held(const Session &session) {
    auto custom = session.custom();
    for (size_t ended = 0;;) {
        DSTORAGE_CUSTOM_DECOMPRESSION_REQUEST requests[16];
        DSTORAGE_CUSTOM_DECOMPRESSION_RESULT results[16];
        UINT32 count = 77;
        EXPECT(S_OK, custom->GetRequests(16, requests, &count));
        if (count == 0)
            return ended;
        for (UINT32 i = 0; i < count; i++)
            results[i] = {requests[i].Id, S_OK};
        EXPECT(S_OK, custom->SetRequestResults(count, results));
        ended += count;
    }
}

static void check_slots_of_a_queue() {
    Session session;
    auto queue = session.queue(FROM_MEMORY);
    auto has = [&](int empty, int until) {
        auto info = info_of(queue.get());
        return info.EmptySlotCount == empty && info.RequestCountUntilAutoSubmit == until;
    };
    CHECK(has(127, 64));
    Hold holds[127], last;
    auto event = session.custom()->GetEvent();
    for (int i = 0; i < 63; i++)
        holds[i].enqueue(queue.get());
    CHECK(has(64, 1));
    CHECK(WaitForSingleObject(event, 0) == WAIT_TIMEOUT);
    // Half of the capacity submits itself.
    holds[63].enqueue(queue.get());
    CHECK(WaitForSingleObject(event, PATIENCE_MS) == WAIT_OBJECT_0);
    CHECK(has(63, 64));
    for (int i = 64; i < 127; i++)
        holds[i].enqueue(queue.get());
    CHECK(has(0, 1));
    // A call blocks while the queue is full.
    Event done;
    std::thread blocked([&] {
        last.enqueue(queue.get());
        SetEvent(done.handle);
    });
    CHECK(!done.is_set_within(30));
    CHECK(release_held(session) >= 64);
    CHECK(done.is_set_within(PATIENCE_MS));
    blocked.join();
    queue->Submit();
    while (release_held(session) > 0 || info_of(queue.get()).EmptySlotCount < 127)
        std::this_thread::yield();
    CHECK(record_of(queue.get()).FailureCount == 0);
}

static void check_order() {
    Session session;
    auto file = session.file(L"order.bin", pattern(100000, 50));
    auto queue = session.queue(FROM_FILE);
    auto statuses = session.statuses(4);
    Bytes into(50000);
    Event first, second;
    auto good = of_file(file.get(), 7, into);
    auto past = of_file(file.get(), 50001, into), reserved = good;
    reserved.Options.Reserved = 1;
    // The first failure in the order of enqueueing, not of completion.
    queue->EnqueueRequest(&good);
    queue->EnqueueStatus(statuses.get(), 0);
    queue->EnqueueRequest(&past);
    queue->EnqueueSetEvent(first.handle);
    queue->EnqueueRequest(&reserved);
    queue->EnqueueStatus(statuses.get(), 1);
    queue->EnqueueStatus(statuses.get(), 2);
    queue->EnqueueRequest(&reserved);
    queue->EnqueueRequest(&past);
    queue->EnqueueStatus(statuses.get(), 3);
    queue->EnqueueSetEvent(second.handle);
    for (UINT32 index = 0; index < 4; index++) {
        CHECK(!statuses->IsComplete(index));
        EXPECT(E_PENDING, statuses->GetHResult(index));
    }
    queue->Submit();
    CHECK(second.is_set_within(PATIENCE_MS) && first.is_set_within(0));
    EXPECT(S_OK, statuses->GetHResult(0));
    EXPECT(E_DSTORAGE_END_OF_FILE, statuses->GetHResult(1));
    EXPECT(S_OK, statuses->GetHResult(2));
    EXPECT(E_DSTORAGE_RESERVED_FIELDS, statuses->GetHResult(3));
    CHECK(WaitForSingleObject(queue->GetErrorEvent(), 0) == WAIT_OBJECT_0);
    auto record = record_of(queue.get());
    CHECK(record.FailureCount == 4);
    EXPECT(E_DSTORAGE_END_OF_FILE, record.FirstFailure.HResult);
    CHECK(WaitForSingleObject(queue->GetErrorEvent(), 0) == WAIT_TIMEOUT);
    // 63 characters of a name, and a NUL.
    std::string name(100, 'n');
    past.Name = name.c_str();
    EXPECT(E_DSTORAGE_END_OF_FILE, run(session, queue.get(), {past}));
    record = record_of(queue.get());
    CHECK(record.FirstFailure.Request.RequestName == std::string(63, 'n'));
    // A failure of an event, with its parameters.
    auto no_event = reinterpret_cast<HANDLE>(uintptr_t(0x7ffffff0));
    queue->EnqueueSetEvent(no_event);
    finish(queue.get());
    record = record_of(queue.get());
    CHECK(record.FirstFailure.CommandType == DSTORAGE_COMMAND_TYPE_EVENT);
    CHECK(record.FirstFailure.Event.Handle == no_event && FAILED(record.FirstFailure.HResult));
    // A handle may be closed after the call.
    HANDLE own = CreateEventW(nullptr, TRUE, FALSE, nullptr), copy = nullptr;
    CHECK(DuplicateHandle(GetCurrentProcess(), own, GetCurrentProcess(), &copy, 0, FALSE,
                          DUPLICATE_SAME_ACCESS));
    queue->EnqueueSetEvent(own);
    CloseHandle(own);
    finish(queue.get());
    CHECK(WaitForSingleObject(copy, 0) == WAIT_OBJECT_0);
    CloseHandle(copy);
}

static void check_signals_of_fences() {
    Session session;
    auto file = session.file(L"fences.bin", pattern(1000, 51));
    auto queue = session.queue(FROM_FILE);
    Held<Fence> fence(new Fence);
    Bytes into(1000);
    auto good = of_file(file.get(), 0, into), past = of_file(file.get(), 1, into);
    for (UINT64 value : {5, 6, 9}) {
        queue->EnqueueRequest(value == 6 ? &past : &good);
        queue->EnqueueSignal(fence.get(), value);
    }
    finish(queue.get());
    CHECK(fence->signaled() == std::vector<UINT64>({5, 6, 9}));
    CHECK(record_of(queue.get()).FailureCount == 1);
    for (void *object : {static_cast<void *>(nullptr), static_cast<void *>(file.get())}) {
        queue->EnqueueSignal(static_cast<ID3D12Fence *>(object), 3);
        finish(queue.get());
        auto record = record_of(queue.get());
        EXPECT(E_DSTORAGE_INVALID_FENCE, record.FirstFailure.HResult);
        CHECK(record.FirstFailure.CommandType == DSTORAGE_COMMAND_TYPE_SIGNAL);
        CHECK(record.FirstFailure.Signal.Fence == object && record.FirstFailure.Signal.Value == 3);
    }
    // The queue keeps no reference.
    CHECK(fence->AddRef() == 2 && fence->Release() == 1);
}

static void check_waits_for_fences() {
    Session session;
    auto file = session.file(L"waits.bin", pattern(100000, 52));
    auto queue = session.queue(FROM_FILE);
    for (UINT32 flag = 0; flag < 3; flag++) {
        Held<Fence> fence(new Fence);
        Bytes into(90000), small(5);
        DSTORAGE_REQUEST requests[] = {of_file(file.get(), 3, into), of_file(file.get(), 4, small)};
        Event done;
        auto flags = DSTORAGE_ENQUEUE_REQUEST_FLAGS(flag);
        queue->EnqueueRequests(requests, 2, fence.get(), 10, flags);
        queue->EnqueueSetEvent(done.handle);
        queue->Submit();
        fence->Signal(9);
        CHECK(!done.is_set_within(20));
        CHECK(into == Bytes(90000) && small == Bytes(5));
        fence->Signal(10);
        CHECK(done.is_set_within(PATIENCE_MS));
        Bytes raw = pattern(100000, 52);
        CHECK(memcmp(into.data(), raw.data() + 3, into.size()) == 0);
        CHECK(memcmp(small.data(), raw.data() + 4, small.size()) == 0);
        // A value that is reached, and no fence.
        queue->EnqueueRequests(requests, 2, fence.get(), 10, flags);
        queue->EnqueueRequests(requests, 2, nullptr, ~0ull, flags);
        queue->EnqueueRequests(requests, 0, fence.get(), ~0ull, flags);
        finish(queue.get());
        CHECK(record_of(queue.get()).FailureCount == 0);
        queue->EnqueueRequests(requests, 2, reinterpret_cast<ID3D12Fence *>(file.get()), 1, flags);
        finish(queue.get());
        CHECK(record_of(queue.get()).FailureCount == 2);
    }
    // A fence that is never reached holds up neither cancellation nor Close.
    Held<Fence> fence(new Fence);
    Bytes into(100);
    auto request = of_file(file.get(), 3, into);
    request.CancellationTag = 1;
    queue->EnqueueRequests(&request, 1, fence.get(), 1, DSTORAGE_ENQUEUE_REQUEST_FLAG_NONE);
    queue->Submit();
    queue->CancelRequestsWithTag(1, 1);
    finish(queue.get());
    queue->EnqueueRequests(&request, 1, fence.get(), 1, DSTORAGE_ENQUEUE_REQUEST_FLAG_NONE);
    queue->Submit();
    queue->Close();
    CHECK(into == Bytes(100));
}

static void check_cancellation() {
    Session session;
    auto file = session.file(L"cancel.bin", pattern(100, 53));
    auto queue = session.queue(FROM_FILE);
    auto statuses = session.statuses(1);
    std::vector<Bytes> into(50, Bytes(100));
    for (size_t at = 0; at < into.size(); at++) {
        auto request = of_file(file.get(), 0, into[at]);
        request.CancellationTag = at % 2 ? 0xf0 : 0x0f;
        queue->EnqueueRequest(&request);
    }
    queue->EnqueueStatus(statuses.get(), 0);
    // No tag matches: the value has bits that the mask lacks.
    queue->CancelRequestsWithTag(0, 1);
    queue->CancelRequestsWithTag(0xff, 0x1f);
    queue->CancelRequestsWithTag(0x30, 0x30);
    finish(queue.get());
    // Those that were not submitted did not run; neither counts as a failure.
    for (size_t at = 0; at < into.size(); at++)
        CHECK(into[at] == (at % 2 ? Bytes(100) : pattern(100, 53)));
    EXPECT(S_OK, statuses->GetHResult(0));
    CHECK(record_of(queue.get()).FailureCount == 0);
    CHECK(info_of(queue.get()).EmptySlotCount == 127);
}

static void check_closing() {
    Session session;
    Bytes raw = pattern(4 << 20, 54);
    auto file = session.file(L"close.bin", raw);
    for (int round = 0; round < 8; round++) {
        auto queue = session.queue(FROM_FILE, 1024);
        auto statuses = session.statuses(200);
        std::vector<Bytes> into(200, Bytes(20000));
        Event event;
        for (UINT32 at = 0; at < 200; at++) {
            auto request = of_file(file.get(), at * 20000, into[at]);
            queue->EnqueueRequest(&request);
            queue->EnqueueStatus(statuses.get(), at);
        }
        queue->EnqueueSetEvent(event.handle);
        if (round % 4 > 0)
            queue->Submit();
        queue->Close();
        // Nothing completes any more, and the memory is the program's.
        std::vector<bool> before;
        for (UINT32 at = 0; at < 200; at++)
            before.push_back(statuses->IsComplete(at));
        bool was_set = event.is_set_within(0);
        for (auto &bytes : into)
            std::fill(bytes.begin(), bytes.end(), 0xa5);
        queue->Submit();
        Sleep(3);
        for (UINT32 at = 0; at < 200; at++) {
            CHECK(statuses->IsComplete(at) == before[at]);
            CHECK(into[at] == Bytes(20000, 0xa5));
        }
        CHECK(event.is_set_within(0) == was_set);
        CHECK(std::is_sorted(before.rbegin(), before.rend()));
        CHECK(round % 4 > 0 || std::count(before.begin(), before.end(), true) == 0);
    }
}

static void check_use_after_close() {
    Session session;
    auto file = session.file(L"after.bin", {1, 2, 3});
    auto statuses = session.statuses(1);
    Held<Fence> fence(new Fence);
    auto queue = session.queue(FROM_FILE);
    Bytes into(3);
    Event event;
    auto request = of_file(file.get(), 0, into);
    request.Name = "too late";
    queue->Close();
    queue->Close();
    queue->EnqueueRequest(&request);
    queue->EnqueueRequests(&request, 1, fence.get(), 1, DSTORAGE_ENQUEUE_REQUEST_FLAG_NONE);
    queue->EnqueueStatus(statuses.get(), 0);
    queue->EnqueueSignal(fence.get(), 1);
    queue->EnqueueSetEvent(event.handle);
    queue->Submit();
    queue->CancelRequestsWithTag(0, 0);
    CHECK(queue->GetCompressionSupport(GDEFLATE) == DSTORAGE_COMPRESSION_SUPPORT_CPU_FALLBACK);
    CHECK(WaitForSingleObject(queue->GetErrorEvent(), 0) == WAIT_OBJECT_0);
    auto record = record_of(queue.get());
    CHECK(record.FailureCount == 5);
    EXPECT(E_DSTORAGE_QUEUE_CLOSED, record.FirstFailure.HResult);
    CHECK(record.FirstFailure.CommandType == DSTORAGE_COMMAND_TYPE_REQUEST);
    CHECK(strcmp(record.FirstFailure.Request.RequestName, "too late") == 0);
    CHECK(info_of(queue.get()).EmptySlotCount == 127);
    CHECK(into == Bytes(3) && fence->signaled().empty() && !event.is_set_within(0));
    EXPECT(S_OK, statuses->GetHResult(0));
    CHECK(fence->AddRef() == 2 && fence->Release() == 1);
    // The object counts its references as before.
    CHECK(queue->AddRef() == 2 && queue->Release() == 1);
}

static void check_custom_decompression() {
    Session session;
    auto custom = session.custom();
    auto queue = session.queue(FROM_FILE);
    auto statuses = session.statuses(3);
    auto file = session.file(L"custom.bin", pattern(3000, 55));
    Bytes into[3] = {Bytes(10), Bytes(20), Bytes(30)};
    HANDLE event = custom->GetEvent();
    CHECK(event != nullptr && WaitForSingleObject(event, 0) == WAIT_TIMEOUT);
    for (UINT32 at = 0; at < 3; at++) {
        auto request = of_file(file.get(), at * 1000, 1000, into[at].data(),
                               UINT32(into[at].size()), DSTORAGE_COMPRESSION_FORMAT(0x80 + at));
        queue->EnqueueRequest(&request);
        queue->EnqueueStatus(statuses.get(), at);
    }
    queue->Submit();
    DSTORAGE_CUSTOM_DECOMPRESSION_REQUEST taken[3];
    for (UINT32 got = 0, count = 0; got < 3; got += count) {
        CHECK(WaitForSingleObject(event, PATIENCE_MS) == WAIT_OBJECT_0);
        auto custom_formats = DSTORAGE_GET_REQUEST_FLAG_SELECT_CUSTOM;
        EXPECT(S_OK, custom->GetRequests1(custom_formats, 3 - got, taken + got, &count));
        CHECK(count <= 3 - got);
    }
    CHECK(WaitForSingleObject(event, 0) == WAIT_TIMEOUT);
    DSTORAGE_CUSTOM_DECOMPRESSION_RESULT results[3];
    for (auto &it : taken) {
        UINT32 at = it.CompressionFormat - 0x80;
        CHECK(at < 3 && it.SrcSize == 1000 && it.DstSize == into[at].size());
        CHECK(it.DstBuffer == into[at].data() && it.Flags == 0);
        CHECK(memcmp(it.SrcBuffer, pattern(3000, 55).data() + at * 1000, 1000) == 0);
        memcpy(it.DstBuffer, it.SrcBuffer, it.DstSize);
        results[&it - taken] = {it.Id, at == 1 ? E_ABORT : S_OK};
    }
    EXPECT(S_OK, custom->SetRequestResults(3, results));
    finish(queue.get());
    EXPECT(S_OK, statuses->GetHResult(0));
    EXPECT(E_ABORT, statuses->GetHResult(1));
    EXPECT(S_OK, statuses->GetHResult(2));
    // Ids that are over or never were, null, no requests, unknown flags.
    EXPECT(E_INVALIDARG, custom->SetRequestResults(1, results));
    results[0].Id = ~0ull;
    EXPECT(E_INVALIDARG, custom->SetRequestResults(1, results));
    EXPECT(E_POINTER, custom->SetRequestResults(1, nullptr));
    EXPECT(S_OK, custom->SetRequestResults(0, nullptr));
    UINT32 count = 7;
    EXPECT(E_POINTER, custom->GetRequests(1, nullptr, &count));
    EXPECT(E_POINTER, custom->GetRequests(1, taken, nullptr));
    EXPECT(S_OK, custom->GetRequests(0, nullptr, &count));
    CHECK(count == 0);
    for (UINT32 flags : {0u, 4u, 7u, ~0u})
        EXPECT(E_INVALIDARG,
               custom->GetRequests1(DSTORAGE_GET_REQUEST_FLAGS(flags), 1, taken, &count));
    EXPECT(S_OK,
           custom->GetRequests1(DSTORAGE_GET_REQUEST_FLAG_SELECT_BUILTIN, ~0u, taken, &count));
}

static void check_null() {
    Session session;
    auto queue = session.queue(FROM_FILE);
    auto none = DSTORAGE_ENQUEUE_REQUEST_FLAG_NONE;
    queue->EnqueueRequest(nullptr);
    queue->EnqueueRequests(nullptr, ~0u, nullptr, 0, none);
    queue->EnqueueRequests(nullptr, 0, nullptr, 0, none);
    queue->EnqueueStatus(nullptr, 0);
    queue->EnqueueSignal(nullptr, 0);
    queue->EnqueueSetEvent(nullptr);
    queue->RetrieveErrorRecord(nullptr);
    queue->Query(nullptr);
    finish(queue.get());
    CHECK(record_of(queue.get()).FailureCount == 5);
    DSTORAGE_REQUEST request{};
    for (UINT32 flags : {3u, 4u, ~0u}) {
        auto flag = DSTORAGE_ENQUEUE_REQUEST_FLAGS(flags);
        queue->EnqueueRequests(&request, 1, nullptr, 0, flag);
        finish(queue.get());
        EXPECT(E_INVALIDARG, record_of(queue.get()).FirstFailure.HResult);
    }
    // All bits of a request set, and none.
    memset(&request, 0xff, sizeof request);
    request.Name = nullptr;
    EXPECT(E_DSTORAGE_RESERVED_FIELDS, run(session, queue.get(), {request}));
    record_of(queue.get());
    request = {};
    EXPECT(E_DSTORAGE_INVALID_FILE_HANDLE, run(session, queue.get(), {request}));
    // More requests than the queue has slots.
    auto file = session.file(L"many.bin", pattern(1000, 56));
    Bytes into(1000);
    std::vector<DSTORAGE_REQUEST> many;
    for (UINT32 at = 0; at < 1000; at++)
        many.push_back(of_file(file.get(), at, 1, &into[at], 1));
    queue->EnqueueRequests(many.data(), 1000, nullptr, 0, none);
    finish(queue.get());
    CHECK(into == pattern(1000, 56));
    for (int format : {0, 3, 0x7f, 0x80, 0xff})
        CHECK(queue->GetCompressionSupport(DSTORAGE_COMPRESSION_FORMAT(format)) == 0);
}

void check_too_many_queues() {
    Session session;
    DSTORAGE_QUEUE_DESC desc{FROM_FILE, 128, DSTORAGE_PRIORITY_NORMAL, nullptr, nullptr};
    std::vector<Held<IDStorageQueue>> queues;
    HRESULT result;
    do {
        void *out = nullptr;
        result = session.factory->CreateQueue(&desc, __uuidof(IDStorageQueue), &out);
        CHECK(SUCCEEDED(result) == (out != nullptr));
        if (out)
            queues.emplace_back(static_cast<IDStorageQueue *>(out));
    } while (SUCCEEDED(result));
    EXPECT(E_DSTORAGE_TOO_MANY_QUEUES, result);
    CHECK(queues.size() > 4000);
    // One that is released makes room.
    queues.pop_back();
    session.queue(FROM_FILE);
}

void check_queues() {
    check_slots_of_a_queue();
    check_order();
    check_signals_of_fences();
    check_waits_for_fences();
    check_cancellation();
    check_closing();
    check_use_after_close();
    check_custom_decompression();
    check_null();
}
