// Seeded schedules: several threads enqueue, submit, cancel and close at will. What must hold:
// - a status is pending until its entries have completed, then S_OK or the error of a request
//   before it; of the only thread, exactly the first error that no cancellation can hide;
// - bytes of a request that completed are the file's, and no others change, none after Close;
// - a queue that is not closed completes everything and has all its slots again.
#include "conformance.h"

static constexpr uint32_t FILE_BYTES = 300000, MARGIN = 64, STATUSES = 8;

struct Plan {
    Session session;
    Bytes raw = pattern(FILE_BYTES, 110), stored = compressed(raw);
    Held<IDStorageFile> file = session.file(L"schedule.raw", raw);
    Held<IDStorageFile> packed = session.file(L"schedule.packed", stored);
};

// A request, and what it must leave behind.
struct Entry {
    Bytes bytes;
    uint32_t offset, size;
    HRESULT expected;
    bool may_be_canceled, is_memory;
};

struct Job {
    Plan *plan;
    IDStorageQueue3 *queues[2];
    bool is_alone;
    Random random;
    Held<IDStorageStatusArray> statuses;
    std::vector<Entry> entries;
    // The first failure since the last status; E_PENDING: a cancellation may hide it.
    HRESULT first[2] = {S_OK, S_OK};

    void enqueue(int kind);
    void enqueue_status(int kind);
    void step();
};

void Job::enqueue(int kind) {
    auto &plan = *this->plan;
    uint32_t size = random.below(40000), offset = random.below(FILE_BYTES - 40000);
    uint32_t variant = random.below(10);
    if (variant == 0)
        size = FILE_BYTES, offset = 0;
    Entry entry{Bytes(size + 2 * MARGIN, 0xa5), offset, size, S_OK, random.below(4) == 0, kind == 1};
    void *into = entry.bytes.data() + MARGIN;
    auto request = of_file(plan.file.get(), offset, size, into, size);
    if (variant == 0)
        request = of_file(plan.packed.get(), 0, uint32_t(plan.stored.size()), into, size, GDEFLATE);
    if (kind == 1) {
        const Bytes &from = variant == 0 ? plan.stored : plan.raw;
        request.Options.SourceType = FROM_MEMORY;
        request.Source.Memory = {from.data() + (variant == 0 ? 0 : offset),
                                 variant == 0 ? uint32_t(from.size()) : size};
    }
    bool is_refused = variant == 1 || variant == 3;
    if (variant == 1) {
        request.Options.Reserved1[0] = 1;
        entry.expected = E_DSTORAGE_RESERVED_FIELDS;
    } else if (variant == 2 && kind == 0 && size > 0) {
        request.Source.File.Offset = FILE_BYTES - size + 1;
        entry.expected = E_DSTORAGE_END_OF_FILE;
    } else if (variant == 3) {
        request.Destination.Memory.Size++;
        entry.expected = E_DSTORAGE_INVALID_DESTINATION_SIZE;
    }
    request.CancellationTag = entry.may_be_canceled;
    // A refused request fails whether it is canceled or not.
    entry.may_be_canceled = entry.may_be_canceled && !is_refused;
    if (first[kind] == S_OK && FAILED(entry.expected))
        first[kind] = entry.may_be_canceled ? E_PENDING : entry.expected;
    queues[kind]->EnqueueRequest(&request);
    entries.push_back(std::move(entry));
}

void Job::enqueue_status(int kind) {
    uint32_t index = random.below(STATUSES);
    if (!statuses->IsComplete(index))
        return;
    queues[kind]->EnqueueStatus(statuses.get(), index);
    HRESULT expected = first[kind];
    first[kind] = S_OK;
    if (is_alone) {
        finish(queues[kind]);
        CHECK(statuses->IsComplete(index));
        if (expected != E_PENDING)
            EXPECT(expected, statuses->GetHResult(index));
    }
}

