//! Requests: reads, writes and operations on files, described by structs.

use std::ffi::{c_char, c_void};
use std::sync::Arc;
use std::time::Duration;

use millstream::{
    Batch, BlockTable, CodecId, Decode, Delivery, Destination, FileId, FileOp, Place, Queue, Read,
    Write,
};

use crate::completion::{mst_fence, mst_group};
use crate::desc::{Descriptor, border, bytes, deadline_of, name, out, path, text};
use crate::error::{Failure, invalid, mst_result};
use crate::handle::{free, owned, take};
use crate::hooks::User;
use crate::number::{mst_file, mst_priority, mst_ticket, priority_of};
use crate::source::{mst_entry, mst_source};
use crate::storage::{check_flags, mst_buffer};
use crate::ticket::number_of_ticket;

/// How stored bytes are encoded. From 0x80 on: the application's codecs.
pub type mst_codec = i32;
/// As they are.
pub const MST_CODEC_STORED: mst_codec = 0;
/// zlib, RFC 1950.
pub const MST_CODEC_ZLIB: mst_codec = 1;
/// gzip, RFC 1952; concatenated members are one stream.
pub const MST_CODEC_GZIP: mst_codec = 2;
/// Deflate, RFC 1951.
pub const MST_CODEC_DEFLATE: mst_codec = 3;
/// zstd, RFC 8878; concatenated frames are one stream.
pub const MST_CODEC_ZSTD: mst_codec = 4;
/// The LZ4 frame format.
pub const MST_CODEC_LZ4: mst_codec = 5;
/// One bare LZ4 block: the raw size must be given.
pub const MST_CODEC_LZ4_BLOCK: mst_codec = 6;
/// A GDeflate tile stream.
pub const MST_CODEC_GDEFLATE: mst_codec = 7;
const _: () = assert!(CodecId::ALL.len() == 8, "a codec lacks its constant");

fn codec_of(number: mst_codec) -> Result<CodecId, Failure> {
    let number = u8::try_from(number).map_err(|_| invalid(c"unknown codec"))?;
    Ok(CodecId(number))
}

/// Bit of `mst_request_options.flags`: without a ticket, no completion in the completion queue
/// either; the request shows in its group, a status entry or a signal, and its failure in
/// `mst_queue_take_errors`.
pub const MST_REQUEST_DETACHED: u32 = 1;
/// Bit of `mst_request_options.flags`: fail with `MST_ERROR_QUEUE_FULL` instead of waiting for
/// room.
pub const MST_REQUEST_TRY: u32 = 2;

/// What all kinds of requests have in common.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct mst_request_options {
    /// For `mst_queue_cancel_tagged` and `mst_queue_reprioritize_tagged`.
    pub tag: u64,
    /// Comes back with the completion.
    pub user_data: u64,
    /// For error messages and traces. NULL: none. Copied.
    pub name: *const c_char,
    /// Its priority.
    pub priority: mst_priority,
    /// `MST_REQUEST_` bits.
    pub flags: u32,
    /// When it is wanted, from now on; earlier deadlines are served first within a priority, and a
    /// missed one is counted, never an error. 0: none.
    pub deadline_ns: u64,
    /// How long it may take. It then ends with `MST_ERROR_TIMED_OUT`, unless the system holds
    /// memory that the application lent. 0: no limit.
    pub timeout_ns: u64,
    /// A group that counts it. NULL: none.
    pub group: *const mst_group,
    /// Holds it back until the fence has reached `after_value`. NULL: none.
    pub after: *const mst_fence,
    /// The value.
    pub after_value: u64,
    /// Must be 0.
    pub reserved: [u64; 2],
}

/// Independently encoded blocks of stored bytes, decoded on all workers at once.
pub struct mst_block_table(Arc<BlockTable>);

/// A block of a table.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct mst_block {
    /// First stored byte, from the offset of the request on.
    pub stored_offset: u64,
    /// XXH3-64 (seed 0) of the stored bytes, if `has_checksum`.
    pub checksum: u64,
    /// Stored bytes.
    pub stored_size: u32,
    /// Raw bytes.
    pub raw_size: u32,
    /// Its codec.
    pub codec: mst_codec,
    /// Not 0: the stored bytes are compared with `checksum` before they are decoded.
    pub has_checksum: u32,
}

