// Netpbm's own library.
#include "rival.h"

#include <netpbm/pam.h>

static unsigned char *load(const char *path, size_t *len) {
    FILE *stream = pm_openr(path);
    struct pam pam;
    pnm_readpaminit(stream, &pam, PAM_STRUCT_SIZE(tuple_type));
    *len = (size_t)pam.width * pam.height * pam.depth;
    unsigned char *image = (unsigned char *)malloc(*len), *to = image;
    tuple *row = pnm_allocpamrow(&pam);
    if (!image)
        exit(1);
    for (int y = 0; y < pam.height; y++) {
        pnm_readpamrow(&pam, row);
        for (int x = 0; x < pam.width; x++)
            for (unsigned plane = 0; plane < pam.depth; plane++)
                *to++ = (unsigned char)row[x][plane];
    }
    pnm_freepamrow(row);
    pm_close(stream);
    return image;
}

int main(int count, char **words) {
    size_t len;
    if (count != 2)
        return 2;
    pm_init(words[0], 0);
    free(load(words[1], &len));
    uint64_t begun = now_ns();
    unsigned char *image = load(words[1], &len);
    report(now_ns() - begun, image, len);
    return 0;
}
