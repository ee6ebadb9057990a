//! The plan of a package: its inputs, their order, which have the same content, and their blocks.
//!
//! The inputs that the trace of a load names are in the order of loading; the rest follow by name,
//! so that a folder's files lie together. Of inputs with the same content only the first is stored.
//! Short inputs share blocks; without a trace, one that is half full ends with its folder.

use std::collections::{HashMap, HashSet};

use super::PackOptions;
use super::item::Item;
use super::parallel::{in_parallel, thread_count};
use super::same::{self, Same};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::{
    BLOCK_SHIFT_DEFAULT, BLOCK_SHIFT_MAX, BLOCK_SHIFT_RANGED, BLOCKS_MAX, SHARED_BLOCK_BYTES,
    SHARED_BLOCK_CLOSE_BYTES, SHARED_BYTES_MAX,
};
use crate::metadata::{Container, Metadata, Role};
use crate::names;

/// What a package will contain.
pub(super) struct Plan {
    pub(super) items: Vec<Planned>,
    /// Blocks, in the order of the file.
    pub(super) units: Vec<Unit>,
    pub(super) raw_bytes: u64,
}

impl Plan {
    /// Returns whether a GPU decodes a block.
    pub(super) fn on_gpu(&self, unit: &Unit) -> bool {
        matches!(unit, Unit::Part { item, .. } if self.items[*item as usize].on_gpu)
    }

    /// Returns the parts of a block, in order.
    pub(super) fn parts(&self, unit: &Unit) -> Vec<Part<'_>> {
        match unit {
            Unit::Shared(items) => {
                let whole = |&nth: &u32| Part::whole(&self.items[nth as usize].item);
                items.iter().map(whole).collect()
            }
            Unit::Part { item, nth } => {
                let planned = &self.items[*item as usize];
                let size = 1u64 << planned.block_shift;
                let offset = u64::from(*nth) * size;
                vec![Part {
                    item: &planned.item,
                    offset,
                    len: (planned.item.len - offset).min(size) as usize,
                }]
            }
        }
    }
}

/// A range of an item's bytes that is in a block.
pub(super) struct Part<'a> {
    pub(super) item: &'a Item,
    pub(super) offset: u64,
    pub(super) len: usize,
}

impl Part<'_> {
    fn whole(item: &Item) -> Part<'_> {
        Part {
            item,
            offset: 0,
            len: item.len as usize,
        }
    }

    pub(super) fn is_whole(&self) -> bool {
        self.len as u64 == self.item.len
    }
}

/// An input with its metadata and its place in the blocks.
pub(super) struct Planned {
    pub(super) item: Item,
    /// The item whose blocks it uses, since it has the same content.
    pub(super) same_as: Option<Same>,
    pub(super) first_unit: u32,
    pub(super) unit_count: u32,
    pub(super) offset_in_block: u32,
    pub(super) block_shift: u8,
    pub(super) shared: bool,
    /// Whether it is loaded into the memory of a GPU as it is.
    pub(super) on_gpu: bool,
    pub(super) metadata: Option<Vec<u8>>,
}

/// A planned block.
pub(super) enum Unit {
    /// Several items, one after the other.
    Shared(Vec<u32>),
    /// A part of an item.
    Part { item: u32, nth: u32 },
}