/// Returns memory for `raw_size` bytes that land; NULL refuses, and fails the request. Runs on a
/// worker, and may block there.
pub type mst_supply_fn =
    Option<unsafe extern "C" fn(user: *mut c_void, raw_size: usize) -> *mut c_void>;
/// The library is done with memory that was supplied: called once for each, at the latest while the
/// completion is claimed. But where the system held the memory when the request ended (its timeout
/// passed, or its device broke), it is called once the system lets go; never, if the storage ends
/// before.
pub type mst_release_fn =
    Option<unsafe extern "C" fn(user: *mut c_void, memory: *mut c_void, raw_size: usize)>;

/// Bit of `mst_read_desc.flags`: `length` bytes of a file, or as many as there are from `offset`
/// on, maybe none. The length of the file is asked for.
pub const MST_READ_AT_MOST: u32 = 1;

/// A read: bytes of one source (a file, an entry or a buffer) land in one destination (a buffer of
/// the library if nothing is said).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct mst_read_desc {
    /// `sizeof(mst_read_desc)`.
    pub size: usize,
    /// What all kinds of requests have in common.
    pub options: mst_request_options,
    /// Source: a file. 0: none.
    pub file: mst_file,
    /// Source: a package or mounts; offset and length then count raw bytes of `entry`, and codec,
    /// raw size and blocks are known. NULL: none.
    pub source: *const mst_source,
    /// The entry, found by `mst_source_find`; or `entry_name` below.
    pub entry: mst_entry,
    /// Source: stored bytes in memory, to be decoded. The buffer belongs to the request from the
    /// call on, even if the call fails, unless `size` is what it refuses. NULL: none.
    pub stored: *mut mst_buffer,
    /// First byte.
    pub offset: u64,
    /// Bytes; a range that reaches past the end fails. 0: all, and then `offset` must be 0.
    pub length: u64,
    /// How the stored bytes are encoded.
    pub codec: mst_codec,
    /// `MST_READ_` bits.
    pub flags: u32,
    /// Raw bytes that they decode to, exactly. 0: what the stored bytes declare; of a stream that
    /// does not, as many as there is room for, or 1 GiB in memory of the library.
    pub raw_size: u64,
    /// Blocks of the stored bytes, in place of one codec. NULL: none.
    pub blocks: *const mst_block_table,
    /// Destination: memory that is lent until the request has completed. NULL: none.
    pub memory: *mut c_void,
    /// Bytes of `memory`, at least those that land.
    pub memory_size: usize,
    /// Destination: a buffer of at least the bytes that land. It belongs to the request as `stored`
    /// does, and comes back with the completion. NULL: none.
    pub buffer: *mut mst_buffer,
    /// Destination: memory that is supplied once the raw size is known. NULL: none.
    pub supply: mst_supply_fn,
    /// Called when the library is done with supplied memory. NULL: none.
    pub release: mst_release_fn,
    /// Passed to `supply` and `release`.
    pub supply_user: *mut c_void,
    /// Holds back the write to the destination alone, until the fence has reached
    /// `write_after_value`; the source may be read before. NULL: none.
    pub write_after: *const mst_fence,
    /// The value.
    pub write_after_value: u64,
    /// The name of the entry of `source`, in place of `entry`: the call fails with
    /// `MST_ERROR_NOT_FOUND` if there is none. NULL: `entry` says which.
    pub entry_name: *const c_char,
}
// SAFETY: begins with its size; zeroes are a value.
unsafe impl Descriptor for mst_read_desc {}

/// Bit of `mst_write_desc.flags`: behind what the file holds and earlier appends will add; `offset`
/// must be 0.
pub const MST_WRITE_APPEND: u32 = 1;

