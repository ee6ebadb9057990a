//! Requests: what a program enqueues, checked, and what the engine reads for it.
#![expect(
    unsafe_code,
    reason = "reads structures and lends memory of the program"
)]

use std::sync::Arc;

use millstream::{Buffer, CodecId, Decode, Read};

use crate::abi::*;
use crate::access::check_memory;
use crate::fence::Gate;
use crate::file::{EngineFile, StorageFile};
use crate::gpu::{Copy, Gpu, Space, Target};
use crate::memory::{Descriptor, codec_of};
use crate::record::{Failure, RequestName, request_name};
use crate::runtime::MEMORY_CODEC;

/// A gate, and whether the source may be read before it opens.
pub(crate) type Gated = (Arc<Gate>, bool);

/// A request that passed the checks. Holds its file, and keeps nothing else of the program alive:
/// the program's memory must stay valid until the request completes.
pub(crate) struct PreparedRequest {
    request: DSTORAGE_REQUEST,
    name: RequestName,
    pub(crate) file: Option<Arc<StorageFile>>,
    pub(crate) gate: Option<Gated>,
    /// For a resource: in the upload heap, once there is space.
    pub(crate) destination: DSTORAGE_DESTINATION_MEMORY,
    target: Option<Target>,
    space: Option<Space>,
    /// Keeps the file open from the submission of a request that waits for space.
    pub(crate) open_file: Option<Arc<EngineFile>>,
}

// SAFETY: the pointers belong to the program, which lets the library use them on its threads.
unsafe impl Send for PreparedRequest {}

/// What is to be done for a request.
pub(crate) enum Work {
    /// Nothing: it has no bytes.
    Nothing,
    /// A read into the destination.
    Read(Read<()>),
    /// A read into a buffer, which the program decompresses; one without bytes only waits.
    ReadForProgram(Read<Buffer>),
    /// The program decompresses its own memory.
    Program,
}

impl PreparedRequest {
    /// Checks a request for a queue of a source type and a device.
    ///
    /// # Safety
    /// Its name is null, or readable up to a NUL or 63 bytes.
    pub(crate) unsafe fn new(
        request: DSTORAGE_REQUEST,
        queue: DSTORAGE_REQUEST_SOURCE_TYPE,
        gpu: Option<&Gpu>,
        gate: Option<Gated>,
    ) -> Result<PreparedRequest, Box<Failure>> {
        // SAFETY: as the caller promises.
        let name = unsafe { request_name(request.Name) };
        let mut file = None;
        let checked = check(&request, queue, gpu, &mut file);
        let failure = |result| Failure::of_request(result, &request, &name, file.as_deref());
        let (destination, target) = checked.map_err(failure)?;
        Ok(PreparedRequest {
            request,
            name,
            file,
            gate,
            destination,
            target,
            space: None,
            open_file: None,
        })
    }

    pub(crate) fn tag(&self) -> u64 {
        self.request.CancellationTag
    }

    pub(crate) fn format(&self) -> DSTORAGE_COMPRESSION_FORMAT {
        self.request.Options.CompressionFormat
    }

    /// Returns the source, of a request whose source is memory.
    pub(crate) fn memory(&self) -> Option<DSTORAGE_SOURCE_MEMORY> {
        match self.file {
            Some(_) => None,
            // SAFETY: a request without a file has that member; see `check`.
            None => Some(unsafe { self.request.Source.Memory }),
        }
    }

    /// Returns whether it writes to a resource to which nothing is copied yet.
    pub(crate) fn has_target(&self) -> bool {
        self.target.is_some()
    }

    /// Returns whether its drop may release objects of the program, or close a file.
    pub(crate) fn holds_objects(&self) -> bool {
        self.gate.is_some() || self.target.is_some() || self.open_file.is_some()
    }

    /// Returns whether it must not be read before it has space in the upload heap.
    pub(crate) fn needs_space(&self) -> bool {
        self.target.is_some() && self.space.is_none() && self.destination.Size > 0
    }

    pub(crate) fn set_space(&mut self, space: Space) {
        self.destination.Buffer = space.address() as *mut _;
        self.space = Some(space);
    }

    /// Returns the copy to the resource, of a request that has space.
    pub(crate) fn take_copy(&mut self, sequence: u64) -> Option<Copy> {
        Some(Copy {
            sequence,
            space: self.space.take()?,
            target: self.target.take()?,
        })
    }

    pub(crate) fn failure(&self, result: HRESULT) -> Box<Failure> {
        Failure::of_request(result, &self.request, &self.name, self.file.as_deref())
    }

    /// Returns a read that wakes the queue's thread once the gate is open; `None` without a gate.
    fn wake(&self, user_data: u64) -> Option<Work> {
        let (gate, _) = self.gate.as_ref()?;
        let read = Read::memory(Arc::from([0])).user_data(user_data);
        Some(Work::ReadForProgram(
            read.tag(self.tag()).after(gate.fence(), 1),
        ))
    }

