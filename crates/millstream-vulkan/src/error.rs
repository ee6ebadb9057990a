//! Errors of Vulkan's calls, and those that end parts without one.

use ash::vk;
use millstream::{Error, ErrorKind};

/// An error of a call that makes something.
pub(crate) fn vulkan(call: &'static str, result: vk::Result) -> Error {
    let kind = match result {
        vk::Result::ERROR_INCOMPATIBLE_DRIVER => {
            return Error::new(ErrorKind::NotFound, "no Vulkan driver");
        }
        vk::Result::ERROR_DEVICE_LOST => ErrorKind::DeviceLost,
        vk::Result::ERROR_TOO_MANY_OBJECTS => ErrorKind::Limit,
        _ if is_short(result) => ErrorKind::OutOfMemory,
        _ => ErrorKind::Io,
    };
    Error::new(kind, format!("{call}: {result}"))
}

/// Whether a call failed because the system or the device is out of memory.
pub(crate) fn is_short(result: vk::Result) -> bool {
    let short = [
        vk::Result::ERROR_OUT_OF_HOST_MEMORY,
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY,
    ];
    short.contains(&result)
}

/// The device was lost before.
pub(crate) fn lost() -> Error {
    let result = vk::Result::ERROR_DEVICE_LOST;
    Error::new(ErrorKind::DeviceLost, result.to_string())
}

/// The [`Gpu`](crate::Gpu) is gone.
pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the GPU's handle was dropped")
}

/// What the caller passes is wrong.
pub(crate) fn invalid(cause: &'static str) -> Error {
    Error::new(ErrorKind::InvalidArgument, cause)
}
