// Stage 1 of the study: C++ streams.
#include "rival.h"

#include <fstream>
#include <string>
#include <vector>

static std::vector<unsigned char> load(const char *path) {
    std::ifstream stream(path, std::ios::binary);
    std::string magic;
    unsigned width = 0, height = 0, maxval = 0;
    stream >> magic;
    while ((stream >> std::ws).peek() == '#') {
        std::string comment;
        std::getline(stream, comment);
    }
    stream >> width >> height >> maxval;
    std::vector<unsigned char> image((size_t)width * height * 3);
    if (magic == "P3") {
        unsigned sample;
        for (size_t at = 0; at < image.size() && stream >> sample; at++)
            image[at] = (unsigned char)sample;
    } else {
        stream.get();
        stream.read((char *)image.data(), (std::streamsize)image.size());
    }
    return image;
}

int main(int count, char **words) {
    if (count != 2)
        return 2;
    load(words[1]);
    uint64_t begun = now_ns();
    std::vector<unsigned char> image = load(words[1]);
    report(now_ns() - begun, image.data(), image.size());
    return 0;
}
