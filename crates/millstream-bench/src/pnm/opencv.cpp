// OpenCV; its order of channels is turned round outside of the time that counts.
#include "rival.h"

#include <opencv2/imgcodecs.hpp>

int main(int count, char **words) {
    if (count != 2)
        return 2;
    cv::imread(words[1], cv::IMREAD_UNCHANGED);
    uint64_t begun = now_ns();
    cv::Mat image = cv::imread(words[1], cv::IMREAD_UNCHANGED);
    uint64_t ns = now_ns() - begun;
    if (image.empty() || !image.isContinuous() || image.channels() != 3)
        return 1;
    size_t len = image.total() * 3;
    for (size_t at = 0; at < len; at += 3) {
        unsigned char blue = image.data[at];
        image.data[at] = image.data[at + 2];
        image.data[at + 2] = blue;
    }
    report(ns, image.data, len);
    return 0;
}
