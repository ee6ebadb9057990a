// The conformance program: `conformance [SCHEDULES [FIRST_SEED [LOADS]]]`, in a folder of its own.
// It says "done" at its end; a check that does not hold names its line.
#include "conformance.h"

int main(int count, char **arguments) {
    auto number = [&](int at, uint64_t otherwise) {
        return at < count ? strtoull(arguments[at], nullptr, 10) : otherwise;
    };
    check_objects();
    check_requests();
    check_queues();
    check_schedules(number(2, 0), number(1, 200));
    check_leaks(number(3, 200));
    puts("done");
}