void Job::step() {
    int kind = int(random.below(2));
    uint32_t choice = random.below(20);
    if (choice < 12) {
        enqueue(kind);
    } else if (choice < 15) {
        enqueue_status(kind);
    } else if (choice < 17) {
        queues[kind]->Submit();
    } else if (choice == 17) {
        queues[kind]->CancelRequestsWithTag(1, 1);
    } else if (choice == 18) {
        auto info = info_of(queues[kind]);
        CHECK(info.EmptySlotCount < info.Desc.Capacity);
        CHECK(info.RequestCountUntilAutoSubmit <= info.Desc.Capacity / 2);
    } else {
        Event event;
        queues[kind]->EnqueueSetEvent(event.handle);
    }
}

static void check_entry(const Plan &plan, const Entry &entry, bool closed) {
    auto begin = entry.bytes.begin() + MARGIN, end = begin + entry.size;
    auto is_untouched = [](Bytes::const_iterator from, Bytes::const_iterator to) {
        for (; from != to; ++from)
            if (*from != 0xa5)
                return false;
        return true;
    };
    CHECK(is_untouched(entry.bytes.begin(), begin) && is_untouched(end, entry.bytes.end()));
    bool is_right = std::equal(begin, end, plan.raw.begin() + entry.offset);
    if (FAILED(entry.expected))
        CHECK(is_untouched(begin, end));
    else if (!closed && !entry.may_be_canceled)
        CHECK(is_right);
    else if (entry.is_memory && !closed)
        // Copied whole or not at all.
        CHECK(is_right || is_untouched(begin, end));
}

static void check_statuses(const Job &job, bool closed) {
    for (uint32_t index = 0; index < STATUSES; index++) {
        HRESULT result = job.statuses->GetHResult(index);
        CHECK(result == S_OK || result == E_DSTORAGE_RESERVED_FIELDS ||
              result == E_DSTORAGE_END_OF_FILE || result == E_DSTORAGE_INVALID_DESTINATION_SIZE ||
              (closed && result == E_PENDING));
    }
}

static void run_schedule(Plan &plan, uint64_t seed) {
    static const UINT16 capacities[] = {128, 130, 1024};
    Random random{seed};
    UINT16 capacity = capacities[random.below(3)];
    Held<IDStorageQueue3> queues[] = {plan.session.queue(FROM_FILE, capacity),
                                      plan.session.queue(FROM_MEMORY, capacity)};
    bool closes = random.below(4) == 0;
    size_t count = 1 + random.below(3);
    std::vector<Job> jobs;
    for (size_t i = 0; i < count; i++)
        jobs.push_back({&plan, {queues[0].get(), queues[1].get()}, count == 1 && !closes,
                        Random{random.next()}, plan.session.statuses(STATUSES), {}});
    std::vector<std::thread> threads;
    for (auto &job : jobs)
        threads.emplace_back([&job] {
            for (uint32_t step = 10 + job.random.below(70); step > 0; step--)
                job.step();
        });
    if (closes) {
        for (uint32_t i = random.below(20); i > 0; i--)
            std::this_thread::yield();
        queues[random.below(2)]->Close();
    }
    for (auto &thread : threads)
        thread.join();
    for (auto &queue : queues) {
        if (closes) {
            queue->Close();
        } else {
            finish(queue.get());
            CHECK(info_of(queue.get()).EmptySlotCount == capacity - 1);
        }
    }
    uint32_t least = 0, most = 0, failures = 0;
    for (auto &job : jobs) {
        check_statuses(job, closes);
        for (auto &entry : job.entries) {
            check_entry(plan, entry, closes);
            most += FAILED(entry.expected);
            least += FAILED(entry.expected) && !entry.may_be_canceled;
        }
    }
    for (auto &queue : queues)
        failures += record_of(queue.get()).FailureCount;
    CHECK(closes || (least <= failures && failures <= most));
}

void check_schedules(uint64_t first_seed, uint64_t count) {
    Plan plan;
    for (uint64_t seed = first_seed; seed < first_seed + count; seed++) {
        current_seed = int64_t(seed);
        run_schedule(plan, seed);
    }
    current_seed = -1;
}
