// FFmpeg's decoder of the family, on a file read in one call.
#include "rival.h"

#include <libavcodec/avcodec.h>

static unsigned char *read_file(const char *path, size_t *len) {
    FILE *stream = fopen(path, "rb");
    if (!stream || fseek(stream, 0, SEEK_END) != 0)
        exit(1);
    *len = (size_t)ftell(stream);
    rewind(stream);
    unsigned char *bytes = (unsigned char *)malloc(*len + AV_INPUT_BUFFER_PADDING_SIZE);
    if (!bytes || fread(bytes, 1, *len, stream) != *len)
        exit(1);
    memset(bytes + *len, 0, AV_INPUT_BUFFER_PADDING_SIZE);
    fclose(stream);
    return bytes;
}

static AVFrame *load(const char *path) {
    size_t len;
    unsigned char *bytes = read_file(path, &len);
    AVCodecContext *context = avcodec_alloc_context3(avcodec_find_decoder(AV_CODEC_ID_PPM));
    AVPacket *packet = av_packet_alloc();
    AVFrame *frame = av_frame_alloc();
    context->thread_count = 1;
    packet->data = bytes;
    packet->size = (int)len;
    if (avcodec_open2(context, NULL, NULL) < 0 || avcodec_send_packet(context, packet) < 0 ||
        avcodec_receive_frame(context, frame) < 0)
        exit(1);
    av_packet_free(&packet);
    avcodec_free_context(&context);
    free(bytes);
    return frame;
}

// The rows side by side, outside of the time: a frame pads its rows.
static unsigned char *packed(const AVFrame *frame, size_t *len) {
    size_t row = (size_t)frame->width * (frame->format == AV_PIX_FMT_RGB24 ? 3 : 1);
    *len = row * (size_t)frame->height;
    unsigned char *image = (unsigned char *)malloc(*len);
    if (!image)
        exit(1);
    for (int y = 0; y < frame->height; y++)
        memcpy(image + row * (size_t)y, frame->data[0] + (ptrdiff_t)frame->linesize[0] * y, row);
    return image;
}

int main(int count, char **words) {
    if (count != 2)
        return 2;
    AVFrame *frame = load(words[1]);
    av_frame_free(&frame);
    uint64_t begun = now_ns();
    frame = load(words[1]);
    uint64_t spent = now_ns() - begun;
    size_t len;
    unsigned char *image = packed(frame, &len);
    report(spent, image, len);
    return 0;
}
