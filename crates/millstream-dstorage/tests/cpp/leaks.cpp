// Loads, each of which makes all objects and releases them: the process must have as many handles
// and as much memory after them as before.
#include "conformance.h"

#include <algorithm>

#include <psapi.h>

// The highest of 64 new handles: numbers are used again, so a handle that is left raises it by 4.
// (Wine 8 does not count the handles of a process.)
static size_t highest_handle() {
    std::vector<std::unique_ptr<Event>> events;
    size_t highest = 0;
    for (int i = 0; i < 64; i++) {
        events.push_back(std::make_unique<Event>());
        highest = std::max(highest, size_t(events.back()->handle));
    }
    return highest;
}

// The same as PrivateUsage, which Wine 8 leaves at 0.
static size_t private_bytes() {
    PROCESS_MEMORY_COUNTERS counters{};
    CHECK(GetProcessMemoryInfo(GetCurrentProcess(), &counters, sizeof counters));
    CHECK(counters.PagefileUsage > 0);
    return counters.PagefileUsage;
}

// One load: a good request, one that fails, one that is canceled, one that is decompressed.
static void load(const Session &session, const Bytes &raw, const Bytes &stored) {
    auto file = session.open(L"leaks.raw"), packed = session.open(L"leaks.packed");
    auto queue = session.queue(FROM_FILE);
    auto statuses = session.statuses(1);
    Bytes whole(raw.size()), unpacked(raw.size()), canceled(raw.size());
    auto of_all = of_file(file.get(), 0, whole), past = of_file(file.get(), 1, canceled);
    auto tagged = of_file(file.get(), 0, canceled);
    tagged.CancellationTag = 1;
    past.Name = "past the end";
    auto of_packed = of_file(packed.get(), 0, uint32_t(stored.size()), unpacked.data(),
                             uint32_t(unpacked.size()), GDEFLATE);
    for (auto request : {&of_all, &past, &tagged, &of_packed})
        queue->EnqueueRequest(request);
    queue->EnqueueStatus(statuses.get(), 0);
    queue->CancelRequestsWithTag(1, 1);
    finish(queue.get());
    EXPECT(E_DSTORAGE_END_OF_FILE, statuses->GetHResult(0));
    CHECK(whole == raw && unpacked == raw && canceled == Bytes(raw.size()));
}

void check_leaks(uint64_t loads) {
    Bytes raw = pattern(20000, 120), stored = compressed(raw);
    Session().file(L"leaks.raw", raw);
    Session().file(L"leaks.packed", stored);
    // With one factory, as programs have it; anew each time, every tenth part as often.
    auto all = [&](uint64_t count) {
        {
            Session session;
            for (uint64_t i = 0; i < count; i++)
                load(session, raw, stored);
        }
        for (uint64_t i = 0; i < count / 10; i++)
            load(Session(), raw, stored);
    };
    // What the process keeps once: threads of the system's pool, arenas.
    all(std::min<uint64_t>(loads, 200));
    size_t handles = highest_handle(), memory = private_bytes();
    all(loads);
    // One for ten loads; threads that end just now have a few, for a moment.
    int64_t most = std::min<int64_t>(40, 4 + int64_t(loads) / 10);
    int64_t left = 0;
    for (int i = 0; i < 100; i++) {
        left = int64_t(highest_handle() - handles) / 4;
        if (left < most)
            break;
        Sleep(100);
    }
    int64_t grown = int64_t(private_bytes() - memory);
    printf("%llu loads: %lld handles and %lld KiB more than before\n", (unsigned long long)loads,
           (long long)left, (long long)grown / 1024);
    CHECK(left < most);
    // An allocator keeps some memory.
    CHECK(grown < std::min<int64_t>(4 << 20, (2 << 20) + int64_t(loads) * 1024));
}
