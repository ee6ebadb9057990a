/*
 * # Millstream for C++
 *
 * A thin layer over millstream.h for C++17: objects that free themselves, results in place of
 * exceptions, and with C++20 `std::span` and `co_await`. Whatever is missing here is to be had
 * through `get()` and the functions of millstream.h.
 *
 *     auto storage = millstream::storage::create().value();
 *     auto queue = millstream::queue::create(storage).value();
 *     mst_read_desc read = {};
 *     read.file = storage.open("level1.bin").value();
 *     auto level = queue.read(read).value().wait();
 *     if (!level)
 *         std::fprintf(stderr, "%s\n", level.error().message.c_str());
 *
 * - Objects are movable, not copyable, and free their C object. A storage must outlive its tickets.
 * - `result<T>` holds a value or an `error`. `value()` of a failed result throws `millstream::failed`
 *   if MST_EXCEPTIONS is defined before the header is included, and ends the program with the
 *   message otherwise. Of a temporary result, `value()` and `*` return the value itself, so nothing
 *   refers to what is gone.
 * - Descriptors are those of millstream.h; their size is set here, so it may be left out.
 * - A `co_await`ed ticket resumes its coroutine on a thread of the library, where calls that wait
 *   fail; `co_await std::move(ticket).on(executor)` resumes it where the executor runs it.
 */
#ifndef MILLSTREAM_HPP
#define MILLSTREAM_HPP

#include "millstream.h"

/* MSVC leaves __cplusplus at C++98 unless it is told otherwise. */
#ifdef _MSVC_LANG
#define MST_CPLUSPLUS _MSVC_LANG
#else
#define MST_CPLUSPLUS __cplusplus
#endif

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#ifdef MST_EXCEPTIONS
#include <stdexcept>
#endif
#if MST_CPLUSPLUS >= 202002L
#include <atomic>
#include <coroutine>
#include <span>
#endif

namespace millstream {

/* Why something failed. */
struct error {
    mst_result result = MST_OK;
    std::string message;
    std::string path;
    std::uint64_t offset = 0;
    std::uint64_t length = 0;

    /* The details of an error of millstream.h. */
    static error of(mst_result result, const mst_error *from) {
        error made;
        made.result = result;
        made.message = mst_error_message(from);
        if (const char *path = mst_error_path(from))
            made.path = path;
        mst_error_range(from, &made.offset, &made.length);
        return made;
    }

    /* The details of the last call of this thread that failed. */
    static error last(mst_result result) { return of(result, mst_last_error()); }
};

#ifdef MST_EXCEPTIONS
/* Thrown by `result::value`. */
struct failed : std::runtime_error {
    error why;
    explicit failed(error from) : std::runtime_error(from.message), why(std::move(from)) {}
};
#endif

/* A value, or why there is none. `*` and `->` check as `value` does. */
template <class T> class [[nodiscard]] result {
    std::variant<T, millstream::error> either;

  public:
    result(T value) : either(std::move(value)) {}
    result(millstream::error why) : either(std::move(why)) {}

    explicit operator bool() const { return either.index() == 0; }
    const millstream::error &error() const & { return std::get<1>(either); }
    millstream::error error() && { return std::get<1>(std::move(either)); }
    T *operator->() & { return &value(); }
    const T *operator->() const & { return &value(); }
    const T *operator->() const && = delete;
    T &operator*() & { return value(); }
    const T &operator*() const & { return value(); }
    T operator*() && { return std::move(*this).value(); }

    T &value() & {
        check();
        return std::get<0>(either);
    }
    const T &value() const & {
        check();
        return std::get<0>(either);
    }
    T value() && {
        check();
        return std::get<0>(std::move(either));
    }

  private:
    void check() const {
        if (*this)
            return;
#ifdef MST_EXCEPTIONS
        throw failed(error());
#else
        std::fprintf(stderr, "millstream: %s\n", error().message.c_str());
        std::abort();
#endif
    }
};

/* Nothing, or why it failed. */
using status = result<std::monostate>;

namespace detail {

template <auto Free> struct deleter {
    template <class T> void operator()(T *object) const { Free(object); }
};
template <class T, auto Free> using owned = std::unique_ptr<T, deleter<Free>>;

inline status status_of(mst_result got) {
    if (got != MST_OK)
        return error::last(got);
    return std::monostate{};
}

template <class Desc> Desc sized(Desc desc) {
    desc.size = sizeof(Desc);
    return desc;
}

/* What `create` fills, as an object or an error. */
template <class Object, class C, class Create> result<Object> made(Create create) {
    C *object = nullptr;
    if (mst_result got = create(&object))
        return error::last(got);
    return Object(object);
}

} // namespace detail

/* Memory of the library. */
class buffer {
    detail::owned<mst_buffer, mst_buffer_free> own;