/// A write to a file that was opened for writing.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct mst_write_desc {
    /// `sizeof(mst_write_desc)`.
    pub size: usize,
    /// What all kinds of requests have in common.
    pub options: mst_request_options,
    /// The file.
    pub file: mst_file,
    /// First byte.
    pub offset: u64,
    /// Bytes that are lent until the request has completed, and must not change until then.
    pub memory: *const c_void,
    /// Bytes of `memory`.
    pub memory_size: usize,
    /// In place of `memory`: a buffer, all of it. It belongs to the request from the call on, even
    /// if the call fails, unless `size` is what it refuses, and comes back with the completion.
    /// NULL: none.
    pub buffer: *mut mst_buffer,
    /// `MST_WRITE_` bits.
    pub flags: u32,
    /// Must be 0.
    pub reserved: u32,
}
// SAFETY: as above.
unsafe impl Descriptor for mst_write_desc {}

/// What an operation does.
pub type mst_operation = i32;
/// Makes durable what was written to `file`: waits for earlier writes, then syncs. Fails with the
/// first write error since the last sync.
pub const MST_OPERATION_SYNC: mst_operation = 1;
/// As a sync, without metadata that is not needed to read the bytes again.
pub const MST_OPERATION_SYNC_DATA: mst_operation = 2;
/// Renames `path` to `to`, durably, once everything before it in its queue has completed.
pub const MST_OPERATION_RENAME: mst_operation = 3;
/// Removes `path`, once everything before it in its queue has completed.
pub const MST_OPERATION_REMOVE: mst_operation = 4;
/// Replaces the content of `path` by `memory` as a whole: readers and crashes see the old content
/// or the new one.
pub const MST_OPERATION_REPLACE: mst_operation = 5;

/// An operation on a file or on names.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct mst_operation_desc {
    /// `sizeof(mst_operation_desc)`.
    pub size: usize,
    /// What all kinds of requests have in common.
    pub options: mst_request_options,
    /// What it does.
    pub operation: mst_operation,
    /// Must be 0.
    pub reserved: u32,
    /// The file of a sync.
    pub file: mst_file,
    /// The path of the others. Copied.
    pub path: *const c_char,
    /// The new path of a rename. Copied.
    pub to: *const c_char,
    /// The new content of a replacement, lent until the request has completed.
    pub memory: *const c_void,
    /// Bytes of `memory`.
    pub memory_size: usize,
}
// SAFETY: as above.
unsafe impl Descriptor for mst_operation_desc {}

/// Memory of the application that a callback supplied.
pub(crate) struct Supplied {
    memory: *mut u8,
    len: usize,
    user: User,
    release: mst_release_fn,
}
// SAFETY: the header allows the memory, the pointer and the function on any thread.
unsafe impl Send for Supplied {}

// SAFETY: the header asks that the memory is valid and not used otherwise until `release`.
unsafe impl Destination for Supplied {
    fn place(&mut self) -> Place {
        Place::Host {
            pointer: self.memory,
            len: self.len,
        }
    }
}

impl Drop for Supplied {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: a function of the application, with its own pointer.
            unsafe { release(self.user.0, self.memory.cast(), self.len) }
        }
    }
}

/// What builds a request of any kind further.
macro_rules! with_options {
    ($request:expr, $options:expr) => {{
        let (mut request, options) = ($request, $options);
        request = request.tag(options.tag).user_data(options.user_data);
        if let Some(priority) = priority_of(options.priority)? {
            request = request.priority(priority);
        }
        if let Some(deadline) = deadline_of(options.deadline_ns) {
            request = request.deadline(deadline);
        }
        if options.timeout_ns != 0 {
            request = request.timeout(Duration::from_nanos(options.timeout_ns));
        }
        // SAFETY: pointers are as the header asks.
        unsafe {
            if !options.name.is_null() {
                request = request.name(name(options.name));
            }
            if let Some(group) = options.group.as_ref() {
                request = request.group(&group.0);
            }
            if let Some(fence) = options.after.as_ref() {
                request = request.after(&fence.0, options.after_value);
            }
        }
        request
    }};
}

/// As [`with_options`], with the fence that the write to a destination waits for.
macro_rules! with_read_options {
    ($read:expr, $desc:expr) => {{
        let mut read = with_options!($read, &$desc.options);
        // SAFETY: pointers are as the header asks.
        if let Some(fence) = unsafe { $desc.write_after.as_ref() } {
            read = read.write_after(&fence.0, $desc.write_after_value);
        }
        read
    }};
}

