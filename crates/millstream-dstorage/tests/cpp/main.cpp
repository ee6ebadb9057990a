// The conformance program: `conformance [SCHEDULES [FIRST_SEED [LOADS [whole]]]]`, in a folder of its
// own; `whole` adds what takes half a minute. It says "done" at its end; a check that does not hold
// names its line.
#include "conformance.h"

// Ends the program if a call hangs.
static void watch() {
    for (;;) {
        uint64_t before = progress;
        Sleep(2 * PATIENCE_MS);
        if (progress == before) {
            fprintf(stderr, "no progress within %lu s\n", 2 * PATIENCE_MS / 1000);
            fail();
        }
    }
}

int main(int count, char **arguments) {
    auto number = [&](int at, uint64_t otherwise) {
        return at < count ? strtoull(arguments[at], nullptr, 10) : otherwise;
    };
    std::thread(watch).detach();
    check_objects();
    check_requests();
    check_queues();
    check_schedules(number(2, 0), number(1, 200));
    check_leaks(number(3, 200));
    if (count > 4)
        check_too_many_queues();
    puts("done");
}