/// Plans a package of inputs that are already cooked.
pub(super) fn plan(mut items: Vec<Item>, options: &PackOptions<'_>) -> Result<Plan> {
    for item in &items {
        names::check(&item.name)?;
    }
    items.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    check_duplicates(&items, options.fold_case)?;
    let raw_bytes = check_size(&items)?;
    put_in_order(&mut items, &options.order);
    let described = describe_all(&items, options)?;
    let same = same::find(&items, thread_count(options))?;
    let on_gpu = on_gpu(&items, &described, &same, options);
    let mut plan = Plan {
        raw_bytes,
        items: Vec::with_capacity(items.len()),
        units: Vec::new(),
    };
    let ordered = options.order.len();
    let share_below = options.share_below.map_or(SHARED_BYTES_MAX, u64::from);
    let mut open: Vec<u32> = Vec::new();
    let mut open_bytes = 0;
    for (nth, ((item, record), same_as)) in items.into_iter().zip(described).zip(same).enumerate() {
        let on_gpu = on_gpu[nth];
        let nth = u32::try_from(nth).expect("checked against the limit when written");
        // In a shared block, GDeflate tiles would not begin where the item's bytes do.
        let shared = item.len > 0 && item.len < share_below && same_as.is_none() && !on_gpu;
        let before = plan
            .items
            .last()
            .map(|one: &Planned| folder(&one.item.name));
        // In the order of a trace, neighbors in other folders are loaded together, too.
        let folder_ends = ordered == 0 && before.is_some_and(|it| it != folder(&item.name));
        let full = open_bytes + item.len as usize > SHARED_BLOCK_BYTES;
        let close = (shared && full) || (folder_ends && open_bytes >= SHARED_BLOCK_CLOSE_BYTES);
        if close && !open.is_empty() {
            close_shared(&mut plan, &mut open, &mut open_bytes);
        }
        let mut planned = Planned {
            block_shift: shift_of(record.as_deref(), options),
            metadata: record.map(|record| record.encode()),
            item,
            same_as,
            first_unit: 0,
            unit_count: 0,
            offset_in_block: 0,
            shared,
            on_gpu,
        };
        if shared {
            planned.offset_in_block = open_bytes as u32;
            open_bytes += planned.item.len as usize;
            open.push(nth);
        } else if same_as.is_none() {
            let count = planned.item.len.div_ceil(1 << planned.block_shift);
            let limit = |_| Error::new(ErrorKind::Limit, "more blocks than a package can have");
            planned.first_unit = u32::try_from(plan.units.len()).map_err(limit)?;
            planned.unit_count = u32::try_from(count).map_err(limit)?;
            let parts = (0..planned.unit_count).map(|part| Unit::Part {
                item: nth,
                nth: part,
            });
            plan.units.extend(parts);
        }
        plan.items.push(planned);
    }
    close_shared(&mut plan, &mut open, &mut open_bytes);
    Ok(plan)
}

/// Returns the raw bytes of all items, after checking that blocks of 1 MiB can hold them.
fn check_size(items: &[Item]) -> Result<u64> {
    let mut raw_bytes = 0u64;
    for item in items {
        raw_bytes = raw_bytes.saturating_add(item.len);
        if raw_bytes >> BLOCK_SHIFT_MAX > BLOCKS_MAX {
            let cause = "the inputs are longer than a package can be: some 4 PiB";
            return Err(Error::new(ErrorKind::Limit, cause).entry(&item.name));
        }
    }
    Ok(raw_bytes)
}

/// Returns which items are loaded into the memory of the target's GPU as they are: images, and the
/// buffers of scenes. An item that uses the blocks of another one decides for that one, too.
fn on_gpu(
    items: &[Item],
    records: &[Option<Box<Metadata>>],
    same: &[Option<Same>],
    options: &PackOptions<'_>,
) -> Vec<bool> {
    let mut on_gpu = vec![false; items.len()];
    if options.gpu_megabytes_per_second.is_none() {
        return on_gpu;
    }
    let known = || records.iter().flatten();
    let dependencies = known().flat_map(|record| &record.dependencies);
    let buffers = dependencies.filter(|dependency| dependency.role == Role::BUFFER);
    let buffers: HashSet<&[u8]> = buffers.map(|buffer| buffer.name.as_bytes()).collect();
    for (nth, item) in items.iter().enumerate() {
        let is_image = records[nth].as_deref().is_some_and(is_ready_for_upload);
        if is_image || buffers.contains(&item.name[..]) {
            let (original, _) = same[nth].unwrap_or((nth as u32, [0; 32]));
            on_gpu[original as usize] = true;
        }
    }
    on_gpu
}

/// Whether an entry is an image whose mip levels are laid out as a GPU takes them.
fn is_ready_for_upload(record: &Metadata) -> bool {
    let container = record.image.map(|image| image.container);
    let containers = [Container::OTHER, Container::DDS, Container::KTX2];
    container.is_some_and(|container| containers.contains(&container))
        && record.mips.iter().any(|mip| mip.row_bytes > 0)
}

