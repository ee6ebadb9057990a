//! Experts of a model on demand: blocks of files in a bounded set of slots.

use std::ffi::{c_char, c_void};
use std::path::Path;
use std::time::Duration;

use millstream::Error;
use millstream_weights::{Expert, ExpertCache, ExpertStats, Extent};

use crate::desc::{
    Descriptor, at, at_mut, border, bytes, deadline_of, fill_sized, limit, out, path, read_desc,
};
use crate::error::{Failure, invalid, mst_result};
use crate::handle::{free, owned};
use crate::storage::{NOT_READY, mst_storage};

/// A bounded cache of experts. Calls on one cache must not be made at the same time.
pub struct mst_experts(ExpertCache);

/// A ready expert, which stays in its slot until it is freed. It may be used from any thread, also
/// after the cache and the storage were freed. In a forked child its bytes are zeros.
pub struct mst_expert(Expert);

/// A range of a file that belongs to an expert: one tensor, or the expert's slice of one.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct mst_expert_part {
    /// Index of its file in `mst_experts_desc.files`.
    pub file: u32,
    /// Must be 0.
    pub reserved: u32,
    /// Offset of its first byte.
    pub offset: u64,
    /// Its size, not 0.
    pub length: u64,
}

/// What a cache of experts is made of.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct mst_experts_desc {
    /// `sizeof(mst_experts_desc)`.
    pub size: usize,
    /// Paths of the files, which the cache opens for itself.
    pub files: *const *const c_char,
    /// Number of files.
    pub file_count: usize,
    /// The parts of all experts: those of the first, then those of the second, and so on.
    pub parts: *const mst_expert_part,
    /// Number of experts; their keys are 0 to `count - 1`.
    pub count: u32,
    /// Parts of each expert.
    pub parts_each: u32,
    /// Slots, each with room for the largest expert.
    pub slots: u32,
    /// Must be 0.
    pub reserved: u32,
}
// SAFETY: begins with its size; zeroes are a value.
unsafe impl Descriptor for mst_experts_desc {}

/// What a cache of experts has done so far.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct mst_experts_stats {
    /// `sizeof(mst_experts_stats)`.
    pub size: usize,
    /// Wanted experts that were ready.
    pub hits: u64,
    /// Wanted experts that were neither ready nor being read.
    pub misses: u64,
    /// Wanted experts whose guessed read was under way.
    pub promotions: u64,
    /// Guessed experts of which a read was begun.
    pub guesses: u64,
    /// Those of them that were wanted later.
    pub guesses_used: u64,
    /// Experts whose reads were canceled: withdrawn guesses, and those that made room for others.
    pub withdrawn: u64,
    /// Guesses dropped since no slot was free for them.
    pub refused: u64,
    /// Experts that made room for others.
    pub evictions: u64,
    /// Bytes of all experts that arrived.
    pub read_bytes: u64,
    /// Bytes of guessed experts that arrived and were evicted before they were wanted.
    pub wasted_bytes: u64,
    /// Time spent waiting for experts.
    pub stall_ns: u64,
}
// SAFETY: as above.
unsafe impl Descriptor for mst_experts_stats {}

impl mst_experts_stats {
    fn of(stats: &ExpertStats) -> mst_experts_stats {
        mst_experts_stats {
            size: size_of::<mst_experts_stats>(),
            hits: stats.hits,
            misses: stats.misses,
            promotions: stats.promotions,
            guesses: stats.guesses,
            guesses_used: stats.guesses_used,
            withdrawn: stats.withdrawn,
            refused: stats.refused,
            evictions: stats.evictions,
            read_bytes: stats.read_bytes,
            wasted_bytes: stats.wasted_bytes,
            stall_ns: u64::try_from(stats.stall.as_nanos()).unwrap_or(u64::MAX),
        }
    }
}

/// Makes a cache of experts, and waits until their files are open. Allocates all slots at once, by
/// the allocator of the storage.
/// The storage may be freed before the cache.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_experts_create(
    storage: *mut mst_storage,
    desc: *const mst_experts_desc,
    experts: *mut *mut mst_experts,
) -> mst_result {
    border(|| {
        // SAFETY: pointers are as the header asks, here and in all calls.
        let (storage, desc, result) = unsafe { (at(storage)?, read_desc(desc)?, out(experts)?) };
        let count = (desc.count as usize).checked_mul(desc.parts_each as usize);
        let count = count.ok_or(invalid(c"more parts than memory can hold"))?;
        // SAFETY: as above.
        let parts = unsafe { bytes(desc.parts, count)? };
        if desc.reserved != 0 || (desc.count > 0 && desc.parts_each == 0) {
            return Err(invalid(c"an expert has parts, and `reserved` must be 0"));
        }
        // SAFETY: as above.
        let files = unsafe { bytes(desc.files, desc.file_count)? };
        // SAFETY: as above.
        let files = files.iter().map(|file| unsafe { path(*file) });
        let files = files.collect::<Result<Vec<&Path>, Failure>>()?;
        if parts.iter().any(|part| part.reserved != 0) {
            return Err(invalid(c"`reserved` must be 0"));
        }
        let part = |part: &mst_expert_part| Extent {
            file: part.file as usize,
            offset: part.offset,
            len: part.length,
        };
        let each = parts.chunks(desc.parts_each.max(1) as usize);
        let each = each.map(|parts| parts.iter().map(part).collect());
        let cache = ExpertCache::new(&storage.storage, &files, each, desc.slots as usize)?;
        result.write(owned(mst_experts(cache)));
        Ok(())
    })
}