fn check_options(options: &mst_request_options) -> Result<(), Failure> {
    check_flags(options.flags, MST_REQUEST_DETACHED | MST_REQUEST_TRY)?;
    match options.reserved {
        [0, 0] => Ok(()),
        _ => Err(invalid(c"reserved members must be 0")),
    }
}

/// Who takes a request.
pub(crate) enum Target<'a> {
    Queue(&'a Queue),
    Batch(&'a mut Batch),
}

/// A request's way into a queue: with a ticket, or without.
pub(crate) struct Entry<'a> {
    target: Target<'a>,
    ticket: *mut mst_ticket,
    flags: u32,
}

impl<'a> Entry<'a> {
    pub(crate) fn new(
        target: Result<Target<'a>, Failure>,
        ticket: *mut mst_ticket,
        options: &mst_request_options,
    ) -> Result<Entry<'a>, Failure> {
        let (target, flags) = (target?, options.flags);
        if !ticket.is_null() && flags & MST_REQUEST_DETACHED != 0 {
            return Err(invalid(c"a detached request has no ticket"));
        }
        Ok(Entry {
            target,
            ticket,
            flags,
        })
    }

    #[inline(always)]
    fn submit<R: millstream::Request>(self, request: R) -> Result<(), Failure> {
        let mut own;
        let (batch, alone) = match self.target {
            Target::Batch(batch) => (batch, false),
            Target::Queue(queue) => {
                own = queue.batch();
                (&mut own, true)
            }
        };
        let delivery = match self.ticket.is_null() {
            false => Delivery::Ticket,
            true if self.flags & MST_REQUEST_DETACHED != 0 => Delivery::Detached,
            true => Delivery::Posted,
        };
        let wait = self.flags & MST_REQUEST_TRY == 0;
        if let Some(ticket) = batch.deliver(request, delivery, wait)? {
            // SAFETY: not NULL, and as the header asks.
            unsafe { self.ticket.write(number_of_ticket(ticket)) };
        }
        if alone {
            batch.submit();
        }
        Ok(())
    }
}

/// Builds the read of a descriptor and submits it.
///
/// # Safety
/// What the descriptor points to is as the header asks.
#[inline(always)]
pub(crate) unsafe fn read(
    desc: &mst_read_desc,
    entry: Result<Entry<'_>, Failure>,
) -> Result<(), Failure> {
    // Buffers are the request's from here on, whatever comes.
    let (stored, buffer) = match desc.stored == desc.buffer {
        // SAFETY: the caller's promise, here and below.
        true => (unsafe { take(desc.stored) }, None),
        // SAFETY: as above.
        false => unsafe { (take(desc.stored), take(desc.buffer)) },
    };
    let entry = entry?;
    if !desc.buffer.is_null() && desc.stored == desc.buffer {
        return Err(invalid(c"a buffer is source or destination"));
    }
    if desc.memory.is_null() && desc.memory_size > 0 || desc.memory_size > isize::MAX as usize {
        return Err(invalid(c"memory is NULL, or exceeds the address space"));
    }
    check_options(&desc.options)?;
    check_flags(desc.flags, MST_READ_AT_MOST)?;
    let destinations = [
        !desc.memory.is_null(),
        buffer.is_some(),
        desc.supply.is_some(),
    ];
    if destinations.into_iter().filter(|given| *given).count() > 1 {
        return Err(invalid(c"a read has one destination"));
    }
    let is_range = desc.file != 0
        && desc.length != 0
        && desc.source.is_null()
        && desc.entry_name.is_null()
        && stored.is_none()
        && is_stored(desc);
    if is_range {
        let read = Read::range(FileId::from_bits(desc.file), desc.offset, desc.length);
        // SAFETY: as above.
        return unsafe { land(read, desc, buffer, entry) };
    }
    // SAFETY: as above.
    unsafe { land_other(desc, stored, buffer, entry) }
}