    /// Returns what is to be done. Without `builtin` the program decompresses every format.
    ///
    /// # Safety
    /// The program keeps its memory valid until the request completes.
    pub(crate) unsafe fn work(&self, builtin: bool, user_data: u64) -> Work {
        let len = self.destination.Size as usize;
        if len == 0 || self.needs_space() {
            return self.wake(user_data).unwrap_or(Work::Nothing);
        }
        let own_codec = match self.format() {
            DSTORAGE_COMPRESSION_FORMAT_NONE => Some(CodecId::STORED),
            format => codec_of(format).filter(|_| builtin),
        };
        let read = match (&self.file, self.memory()) {
            (Some(file), _) => {
                // SAFETY: a request with a file has that member; see `check`.
                let source = unsafe { self.request.Source.File };
                Read::range(file.id, source.Offset, u64::from(source.Size))
            }
            (None, Some(_)) if own_codec.is_none() => {
                return self.wake(user_data).unwrap_or(Work::Program);
            }
            (None, source) => {
                let source = source.expect("a request without a file has memory");
                let descriptor = Descriptor {
                    address: source.Source as usize,
                    len: source.Size as usize,
                    codec: own_codec.expect("checked above"),
                };
                Read::memory(descriptor.to_bytes())
            }
        };
        let read = read.user_data(user_data).tag(self.tag());
        let Some(codec) = own_codec else {
            return Work::ReadForProgram(match &self.gate {
                Some((gate, _)) => read.after(gate.fence(), 1),
                None => read,
            });
        };
        let codec = match self.file {
            Some(_) => codec,
            None => MEMORY_CODEC,
        };
        let read = match codec {
            CodecId::STORED => read,
            codec => read.decode(Decode::codec(codec).raw_len(len as u64)),
        };
        // SAFETY: as the caller promises.
        let read = unsafe { read.borrowed(self.destination.Buffer.cast(), len) };
        Work::Read(match &self.gate {
            Some((gate, true)) => read.write_after(gate.fence(), 1),
            Some((gate, false)) => read.after(gate.fence(), 1),
            None => read,
        })
    }
}

/// Checks all that is known before the request runs; returns the destination.
fn check(
    request: &DSTORAGE_REQUEST,
    queue: DSTORAGE_REQUEST_SOURCE_TYPE,
    gpu: Option<&Gpu>,
    file: &mut Option<Arc<StorageFile>>,
) -> Result<(DSTORAGE_DESTINATION_MEMORY, Option<Target>), HRESULT> {
    let options = &request.Options;
    if options.has_reserved() {
        return Err(E_DSTORAGE_RESERVED_FIELDS);
    }
    if options.source_type() != queue {
        return Err(E_DSTORAGE_INVALID_SOURCE_TYPE);
    }
    let source_size = match queue {
        DSTORAGE_REQUEST_SOURCE_FILE => {
            // SAFETY: the member that the source type names; any bits are valid for it.
            let source = unsafe { request.Source.File };
            *file = Some(StorageFile::find(source.Source)?);
            let end = source.Offset.checked_add(u64::from(source.Size));
            end.ok_or(E_DSTORAGE_END_OF_FILE)?;
            source.Size
        }
        _ => {
            // SAFETY: as above.
            let source = unsafe { request.Source.Memory };
            check_memory(source.Source as usize, source.Size, false)?;
            source.Size
        }
    };
    let target = match (options.destination_type(), gpu) {
        (DSTORAGE_REQUEST_DESTINATION_MEMORY, _) => None,
        (DSTORAGE_REQUEST_DESTINATION_TILES | 6.., _) | (_, None) => {
            return Err(E_DSTORAGE_INVALID_DESTINATION_TYPE);
        }
        (_, Some(gpu)) => Some(Target::new(request, &gpu.device)?),
    };
    let size = match options.CompressionFormat {
        DSTORAGE_COMPRESSION_FORMAT_NONE => source_size,
        DSTORAGE_CUSTOM_COMPRESSION_0.. => request.UncompressedSize,
        format if codec_of(format).is_some() => request.UncompressedSize,
        _ => return Err(E_INVALIDARG),
    };
    let is_stored = options.CompressionFormat == DSTORAGE_COMPRESSION_FORMAT_NONE;
    // SAFETY: as above; its address is replaced if it is no memory.
    let mut destination = unsafe { request.Destination.Memory };
    let fits = match &target {
        None => destination.Size == size,
        Some(target) => target.fits(size, is_stored),
    };
    if !fits {
        return Err(E_DSTORAGE_INVALID_DESTINATION_SIZE);
    }
    destination.Size = size;
    if target.is_none() {
        check_memory(destination.Buffer as usize, size, true)?;
    }
    if source_size == 0 && size > 0 {
        return Err(E_DSTORAGE_DECOMPRESSION_ERROR);
    }
    Ok((destination, target))
}