fn close_shared(plan: &mut Plan, open: &mut Vec<u32>, open_bytes: &mut usize) {
    if open.is_empty() {
        return;
    }
    let unit = plan.units.len() as u32;
    for &nth in open.iter() {
        let planned = &mut plan.items[nth as usize];
        planned.first_unit = unit;
        planned.unit_count = 1;
    }
    plan.units.push(Unit::Shared(std::mem::take(open)));
    *open_bytes = 0;
}

fn folder(name: &[u8]) -> &[u8] {
    let slash = name.iter().rposition(|&byte| byte == b'/');
    &name[..slash.unwrap_or(0)]
}

fn shift_of(record: Option<&Metadata>, options: &PackOptions<'_>) -> u8 {
    if let Some(bytes) = options.block_bytes {
        return bytes.trailing_zeros() as u8;
    }
    let ranged = record.is_some_and(|it| it.mips.len() > 1 || it.audio.is_some());
    if ranged {
        BLOCK_SHIFT_RANGED
    } else if options.coding == super::Coding::Fixed(millstream::CodecId::STORED) {
        BLOCK_SHIFT_MAX
    } else {
        BLOCK_SHIFT_DEFAULT
    }
}

/// Refuses equal names, and names that are folders of others. The items are sorted by name.
fn check_duplicates(items: &[Item], fold_case: bool) -> Result<()> {
    let duplicate =
        |name: &[u8], cause: &str| Err(Error::new(ErrorKind::Duplicate, cause).entry(name));
    let (mut before, mut seen): (&[u8], _) = (b"", HashSet::new());
    for item in items {
        let name = &item.name[..];
        if name == before {
            return duplicate(name, "two inputs have this name");
        }
        // A package with a name that is a folder of another could not be unpacked.
        let mut above = folder(name);
        while !above.is_empty() && above != folder(before) {
            if items.binary_search_by(|it| it.name[..].cmp(above)).is_ok() {
                return duplicate(above, "the name is both a file and a folder");
            }
            above = folder(above);
        }
        if fold_case && !seen.insert(name.to_ascii_lowercase()) {
            return duplicate(name, "two inputs have this name but for its case");
        }
        before = name;
    }
    Ok(())
}

/// Puts the items that `order` names in front, in its order; the rest stay sorted by name.
fn put_in_order(items: &mut [Item], order: &[Vec<u8>]) {
    if order.is_empty() {
        return;
    }
    let mut places: HashMap<&[u8], usize> = HashMap::new();
    for (nth, name) in order.iter().enumerate() {
        places.entry(name).or_insert(nth);
    }
    // The sort is stable, so the rest stay in order.
    items.sort_by_key(|item| places.get(&item.name[..]).copied().unwrap_or(usize::MAX));
}

fn describe_all(items: &[Item], options: &PackOptions<'_>) -> Result<Vec<Option<Box<Metadata>>>> {
    in_parallel(items.len(), thread_count(options), |nth| {
        let item = &items[nth];
        if item.metadata.is_some() {
            return Ok(item.metadata.clone());
        }
        describe(item, options).map(|record| record.map(Box::new))
    })
}

fn describe(item: &Item, options: &PackOptions<'_>) -> Result<Option<Metadata>> {
    use crate::limits::DESCRIBE_HEAD_BYTES_MAX;
    let mut bytes = Vec::new();
    for describer in &options.describers {
        let wanted = describer
            .head_bytes(&item.name)
            .min(DESCRIBE_HEAD_BYTES_MAX);
        let wanted = usize::try_from(item.len).unwrap_or(usize::MAX).min(wanted);
        if wanted > bytes.len() {
            let have = bytes.len();
            item.read(have as u64, wanted - have, &mut bytes)?;
        }
        let head = crate::Head {
            name: &item.name,
            bytes: &bytes[..wanted],
            raw_bytes: item.len,
        };
        if let Some(record) = describer.describe(&head) {
            return Ok(Some(record));
        }
    }
    Ok(None)
}