/// Of sources that are decoded or looked up.
///
/// # Safety
/// As [`read`].
#[inline(never)]
unsafe fn land_other(
    desc: &mst_read_desc,
    stored: Option<Box<mst_buffer>>,
    buffer: Option<Box<mst_buffer>>,
    entry: Entry<'_>,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    unsafe { land(source_of(desc, stored)?, desc, buffer, entry) }
}

/// Whether the stored bytes of a descriptor are the raw ones.
fn is_stored(desc: &mst_read_desc) -> bool {
    desc.codec == MST_CODEC_STORED && desc.raw_size == 0 && desc.blocks.is_null()
}

/// Gives a read the options and the destination of its descriptor, and submits it. The destination
/// comes first: what is decided later moves the whole request.
///
/// # Safety
/// As [`read`].
#[inline(always)]
unsafe fn land(
    read: Read,
    desc: &mst_read_desc,
    buffer: Option<Box<mst_buffer>>,
    entry: Entry<'_>,
) -> Result<(), Failure> {
    if !desc.memory.is_null() {
        // SAFETY: the header asks of the memory what `borrowed` does.
        let read = unsafe { read.borrowed(desc.memory.cast(), desc.memory_size) };
        return entry.submit(with_read_options!(read, desc));
    }
    if let Some(buffer) = buffer {
        return entry.submit(with_read_options!(read.into(buffer.0), desc));
    }
    let Some(supply) = desc.supply else {
        return entry.submit(with_read_options!(read, desc));
    };
    let (user, release) = (User(desc.supply_user), desc.release);
    let read = read.supplied(move |len| {
        let user = user;
        // SAFETY: a function of the application, with its own pointer.
        let memory: *mut u8 = unsafe { supply(user.0, len) }.cast();
        (!memory.is_null()).then_some(Supplied {
            memory,
            len,
            user,
            release,
        })
    });
    entry.submit(with_read_options!(read, desc))
}

/// # Safety
/// As [`read`].
#[inline(always)]
unsafe fn source_of(
    desc: &mst_read_desc,
    stored: Option<Box<mst_buffer>>,
) -> Result<Read, Failure> {
    let sources = [desc.file != 0, !desc.source.is_null(), stored.is_some()];
    let is_named = !desc.entry_name.is_null();
    let count = sources.into_iter().filter(|given| *given).count();
    if count != 1 || is_named && desc.source.is_null() {
        return Err(invalid(
            c"a read has one source: a file, an entry or stored bytes",
        ));
    }
    let at_most = desc.flags & MST_READ_AT_MOST != 0;
    if at_most && desc.file == 0 {
        return Err(invalid(c"MST_READ_AT_MOST is for files"));
    }
    if desc.length == 0 && desc.offset != 0 && !at_most {
        return Err(invalid(c"a read from an offset on needs a length"));
    }
    // SAFETY: the caller's promise.
    let blocks = unsafe { desc.blocks.as_ref() };
    let is_plain = is_stored(desc);
    // SAFETY: as above.
    if let Some(source) = unsafe { desc.source.as_ref() } {
        if !is_plain {
            return Err(invalid(c"how an entry is encoded is known"));
        }
        let entry = match is_named {
            // SAFETY: as above.
            true => source.find(unsafe { text(desc.entry_name)? })?,
            false => desc.entry,
        };
        return source.request(&entry, desc.offset, desc.length);
    }
    let read = match stored {
        Some(_) if desc.length != 0 => {
            return Err(invalid(c"stored bytes are decoded as a whole"));
        }
        Some(stored) => Read::buffer(Arc::new(stored.0)),
        None if at_most => Read::at_most(FileId::from_bits(desc.file), desc.offset, desc.length),
        None if desc.length == 0 => Read::whole(FileId::from_bits(desc.file)),
        None => Read::range(FileId::from_bits(desc.file), desc.offset, desc.length),
    };
    if is_plain {
        return Ok(read);
    }
    let mut decode = match blocks {
        Some(_) if desc.codec != MST_CODEC_STORED => {
            return Err(invalid(c"the codecs of blocks are in their table"));
        }
        Some(blocks) => Decode::table(Arc::clone(&blocks.0)),
        None => Decode::codec(codec_of(desc.codec)?),
    };
    if desc.raw_size != 0 {
        decode = decode.raw_len(desc.raw_size);
    }
    Ok(read.decode(decode))
}

