/* What SDL 3 looks for in liburing-ffi.so.2, where liburing is older than 2.4 and has no such
 * library: the functions that are inline in its header, exported. The rest are found in
 * liburing.so.2, which this library needs. */
#define io_uring_get_sqe header_get_sqe
#define io_uring_opcode_supported header_opcode_supported
#define io_uring_peek_cqe header_peek_cqe
#define io_uring_wait_cqe header_wait_cqe
#define io_uring_cqe_seen header_cqe_seen
#define io_uring_sqe_set_data header_sqe_set_data
#define io_uring_sqe_set_flags header_sqe_set_flags
#define io_uring_prep_read header_prep_read
#define io_uring_prep_write header_prep_write
#define io_uring_prep_close header_prep_close
#define io_uring_prep_fsync header_prep_fsync
#define io_uring_prep_cancel header_prep_cancel
#define io_uring_prep_timeout header_prep_timeout
#define io_uring_prep_nop header_prep_nop
#include <liburing.h>
#undef io_uring_get_sqe
#undef io_uring_opcode_supported
#undef io_uring_peek_cqe
#undef io_uring_wait_cqe
#undef io_uring_cqe_seen
#undef io_uring_sqe_set_data
#undef io_uring_sqe_set_flags
#undef io_uring_prep_read
#undef io_uring_prep_write
#undef io_uring_prep_close
#undef io_uring_prep_fsync
#undef io_uring_prep_cancel
#undef io_uring_prep_timeout
#undef io_uring_prep_nop

struct io_uring_sqe *io_uring_get_sqe(struct io_uring *ring) {
    return header_get_sqe(ring);
}

int io_uring_opcode_supported(const struct io_uring_probe *probe, int op) {
    return header_opcode_supported(probe, op);
}

int io_uring_peek_cqe(struct io_uring *ring, struct io_uring_cqe **cqe) {
    return header_peek_cqe(ring, cqe);
}

int io_uring_wait_cqe(struct io_uring *ring, struct io_uring_cqe **cqe) {
    return header_wait_cqe(ring, cqe);
}

void io_uring_cqe_seen(struct io_uring *ring, struct io_uring_cqe *cqe) {
    header_cqe_seen(ring, cqe);
}

void io_uring_sqe_set_data(struct io_uring_sqe *sqe, void *data) {
    header_sqe_set_data(sqe, data);
}

void io_uring_sqe_set_flags(struct io_uring_sqe *sqe, unsigned flags) {
    header_sqe_set_flags(sqe, flags);
}

void io_uring_prep_read(struct io_uring_sqe *sqe, int fd, void *buf, unsigned len, __u64 offset) {
    header_prep_read(sqe, fd, buf, len, offset);
}

void io_uring_prep_write(struct io_uring_sqe *sqe, int fd, const void *buf, unsigned len,
                         __u64 offset) {
    header_prep_write(sqe, fd, buf, len, offset);
}

void io_uring_prep_close(struct io_uring_sqe *sqe, int fd) {
    header_prep_close(sqe, fd);
}

void io_uring_prep_fsync(struct io_uring_sqe *sqe, int fd, unsigned flags) {
    header_prep_fsync(sqe, fd, flags);
}

void io_uring_prep_cancel(struct io_uring_sqe *sqe, void *data, int flags) {
    header_prep_cancel(sqe, data, flags);
}

void io_uring_prep_timeout(struct io_uring_sqe *sqe, struct __kernel_timespec *time,
                           unsigned count, unsigned flags) {
    header_prep_timeout(sqe, time, count, flags);
}

void io_uring_prep_nop(struct io_uring_sqe *sqe) {
    header_prep_nop(sqe);
}