  public:
    buffer() = default;
    explicit buffer(mst_buffer *from) : own(from) {}

    unsigned char *data() const { return static_cast<unsigned char *>(mst_buffer_data(own.get())); }
    std::size_t size() const { return mst_buffer_size(own.get()); }
    unsigned char *begin() const { return data(); }
    unsigned char *end() const { return data() + size(); }
    explicit operator bool() const { return bool(own); }
    mst_buffer *get() const { return own.get(); }
    /* For a descriptor: the request owns it from there on. */
    mst_buffer *release() { return own.release(); }
#if MST_CPLUSPLUS >= 202002L
    std::span<unsigned char> span() const { return {data(), size()}; }
#endif
};

/* How a request completed. */
struct completion {
    std::uint64_t bytes = 0;
    std::uint64_t user_data = 0;
    millstream::buffer buffer;
    /* Of a completion that was drained: `result` is MST_OK, or why it failed. */
    millstream::error error;

    static completion of(mst_completion &from) {
        struct freed {
            mst_completion &it;
            ~freed() { mst_completion_free(&it); }
        } guard{from};
        completion made;
        made.bytes = from.bytes;
        made.user_data = from.user_data;
        made.buffer = millstream::buffer(std::exchange(from.buffer, nullptr));
        if (from.result != MST_OK)
            made.error = millstream::error::of(from.result, from.error);
        return made;
    }
};

/* A request's completion, to come. Dropping it detaches the request. */
class [[nodiscard]] ticket {
    mst_storage *storage = nullptr;
    mst_ticket number = 0;

  public:
    ticket(mst_storage *of, mst_ticket from) : storage(of), number(from) {}
    ticket(ticket &&from) noexcept
        : storage(from.storage), number(std::exchange(from.number, 0)) {}
    ticket &operator=(ticket &&from) noexcept {
        std::swap(storage, from.storage);
        std::swap(number, from.number);
        return *this;
    }
    ~ticket() {
        if (number)
            mst_ticket_free(storage, number);
    }

    mst_ticket get() const { return number; }
    bool is_complete() const { return mst_ticket_poll(storage, number) == MST_OK; }
    /* What its request waits for now; `MST_WAITS_FOR_NOTHING` also of a ticket that was used up. */
    mst_waits_for waits_for() const {
        mst_waits_for cause = MST_WAITS_FOR_NOTHING;
        mst_ticket_waits_for(storage, number, &cause);
        return cause;
    }
    status cancel() const { return detail::status_of(mst_ticket_cancel(storage, number)); }
    status reprioritize(mst_priority priority, std::uint64_t deadline_ns = 0) const {
        return detail::status_of(mst_ticket_reprioritize(storage, number, priority, deadline_ns));
    }