/// Builds the write of a descriptor and submits it.
///
/// # Safety
/// As [`read`].
pub(crate) unsafe fn write(
    desc: &mst_write_desc,
    entry: Result<Entry<'_>, Failure>,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise, here and below.
    let buffer = unsafe { take(desc.buffer) };
    let entry = entry?;
    check_options(&desc.options)?;
    check_flags(desc.flags, MST_WRITE_APPEND)?;
    check_flags(desc.reserved, 0)?;
    let append = desc.flags & MST_WRITE_APPEND != 0;
    if append && desc.offset != 0 {
        return Err(invalid(c"an append has no offset"));
    }
    let file = FileId::from_bits(desc.file);
    if let Some(buffer) = buffer {
        if !desc.memory.is_null() {
            return Err(invalid(c"a write has one source"));
        }
        let write = match append {
            true => Write::append(file, buffer.0),
            false => Write::at(file, desc.offset, buffer.0),
        };
        return entry.submit(with_options!(write, &desc.options));
    }
    let offset = (!append).then_some(desc.offset);
    // SAFETY: the header asks of the memory what `borrowed` does.
    let write = unsafe {
        let memory = bytes(desc.memory.cast::<u8>(), desc.memory_size)?;
        Write::borrowed(file, offset, memory.as_ptr(), memory.len())
    };
    entry.submit(with_options!(write, &desc.options))
}

/// Builds the operation of a descriptor and submits it.
///
/// # Safety
/// As [`read`].
pub(crate) unsafe fn operate(
    desc: &mst_operation_desc,
    entry: Result<Entry<'_>, Failure>,
) -> Result<(), Failure> {
    let entry = entry?;
    check_options(&desc.options)?;
    check_flags(desc.reserved, 0)?;
    let file = FileId::from_bits(desc.file);
    // SAFETY: the caller's promise.
    let operation = unsafe {
        match desc.operation {
            MST_OPERATION_SYNC => FileOp::sync(file),
            MST_OPERATION_SYNC_DATA => FileOp::sync_data(file),
            MST_OPERATION_RENAME => FileOp::rename(path(desc.path)?, path(desc.to)?),
            MST_OPERATION_REMOVE => FileOp::remove(path(desc.path)?),
            MST_OPERATION_REPLACE => {
                let memory = bytes(desc.memory.cast::<u8>(), desc.memory_size)?;
                FileOp::replace_borrowed(path(desc.path)?, memory.as_ptr(), memory.len())
            }
            _ => return Err(invalid(c"unknown operation")),
        }
    };
    entry.submit(with_options!(operation, &desc.options))
}

/// Creates a table of blocks, in ascending order without overlap. A request with it lands `take`
/// raw bytes after skipping `skip`; all of them if `take` is 0. One table serves any number of
/// requests; it may be freed as soon as they are submitted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_block_table_create(
    blocks: *const mst_block,
    count: usize,
    skip: u64,
    take: u64,
    table: *mut *mut mst_block_table,
) -> mst_result {
    border(|| {
        // SAFETY: pointers are as the header asks.
        let (blocks, result) = unsafe { (bytes(blocks, count)?, out(table)?) };
        let mut table = BlockTable::new();
        for block in blocks {
            let end = block
                .stored_offset
                .checked_add(u64::from(block.stored_size));
            let end = end.ok_or(invalid(c"a block ends beyond all files"))?;
            table.push(
                codec_of(block.codec)?,
                block.stored_offset..end,
                block.raw_size,
            );
            if block.has_checksum != 0 {
                table.checksum(block.checksum);
            }
        }
        if skip != 0 || take != 0 {
            let left = table.raw_len().checked_sub(skip);
            let left = left.ok_or(invalid(c"more is skipped than the blocks have"))?;
            table = table.trim(skip, if take == 0 { left } else { take });
        }
        result.write(owned(mst_block_table(Arc::new(table))));
        Ok(())
    })
}

/// Frees a table. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_block_table_free(table: *mut mst_block_table) {
    // SAFETY: see `mst_block_table_create`.
    unsafe { free(table) }
}
