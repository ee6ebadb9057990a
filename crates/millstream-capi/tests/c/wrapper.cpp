// The layer for C++: results, ownership, and with C++20 spans and coroutines.
#if __cplusplus < 202002L
#define MST_EXCEPTIONS
#endif
#include <millstream.hpp>

#include <chrono>
#include <vector>
#if __cplusplus >= 202002L
#include <atomic>
#include <mutex>
#include <semaphore>
#include <thread>
#endif

namespace ms = millstream;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);     \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)

static mst_read_desc whole(mst_file file) {
    mst_read_desc desc = {};
    desc.file = file;
    return desc;
}

#if __cplusplus >= 202002L
struct task {
    struct promise_type {
        task get_return_object() { return {}; }
        std::suspend_never initial_suspend() { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() { std::abort(); }
    };
};

static std::counting_semaphore<> landed{0};

struct owned_task {
    struct promise_type {
        owned_task get_return_object() {
            return {std::coroutine_handle<promise_type>::from_promise(*this)};
        }
        std::suspend_never initial_suspend() { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() { std::abort(); }
    };
    std::coroutine_handle<promise_type> handle;
};

static owned_task wait_for(const ms::queue &queue, mst_read_desc desc) {
    (void)co_await queue.read(desc).value();
    CHECK(false);
}

static void destroyed_while_waiting(const ms::queue &queue, const mst_read_desc &desc) {
    wait_for(queue, desc).handle.destroy();
}

/* What `new` made in this program and has not deleted: coroutines, and what awaiters share. */
static std::atomic<long> made{0};

void *operator new(std::size_t size) {
    made++;
    if (void *memory = std::malloc(size))
        return memory;
    std::abort();
}
void operator delete(void *memory) noexcept {
    if (memory)
        made--;
    std::free(memory);
}
void operator delete(void *memory, std::size_t) noexcept { operator delete(memory); }

static task load(const ms::queue &queue, mst_file file, std::size_t size) {
    auto done = co_await queue.read(whole(file)).value();
    CHECK(done && done->buffer.span().size() == size);
    landed.release();
}

struct run_loop {
    std::mutex lock;
    std::vector<std::coroutine_handle<>> ready;
    std::counting_semaphore<> count{0};