    /* Waits until the request has completed. The ticket is used up, unless the time passed or the
     * call cannot wait here. */
    result<completion> wait(std::uint64_t timeout_ns = MST_FOREVER) {
        mst_completion done = {};
        mst_result got = mst_ticket_wait(storage, number, timeout_ns, &done);
        if (got == MST_OK) {
            number = 0;
            return completion::of(done);
        }
        error why = error::last(got);
        /* The memory of a request that failed is of no use. */
        mst_completion_free(&done);
        if (mst_ticket_poll(storage, number) == MST_ERROR_STALE_TICKET)
            number = 0;
        return why;
    }

#if MST_CPLUSPLUS >= 202002L
    /* For `co_await std::move(ticket)`; see the header's page. */
    auto operator co_await() &&;
    /* For `co_await std::move(ticket).on(executor)`: `executor(handle)` is called once, on a thread
     * of the library, and has `handle.resume()` called on a thread of its own. It must neither wait
     * nor throw, and is not called for a request that has completed already.
     *
     *     auto done = co_await queue.read(desc).value().on(
     *         [&](std::coroutine_handle<> handle) { jobs.push([handle] { handle.resume(); }); });
     */
    template <class Executor> auto on(Executor executor) &&;
    template <class Executor> friend class ticket_awaiter;
#endif
};

namespace detail {

/* Hands a descriptor to a queue or a batch. */
template <class Object, class Desc, class Call>
result<ticket> submit(mst_storage *storage, Object *to, Desc desc, Call call) {
    desc = sized(desc);
    mst_ticket number = 0;
    if (mst_result got = call(to, &desc, &number))
        return error::last(got);
    return ticket(storage, number);
}

/* As `submit`; the completion arrives in the completion queue. */
template <class Object, class Desc, class Call> status post(Object *to, Desc desc, Call call) {
    desc = sized(desc);
    return status_of(call(to, &desc, nullptr));
}

} // namespace detail

#if MST_CPLUSPLUS >= 202002L
/* Resumes a coroutine on the thread that completes its request. */
struct resume_there {
    void operator()(std::coroutine_handle<> handle) const { handle.resume(); }
};

/* What `co_await` of a ticket waits with. The notification shares a state with it, which the last of
 * the two frees, so a coroutine may be destroyed while it is suspended: its request goes on then, and
 * nothing is resumed. Whoever destroys it makes sure, as with any coroutine, that no other thread
 * resumes it at that moment, and no executor does later. */
template <class Executor> class ticket_awaiter {
    struct state {
        std::atomic<void *> waiting;
        Executor executor;
        std::atomic<int> owners{2};

        void leave() {
            if (owners.fetch_sub(1) == 1)
                delete this;
        }
    };

    ticket own;
    Executor executor;
    state *shared = nullptr;

    static void resume(void *user) {
        auto *shared = static_cast<state *>(user);
        void *waiting = shared->waiting.exchange(nullptr);
        Executor executor = std::move(shared->executor);
        shared->leave();
        if (waiting)
            executor(std::coroutine_handle<>::from_address(waiting));
    }

  public:
    ticket_awaiter(ticket from, Executor on) : own(std::move(from)), executor(std::move(on)) {}
    ticket_awaiter(const ticket_awaiter &) = delete;
    ~ticket_awaiter() {
        if (shared) {
            shared->waiting.exchange(nullptr);
            shared->leave();
        }
    }
    bool await_ready() const { return own.is_complete(); }
    bool await_suspend(std::coroutine_handle<> handle) {
        shared = new state{handle.address(), std::move(executor)};
        /* Once it is registered the coroutine may run elsewhere: nothing here is used then. */
        state *registered = shared;
        if (mst_ticket_notify(own.storage, own.number, resume, registered) == MST_OK)
            return true;
        registered->leave();
        return false;
    }
    result<completion> await_resume() { return own.wait(0); }
};

inline auto ticket::operator co_await() && {
    return ticket_awaiter<resume_there>(std::move(*this), {});
}
template <class Executor> auto ticket::on(Executor executor) && {
    return ticket_awaiter<Executor>(std::move(*this), std::move(executor));
}
#endif

/* How a storage is made, opened and asked; see mst_storage_create. */
class storage {
    detail::owned<mst_storage, mst_storage_free> own;

  public:
    explicit storage(mst_storage *from) : own(from) {}

    static result<storage> create(mst_storage_desc desc = {}) {
        desc = detail::sized(desc);
        return detail::made<storage, mst_storage>(
            [&](mst_storage **out) { return mst_storage_create(&desc, out); });
    }

    mst_storage *get() const { return own.get(); }

    result<mst_file> open(const char *path, mst_file_desc desc = {}) const {
        desc = detail::sized(desc);
        mst_file file = 0;
        if (mst_result got = mst_file_open(get(), path, &desc, &file))
            return error::last(got);
        return file;
    }

    /* Loads a whole file, and waits until it has. */
    result<millstream::buffer> load(const char *path) const {
        return detail::made<millstream::buffer, mst_buffer>(
            [&](mst_buffer **out) { return mst_load(get(), path, out); });
    }

    /* Waits until a file is open, and says what is known of it. */
    result<mst_file_info> info(mst_file file, std::uint64_t timeout_ns = MST_FOREVER) const {
        mst_ticket opened = 0;
        if (mst_result got = mst_file_opened(get(), file, &opened))
            return error::last(got);
        mst_file_info info = {};
        info.size = sizeof info;
        mst_result got = mst_file_info_wait(get(), opened, timeout_ns, &info);
        if (got == MST_OK)
            return info;
        error why = error::last(got);
        /* Claimed, unless the time passed or the call cannot wait here. */
        mst_ticket_free(get(), opened);
        return why;
    }

    result<millstream::buffer> buffer(std::size_t size) const {
        return detail::made<millstream::buffer, mst_buffer>(
            [&](mst_buffer **out) { return mst_buffer_create(get(), size, out); });
    }

    mst_stats stats() const {
        mst_stats stats = {};
        stats.size = sizeof stats;
        mst_storage_stats(get(), &stats);
        return stats;
    }

    status close(std::uint64_t timeout_ns = MST_FOREVER) const {
        return detail::status_of(mst_storage_close(get(), timeout_ns, nullptr));
    }
};

/* Requests that belong together. */
class group {
    detail::owned<mst_group, mst_group_free> own;