/// Frees a cache and cancels its reads; ready experts that were returned stay. If the storage was
/// freed before, waits until it is closed. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_experts_free(experts: *mut mst_experts) {
    // SAFETY: see `mst_experts_create`.
    unsafe { free(experts) }
}

/// Calls the cache with keys of the application.
///
/// # Safety
/// As the header says of the pointers.
unsafe fn with_keys(
    experts: *mut mst_experts,
    keys: *const u32,
    count: usize,
    call: impl FnOnce(&mut ExpertCache, &[u32]) -> Result<(), Error>,
) -> mst_result {
    border(|| {
        // SAFETY: the caller's promise.
        let (experts, keys) = unsafe { (at_mut(experts)?, bytes(keys, count)?) };
        Ok(call(&mut experts.0, keys)?)
    })
}

/// Reads these experts at high priority, those with the earliest deadline (from now on; 0: none)
/// first; promotes the reads of those that were guessed. They stay until they are taken or
/// released. Does not wait. `MST_ERROR_LIMIT` if every slot has an expert that is pinned or wanted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_experts_want(
    experts: *mut mst_experts,
    keys: *const u32,
    count: usize,
    deadline_ns: u64,
) -> mst_result {
    let want = |cache: &mut ExpertCache, keys: &_| cache.want(keys, deadline_of(deadline_ns));
    // SAFETY: see `mst_experts_create`.
    unsafe { with_keys(experts, keys, count, want) }
}

/// Reads these experts at low priority, in this order, while slots can be had without evicting a
/// pinned or wanted expert. Does not wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_experts_guess(
    experts: *mut mst_experts,
    keys: *const u32,
    count: usize,
) -> mst_result {
    // SAFETY: see `mst_experts_create`.
    unsafe { with_keys(experts, keys, count, ExpertCache::guess) }
}

/// Withdraws guesses: cancels those of their reads that have not begun. Does not wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_experts_withdraw(
    experts: *mut mst_experts,
    keys: *const u32,
    count: usize,
) -> mst_result {
    // SAFETY: see `mst_experts_create`.
    unsafe { with_keys(experts, keys, count, ExpertCache::withdraw) }
}

/// Gives up experts that were wanted: they may be evicted, and their reads go on as those of
/// guesses. Does not wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_experts_release(
    experts: *mut mst_experts,
    keys: *const u32,
    count: usize,
) -> mst_result {
    // SAFETY: see `mst_experts_create`.
    unsafe { with_keys(experts, keys, count, ExpertCache::release) }
}

/// Returns an expert if it is ready, otherwise NULL. Does not wait. Free it with `mst_expert_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_experts_get(
    experts: *mut mst_experts,
    key: u32,
    expert: *mut *mut mst_expert,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_experts_create`.
        let (experts, result) = unsafe { (at_mut(experts)?, out(expert)?) };
        let ready = experts.0.get(key).map(|expert| owned(mst_expert(expert)));
        result.write(ready.unwrap_or(std::ptr::null_mut()));
        Ok(())
    })
}

/// Waits until an expert is ready, which is wanted first if it was not; `MST_ERROR_NOT_READY` if
/// the time passed. After an error of its reads it is absent: wanting it reads it again. Free it
/// with `mst_expert_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_experts_wait(
    experts: *mut mst_experts,
    key: u32,
    timeout_ns: u64,
    expert: *mut *mut mst_expert,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_experts_create`.
        let (experts, result) = unsafe { (at_mut(experts)?, out(expert)?) };
        let timeout = limit(timeout_ns).unwrap_or(Duration::MAX);
        let ready = experts.0.wait_timeout(key, timeout)?.ok_or(NOT_READY)?;
        result.write(owned(mst_expert(ready)));
        Ok(())
    })
}

/// Waits until any of these experts, which are wanted first if they were not, is ready or has
/// failed; `index` is its place among the keys.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_experts_wait_any(
    experts: *mut mst_experts,
    keys: *const u32,
    count: usize,
    index: *mut usize,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_experts_create`.
        let (experts, keys) = unsafe { (at_mut(experts)?, bytes(keys, count)?) };
        // SAFETY: as above.
        unsafe { out(index)? }.write(experts.0.wait_any(keys)?);
        Ok(())
    })
}

/// What a cache has done so far.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_experts_get_stats(
    experts: *const mst_experts,
    stats: *mut mst_experts_stats,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_experts_create`.
        unsafe { fill_sized(stats, &mst_experts_stats::of(&at(experts)?.0.stats())) }
    })
}

/// The bytes of a part of an expert, valid until the expert is freed. `length` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_expert_data(
    expert: *const mst_expert,
    part: u32,
    data: *mut *const c_void,
    length: *mut usize,
) -> mst_result {
    border(|| {
        // SAFETY: see `mst_experts_create`.
        let (expert, result) = unsafe { (at(expert)?, out(data)?) };
        if part as usize >= expert.0.part_count() {
            return Err(invalid(c"the expert has no such part"));
        }
        let bytes = expert.0.part(part as usize);
        result.write(bytes.as_ptr().cast());
        if !length.is_null() {
            // SAFETY: as above.
            unsafe { length.write(bytes.len()) };
        }
        Ok(())
    })
}

/// Frees an expert: its slot may be used for others. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mst_expert_free(expert: *mut mst_expert) {
    // SAFETY: see `mst_experts_create`.
    unsafe { free(expert) }
}
