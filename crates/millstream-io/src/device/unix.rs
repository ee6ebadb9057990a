//! What devices pass to the system calls of Unix: descriptors and `iovec` lists.

use std::mem::{align_of, offset_of, size_of};
use std::os::fd::RawFd;

use super::{Descriptor, Segment, Segments};

// A list of segments is passed to the system as a list of `iovec`.
const _: () = assert!(size_of::<Segment>() == size_of::<libc::iovec>());
const _: () = assert!(align_of::<Segment>() == align_of::<libc::iovec>());
const _: () = assert!(offset_of!(Segment, pointer) == offset_of!(libc::iovec, iov_base));
const _: () = assert!(offset_of!(Segment, len) == offset_of!(libc::iovec, iov_len));

impl Descriptor {
    /// The file descriptor; -1, which every call answers with `EBADF`, if the number is none.
    pub(crate) fn fd(self) -> RawFd {
        RawFd::try_from(self.0).unwrap_or(-1)
    }

    /// The descriptor of a file that the system opened.
    ///
    /// # Panics
    /// `fd` is negative.
    pub(crate) fn of(fd: RawFd) -> Descriptor {
        Descriptor(u64::try_from(fd).expect("the system opens files with descriptors from 0 on"))
    }
}

impl Segments {
    /// Address and length of the list, as the system's type.
    pub(crate) fn vectors(&self) -> (*const libc::iovec, u32) {
        let (first, count) = match self {
            Segments::One(segment) => (std::ptr::from_ref(segment), 1),
            Segments::Many { first, count, .. } => (*first, *count),
        };
        (first.cast(), count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_no_file_has_become_a_bad_descriptor() {
        assert_eq!(Descriptor(7).fd(), 7);
        assert_eq!(Descriptor::of(7), Descriptor(7));
        for number in [u64::MAX, 1 << 31, 1 << 32, u64::from(u32::MAX)] {
            assert_eq!(Descriptor(number).fd(), -1, "{number}");
        }
    }

    #[test]
    fn a_list_is_passed_by_address_and_count() {
        let list = [Segment::new(std::ptr::null_mut(), 3); 2];
        let (first, count) = Segments::list(&list).vectors();
        assert_eq!((first, count), (list.as_ptr().cast(), 2));
    }
}
