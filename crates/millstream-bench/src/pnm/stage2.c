// Stage 2 of the study: stdio.
#include "rival.h"

static unsigned char *load(const char *path, size_t *len) {
    FILE *stream = fopen(path, "rb");
    char magic[3];
    unsigned width, height, maxval, sample;
    if (!stream || fscanf(stream, "%2s %u %u %u", magic, &width, &height, &maxval) != 4)
        exit(1);
    *len = (size_t)width * height * 3;
    unsigned char *image = (unsigned char *)malloc(*len);
    if (!image)
        exit(1);
    if (magic[1] == '3') {
        for (size_t at = 0; at < *len && fscanf(stream, "%u", &sample) == 1; at++)
            image[at] = (unsigned char)sample;
    } else {
        fgetc(stream);
        if (fread(image, 1, *len, stream) != *len)
            exit(1);
    }
    fclose(stream);
    return image;
}

int main(int count, char **words) {
    size_t len;
    if (count != 2)
        return 2;
    free(load(words[1], &len));
    uint64_t begun = now_ns();
    unsigned char *image = load(words[1], &len);
    report(now_ns() - begun, image, len);
    return 0;
}
