// Stages 1 and 2 of the study: C++ streams, and stdio. Called with the number of the stage, how often
// to load, and a file, it prints for the last load the nanoseconds, and length and sum of the
// samples.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>

// Samples in memory that nobody has touched.
struct Image {
    size_t len;
    std::unique_ptr<unsigned char[]> samples;

    explicit Image(size_t len) : len(len), samples(new unsigned char[len]) {}
};

static Image with_streams(const char *path) {
    std::ifstream stream(path, std::ios::binary);
    std::string magic;
    unsigned width = 0, height = 0, maxval = 0;
    stream >> magic;
    while ((stream >> std::ws).peek() == '#') {
        std::string comment;
        std::getline(stream, comment);
    }
    stream >> width >> height >> maxval;
    Image image((size_t)width * height * 3);
    if (magic == "P3") {
        unsigned sample;
        for (size_t at = 0; at < image.len && stream >> sample; at++)
            image.samples[at] = (unsigned char)sample;
    } else {
        stream.get();
        stream.read((char *)image.samples.get(), (std::streamsize)image.len);
    }
    return image;
}

static Image with_stdio(const char *path) {
    FILE *stream = fopen(path, "rb");
    char magic[3];
    unsigned width, height, maxval, sample;
    if (!stream || fscanf(stream, "%2s %u %u %u", magic, &width, &height, &maxval) != 4)
        exit(1);
    Image image((size_t)width * height * 3);
    if (magic[1] == '3') {
        for (size_t at = 0; at < image.len && fscanf(stream, "%u", &sample) == 1; at++)
            image.samples[at] = (unsigned char)sample;
    } else {
        fgetc(stream);
        if (fread(image.samples.get(), 1, image.len, stream) != image.len)
            exit(1);
    }
    fclose(stream);
    return image;
}

int main(int count, char **words) {
    if (count != 4)
        return 2;
    auto *load = words[1][0] == '1' ? with_streams : with_stdio;
    for (int before = atoi(words[2]) - 1; before > 0; before--)
        load(words[3]);
    auto begun = std::chrono::steady_clock::now();
    Image image = load(words[3]);
    auto spent = std::chrono::steady_clock::now() - begun;
    uint64_t sum = 0, word, last = 0;
    size_t whole = image.len / 8 * 8;
    for (size_t at = 0; at < whole; at += 8) {
        memcpy(&word, &image.samples[at], 8);
        sum += word;
    }
    memcpy(&last, image.samples.get() + whole, image.len - whole);
    long long ns = std::chrono::duration_cast<std::chrono::nanoseconds>(spent).count();
    printf("%lld %zu %llu\n", ns, image.len, (unsigned long long)(sum + last));
    return 0;
}