  public:
    explicit group(mst_group *from) : own(from) {}
    static result<group> create() { return detail::made<group, mst_group>(mst_group_create); }
    mst_group *get() const { return own.get(); }

    mst_group_counts counts() const {
        mst_group_counts counts = {};
        counts.size = sizeof counts;
        mst_group_count(get(), &counts);
        return counts;
    }
    status wait(const storage &of, std::uint64_t timeout_ns = MST_FOREVER) const {
        return detail::status_of(mst_group_wait(of.get(), get(), timeout_ns));
    }
};

/* A number that only grows. */
class fence {
    detail::owned<mst_fence, mst_fence_free> own;

  public:
    explicit fence(mst_fence *from) : own(from) {}
    static result<fence> create(std::uint64_t value = 0) {
        return detail::made<fence, mst_fence>(
            [&](mst_fence **out) { return mst_fence_create(value, out); });
    }
    mst_fence *get() const { return own.get(); }
    std::uint64_t value() const { return mst_fence_value(get()); }
    status signal(std::uint64_t value) const {
        return detail::status_of(mst_fence_signal(get(), value));
    }
    status wait(const storage &of, std::uint64_t value,
                std::uint64_t timeout_ns = MST_FOREVER) const {
        return detail::status_of(mst_fence_wait(of.get(), get(), value, timeout_ns));
    }
};

/* Slots that status entries of batches fill. */
class status_array {
    detail::owned<mst_status_array, mst_status_array_free> own;

  public:
    explicit status_array(mst_status_array *from) : own(from) {}
    static result<status_array> create(std::size_t count) {
        return detail::made<status_array, mst_status_array>(
            [&](mst_status_array **out) { return mst_status_array_create(count, out); });
    }
    mst_status_array *get() const { return own.get(); }
    /* What a slot says: MST_ERROR_NOT_READY while it is pending; see mst_status_array_get. */
    result<mst_result> at(std::size_t index) const {
        mst_result said = MST_OK;
        if (mst_result got = mst_status_array_get(get(), index, &said))
            return error::last(got);
        return said;
    }
    status reset(std::size_t index) const {
        return detail::status_of(mst_status_array_reset(get(), index));
    }
};

/* A queue of requests; see mst_queue_create. */
class queue {
    mst_storage *storage_of = nullptr;
    detail::owned<mst_queue, mst_queue_free> own;

  public:
    queue(mst_storage *of, mst_queue *from) : storage_of(of), own(from) {}

    static result<queue> create(const storage &of, mst_queue_desc desc = {}) {
        desc = detail::sized(desc);
        mst_queue *made = nullptr;
        if (mst_result got = mst_queue_create(of.get(), &desc, &made))
            return error::last(got);
        return queue(of.get(), made);
    }

    mst_queue *get() const { return own.get(); }
    mst_storage *storage() const { return storage_of; }

    result<ticket> read(const mst_read_desc &desc) const {
        return detail::submit(storage_of, get(), desc, mst_queue_read);
    }
    result<ticket> write(const mst_write_desc &desc) const {
        return detail::submit(storage_of, get(), desc, mst_queue_write);
    }
    result<ticket> operate(const mst_operation_desc &desc) const {
        return detail::submit(storage_of, get(), desc, mst_queue_operate);
    }
    /* Submits a request whose completion arrives in the completion queue. */
    status post(const mst_read_desc &desc) const {
        return detail::post(get(), desc, mst_queue_read);
    }
    status post(const mst_write_desc &desc) const {
        return detail::post(get(), desc, mst_queue_write);
    }
    /* Of the requests submitted before whose `tag & mask == value`. */
    status cancel_tagged(std::uint64_t mask, std::uint64_t value) const {
        return detail::status_of(mst_queue_cancel_tagged(get(), mask, value));
    }
    status reprioritize_tagged(std::uint64_t mask, std::uint64_t value, mst_priority priority,
                               std::uint64_t deadline_ns = 0) const {
        return detail::status_of(
            mst_queue_reprioritize_tagged(get(), mask, value, priority, deadline_ns));
    }
    status cancel_group(const group &of) const {
        return detail::status_of(mst_queue_cancel_group(get(), of.get()));
    }
    /* Entries accepted that have not completed. */
    std::uint64_t live() const { return mst_queue_live(get()); }
    status close_file(mst_file file) const {
        return detail::status_of(mst_queue_close_file(get(), file));
    }
    status wait_idle(std::uint64_t timeout_ns = MST_FOREVER) const {
        return detail::status_of(mst_queue_wait_idle(get(), timeout_ns));
    }
    /* Waits until there is a completion to drain. */
    status wait(std::uint64_t timeout_ns = MST_FOREVER) const {
        return detail::status_of(mst_queue_wait(get(), timeout_ns));
    }
    /* Calls `use` with each completion that has arrived, oldest first; how many. */
    template <class Use> std::size_t drain(Use use) const {
        mst_completion one = {};
        std::size_t total = 0, count = 0;
        while (mst_queue_drain(get(), &one, 1, &count) == MST_OK && count == 1) {
            total++;
            use(completion::of(one));
        }
        return total;
    }
};

/* Entries on their way into a queue; submitted when it is destroyed, too. */
class batch {
    mst_storage *storage_of = nullptr;
    detail::owned<mst_batch, mst_batch_free> own;

