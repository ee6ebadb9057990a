//! Errors of Vulkan's calls, and errors that end parts without such a call.

use ash::vk;
use millstream::{Error, ErrorKind};

/// Returns the error of a Vulkan call.
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

/// Returns the error of work for a device that is already lost.
pub(crate) fn lost() -> Error {
    let result = vk::Result::ERROR_DEVICE_LOST;
    Error::new(ErrorKind::DeviceLost, result.to_string())
}

/// Returns the error of work for a [`Gpu`](crate::Gpu) that was dropped.
pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the GPU's handle was dropped")
}

/// Returns the error of an invalid argument.
pub(crate) fn invalid(cause: &'static str) -> Error {
    Error::new(ErrorKind::InvalidArgument, cause)
}
