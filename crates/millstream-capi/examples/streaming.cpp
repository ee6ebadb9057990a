// Streams an open world within a frame budget: each frame moves the player, asks for the chunks that
// come near, cancels those that are behind, and takes what has landed. Prints the worst frame.
//
//     ./streaming WORLD-FILE [FRAMES]
//
// The frame's thread never waits for the disk: requests go out as one batch, and completions come
// in by one call. The nearest chunks have deadlines, so they are read first.
#include <millstream.hpp>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

namespace ms = millstream;
using steady = std::chrono::steady_clock;

constexpr std::uint64_t chunk_bytes = 64 * 1024;
constexpr int view = 12;                // chunks ahead of the player
constexpr std::uint64_t frame_us = 2000; // as short as a frame of this example is

struct chunk {
    enum { absent, wanted, here } state = absent;
    ms::buffer bytes;
};

int main(int argc, char **argv) {
    if (argc < 2) {
        std::fprintf(stderr, "usage: streaming WORLD-FILE [FRAMES]\n");
        return 2;
    }
    auto storage = ms::storage::create();
    if (!storage) {
        std::fprintf(stderr, "%s\n", storage.error().message.c_str());
        return 1;
    }
    auto queue = ms::queue::create(*storage).value();
    mst_file world = storage->open(argv[1]).value();
    mst_ticket opened = 0;
    mst_file_info info = {};
    info.size = sizeof info;
    if (mst_file_opened(storage->get(), world, &opened)
        || mst_file_info_wait(storage->get(), opened, MST_FOREVER, &info)) {
        std::fprintf(stderr, "%s\n", mst_error_message(mst_last_error()));
        return 1;
    }
    std::vector<chunk> chunks(info.length / chunk_bytes);
    const int last = int(chunks.size()), frames = argc > 2 ? std::atoi(argv[2]) : 300;
    auto worst = steady::duration::zero();
    int landed = 0, late = 0, failed = 0;

    for (int frame = 0; frame < frames; frame++) {
        const auto begin = steady::now();
        const int player = frame / 4;
        {
            auto batch = ms::batch::create(queue).value();
            for (int i = player; i < std::min(player + view, last); i++) {
                if (chunks[i].state != chunk::absent)
                    continue;
                mst_read_desc desc = {};
                desc.file = world;
                desc.offset = std::uint64_t(i) * chunk_bytes;
                desc.length = chunk_bytes;
                desc.options.user_data = desc.options.tag = std::uint64_t(i);
                desc.options.deadline_ns = std::uint64_t(i - player + 1) * 4 * frame_us * 1000;
                if (batch.post(desc))
                    chunks[i].state = chunk::wanted;
            }
        } // submits
        if (player > 0 && player <= last && chunks[player - 1].state == chunk::wanted)
            mst_queue_cancel_tagged(queue.get(), ~std::uint64_t(0), std::uint64_t(player - 1));
        queue.drain([&](ms::completion done) {
            chunk &one = chunks[done.user_data];
            if (done.error.result == MST_OK) {
                one.bytes = std::move(done.buffer);
                one.state = chunk::here;
                landed++;
            } else {
                one.state = chunk::absent;
                failed += done.error.result != MST_ERROR_CANCELED;
            }
        });
        if (player < last && chunks[player].state != chunk::here)
            late++;
        for (int i = 0; i < std::min(player, last); i++)
            chunks[i].bytes = ms::buffer(); // behind the player
        worst = std::max(worst, steady::now() - begin);
        std::this_thread::sleep_until(begin + std::chrono::microseconds(frame_us));
    }
    std::printf("%d chunks, %d frames without the player's chunk, %d failed, worst frame %.2f ms\n",
                landed, late, failed, std::chrono::duration<double, std::milli>(worst).count());
    return failed != 0;
}