  public:
    batch(mst_storage *of, mst_batch *from) : storage_of(of), own(from) {}

    static result<batch> create(const queue &of) {
        mst_batch *made = nullptr;
        if (mst_result got = mst_batch_create(of.get(), &made))
            return error::last(got);
        return batch(of.storage(), made);
    }

    mst_batch *get() const { return own.get(); }
    result<ticket> read(const mst_read_desc &desc) const {
        return detail::submit(storage_of, get(), desc, mst_batch_read);
    }
    result<ticket> write(const mst_write_desc &desc) const {
        return detail::submit(storage_of, get(), desc, mst_batch_write);
    }
    result<ticket> operate(const mst_operation_desc &desc) const {
        return detail::submit(storage_of, get(), desc, mst_batch_operate);
    }
    status post(const mst_read_desc &desc) const {
        return detail::post(get(), desc, mst_batch_read);
    }
    status post(const mst_write_desc &desc) const {
        return detail::post(get(), desc, mst_batch_write);
    }
    status signal(const fence &of, std::uint64_t value) const {
        return detail::status_of(mst_batch_signal(get(), of.get(), value));
    }
    status try_signal(const fence &of, std::uint64_t value) const {
        return detail::status_of(mst_batch_try_signal(get(), of.get(), value));
    }
    /* Writes a slot of `to` once everything before has completed. */
    status write_status(const status_array &to, std::size_t index) const {
        return detail::status_of(mst_batch_status(get(), to.get(), index));
    }
    status try_write_status(const status_array &to, std::size_t index) const {
        return detail::status_of(mst_batch_try_status(get(), to.get(), index));
    }
    status submit() const { return detail::status_of(mst_batch_submit(get())); }
};

/* A package, or mounts. */
class source {
    detail::owned<mst_source, mst_source_free> own;

  public:
    explicit source(mst_source *from) : own(from) {}

    static result<source> package(const storage &of, const char *path, mst_package_desc desc = {}) {
        desc = detail::sized(desc);
        return detail::made<source, mst_source>(
            [&](mst_source **out) { return mst_package_open(of.get(), path, &desc, out); });
    }
    static result<source> mounts(const storage &of, const mst_layer *layers, std::size_t count) {
        return detail::made<source, mst_source>(
            [&](mst_source **out) { return mst_mounts_open(of.get(), layers, count, out); });
    }

    mst_source *get() const { return own.get(); }
    result<mst_entry> find(const char *name) const {
        mst_entry entry;
        if (mst_result got = mst_source_find(get(), name, &entry))
            return error::last(got);
        return entry;
    }
};

/* A stream of a file or an entry. */
class stream {
    detail::owned<mst_stream, mst_stream_free> own;

  public:
    explicit stream(mst_stream *from) : own(from) {}

    static result<stream> open(const storage &of, const char *path, mst_stream_desc desc = {}) {
        desc = detail::sized(desc);
        return detail::made<stream, mst_stream>(
            [&](mst_stream **out) { return mst_stream_open(of.get(), path, &desc, out); });
    }
    static result<stream> open_entry(const storage &of, const source &in, const char *name) {
        return detail::made<stream, mst_stream>(
            [&](mst_stream **out) { return mst_stream_open_entry(of.get(), in.get(), name, out); });
    }

    mst_stream *get() const { return own.get(); }
    result<std::size_t> read(void *memory, std::size_t size) const {
        std::size_t count = 0;
        if (mst_result got = mst_stream_read(get(), memory, size, &count))
            return error::last(got);
        return count;
    }
    status write(const void *memory, std::size_t size) const {
        return detail::status_of(mst_stream_write(get(), memory, size));
    }
    status seek(std::uint64_t position) const {
        return detail::status_of(mst_stream_seek(get(), position));
    }
    status close() { return detail::status_of(mst_stream_close(get())); }
    status commit() { return detail::status_of(mst_stream_commit(get())); }
};

} // namespace millstream

#endif
