// What the rivals share: a clock, the sum of the samples, and the report.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint64_t word_sum(const unsigned char *bytes, size_t len) {
    uint64_t sum = 0, word;
    size_t at = 0;
    for (; at + 8 <= len; at += 8) {
        memcpy(&word, bytes + at, 8);
        sum += word;
    }
    word = 0;
    memcpy(&word, bytes + at, len - at);
    return sum + word;
}

static void report(uint64_t ns, const unsigned char *bytes, size_t len) {
    printf("%llu %llu %llu\n", (unsigned long long)ns, (unsigned long long)len,
           (unsigned long long)word_sum(bytes, len));
}