    void push(std::coroutine_handle<> handle) {
        {
            std::lock_guard guard(lock);
            ready.push_back(handle);
        }
        count.release();
    }
    void run_one() {
        CHECK(count.try_acquire_for(std::chrono::seconds(20)));
        std::unique_lock guard(lock);
        auto handle = ready.back();
        ready.pop_back();
        guard.unlock();
        handle.resume();
    }
};

static task load_on(const ms::queue &queue, mst_file file, const ms::fence &open, run_loop &loop) {
    const auto own = std::this_thread::get_id();
    auto desc = whole(file);
    desc.options.after = open.get();
    desc.options.after_value = 1;
    auto done = co_await queue.read(desc).value().on(
        [&loop](std::coroutine_handle<> handle) { loop.push(handle); });
    CHECK(done && std::this_thread::get_id() == own);
    CHECK(queue.read(whole(file)).value().wait());
    landed.release();
}
#endif

int main(int argc, char **argv) {
    CHECK(argc == 2);
    const std::string path = std::string(argv[1]) + "/data";
    const std::vector<char> content(200000, 'm');
    auto storage = ms::storage::create().value();
    {
        mst_stream_desc replace = {};
        replace.flags = MST_STREAM_REPLACE;
        auto stream = ms::stream::open(storage, path.c_str(), replace).value();
        CHECK(stream.write(content.data(), content.size()));
        CHECK(stream.commit());
    }
    auto queue = ms::queue::create(storage).value();
    mst_file file = storage.open(path.c_str()).value();
    auto ticket = queue.read(whole(file)).value();
    auto moved = std::move(ticket);
    auto done = moved.wait();
    CHECK(done && done->bytes == content.size());
    CHECK(std::memcmp(done->buffer.data(), content.data(), content.size()) == 0);
    CHECK(moved.get() == 0);

    // A failure says what and where; a ticket whose time passed is still one.
    auto missing = queue.read(whole(storage.open("/no/such/file").value())).value().wait();
    CHECK(!missing && missing.error().result == MST_ERROR_NOT_FOUND);
    CHECK(missing.error().path == "/no/such/file" && !missing.error().message.empty());
    auto fence = ms::fence::create().value();
    auto held_desc = whole(file);
    held_desc.options.after = fence.get();
    held_desc.options.after_value = 1;
    auto held = queue.read(held_desc).value();
    auto early = held.wait(1000);
    CHECK(!early && early.error().result == MST_ERROR_NOT_READY && held.get() != 0);
    while (held.waits_for() == MST_WAITS_FOR_ENGINE) {
    }
    CHECK(held.waits_for() == MST_WAITS_FOR_FENCE);
    CHECK(fence.signal(1));
    CHECK(held.wait());
    CHECK(held.waits_for() == MST_WAITS_FOR_NOTHING);
#ifdef MST_EXCEPTIONS
    try {
        ms::source::package(storage, path.c_str()).value();
        CHECK(false);
    } catch (const ms::failed &failed) {
        CHECK(failed.why.result == MST_ERROR_WRONG_FORMAT);
    }
#endif

    // A batch into the completion queue.
    auto group = ms::group::create().value();
    {
        auto batch = ms::batch::create(queue).value();
        for (std::uint64_t i = 0; i < 200; i++) {
            auto desc = whole(file);
            desc.offset = i;
            desc.length = 10;
            desc.options.user_data = i;
            desc.options.group = group.get();
            CHECK(batch.post(desc));
        }
    }
    CHECK(group.wait(storage));
    std::size_t seen = 0;
    std::uint64_t sum = 0;
    while (seen < 200) {
        CHECK(queue.wait());
        seen += queue.drain([&](ms::completion one) {
            CHECK(one.error.result == MST_OK && one.buffer.size() == 10);
            sum += one.user_data;
        });
    }
    CHECK(sum == 199 * 200 / 2 && group.counts().done == 200);
    // Tags, groups, statuses, writes of a batch, and what is known of a file.
    CHECK(storage.info(file).value().length == content.size());
    CHECK(storage.load("/no/such/file").error().result == MST_ERROR_NOT_FOUND);
    CHECK(storage.info(storage.open("/no/such/file").value()).error().result
          == MST_ERROR_NOT_FOUND);
    {
        auto statuses = ms::status_array::create(1).value();
        CHECK(statuses.at(0).value() == MST_ERROR_NOT_READY && !statuses.at(1));
        auto closed = ms::fence::create().value();
        auto grouped = ms::group::create().value();
        auto held = whole(file);
        held.options.after = closed.get();
        held.options.after_value = 1;
        held.options.tag = 0x15;
        auto tagged = queue.read(held).value();
        held.options.tag = 0x26;
        held.options.group = grouped.get();
        auto member = queue.read(held).value();
        held.options.group = nullptr;
        auto other = queue.read(held).value();
        CHECK(queue.live() >= 3);
        CHECK(queue.cancel_tagged(0x0f, 0x05) && queue.cancel_group(grouped));
        CHECK(tagged.wait().error().result == MST_ERROR_CANCELED);
        CHECK(member.wait().error().result == MST_ERROR_CANCELED);
        CHECK(queue.reprioritize_tagged(0x0f, 0x06, MST_PRIORITY_LOW));
        CHECK(closed.signal(1) && other.wait());

        mst_file_desc create = {};
        create.flags = MST_FILE_WRITE | MST_FILE_CREATE;
        mst_write_desc write = {};
        write.file = storage.open((path + "2").c_str(), create).value();
        write.memory = content.data();
        write.memory_size = 1000;
        mst_operation_desc sync = {};
        sync.operation = MST_OPERATION_SYNC;
        sync.file = write.file;
        // A status is of all requests of its queue since the last one.
        auto own = ms::queue::create(storage).value();
        auto batch = ms::batch::create(own).value();
        auto written = batch.write(write).value();
        auto synced = batch.operate(sync).value();
        CHECK(batch.write_status(statuses, 0) && batch.submit());
        CHECK(written.wait().value().bytes == 1000 && synced.wait() && own.wait_idle());
        CHECK(statuses.at(0).value() == MST_OK && statuses.reset(0));
        CHECK(statuses.at(0).value() == MST_ERROR_NOT_READY);
    }
#if __cplusplus >= 202002L
    // A coroutine that is destroyed while it waits is never resumed.
    {
        auto never = ms::fence::create().value();
        auto desc = whole(file);
        desc.options.after = never.get();
        desc.options.after_value = 1;
        const long before = made;
        for (int i = 0; i < 100; i++)
            destroyed_while_waiting(queue, desc);
        CHECK(never.signal(1));
        CHECK(queue.wait_idle());
        for (int i = 0; i < 20000 && made != before; i++)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        CHECK(made == before);
    }
    for (int i = 0; i < 50; i++)
        load(queue, file, content.size());
    for (int i = 0; i < 50; i++)
        CHECK(landed.try_acquire_for(std::chrono::seconds(20)));
    // An executor resumes on a thread of its own, which may wait.
    {
        run_loop loop;
        auto open = ms::fence::create().value();
        load_on(queue, file, open, loop);
        CHECK(open.signal(1));
        while (!landed.try_acquire())
            loop.run_one();
    }
#endif
    CHECK(storage.stats().failed >= 1);
    std::puts("done");
}
