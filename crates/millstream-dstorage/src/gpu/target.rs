//! The resources that requests write to: checks, and the commands that copy to them.
//!
//! The bytes of a request are laid out as `GetCopyableFootprints` lays out the destination, so they
//! are copied as they are.
#![expect(unsafe_code, reason = "calls D3D12 on resources of the program")]

use windows::Win32::Graphics::Direct3D12::*;

use crate::abi::*;
use crate::com;

/// Each row of a texture in a buffer begins at a multiple of it.
const PITCH_ALIGNMENT: u64 = D3D12_TEXTURE_DATA_PITCH_ALIGNMENT as u64;

/// A resource of the program, and where in it a request writes.
pub(crate) struct Target {
    resource: ID3D12Resource,
    place: Place,
    /// The bytes of the request that are copied.
    len: u64,
}

enum Place {
    /// At an offset of a buffer.
    Buffer(u64),
    Texture(Vec<Region>),
}

/// A subresource, where in it a box begins, and the box's footprint in the bytes of the request.
type Region = (u32, [u32; 3], D3D12_PLACED_SUBRESOURCE_FOOTPRINT);

impl Target {
    /// Checks the destination of a request, which is no memory and no tiles. `Err` is the result
    /// of the request.
    pub(crate) fn new(
        request: &DSTORAGE_REQUEST,
        device: &ID3D12Device,
    ) -> Result<Target, HRESULT> {
        let destination = &request.Destination;
        // SAFETY: all members begin with the resource, which is null or valid.
        let resource = unsafe { com::query::<ID3D12Resource>(destination.Buffer.Resource) };
        let resource = resource.ok_or(E_INVALIDARG)?;
        let mut owner: Option<ID3D12Device> = None;
        // SAFETY: memory for the answer.
        let owned = unsafe { resource.GetDevice(&mut owner) };
        if owned.is_err() || owner.as_ref() != Some(device) {
            return Err(E_INVALIDARG);
        }
        // SAFETY: without arguments.
        let texture = Texture::new(device, unsafe { resource.GetDesc() });
        let is_buffer = texture.description.Dimension == D3D12_RESOURCE_DIMENSION_BUFFER;
        let kind = request.Options.destination_type();
        if is_buffer != (kind == DSTORAGE_REQUEST_DESTINATION_BUFFER) {
            return Err(E_INVALIDARG);
        }
        // SAFETY: the member that the type names; any bits are valid for it.
        let (place, len) = unsafe {
            match kind {
                DSTORAGE_REQUEST_DESTINATION_BUFFER => {
                    let (offset, len) = (destination.Buffer.Offset, destination.Buffer.Size.into());
                    let end = offset.checked_add(len).ok_or(E_INVALIDARG)?;
                    if end > texture.description.Width {
                        return Err(E_INVALIDARG);
                    }
                    (Place::Buffer(offset), len)
                }
                DSTORAGE_REQUEST_DESTINATION_TEXTURE_REGION => {
                    let to = &destination.Texture;
                    texture.region(to.SubresourceIndex, to.Region)?
                }
                DSTORAGE_REQUEST_DESTINATION_MULTIPLE_SUBRESOURCES => {
                    let first = destination.MultipleSubresources.FirstSubresource;
                    let count = texture.subresources.checked_sub(first);
                    texture.subresources(first, count.ok_or(E_INVALIDARG)?)?
                }
                _ => {
                    let to = &destination.MultipleSubresourcesRange;
                    texture.subresources(to.FirstSubresource, to.NumSubresources)?
                }
            }
        };
        Ok(Target {
            resource,
            place,
            len,
        })
    }

    /// Returns whether a request of `size` bytes fills it. Only a buffer has a size of its own, to
    /// which that of stored bytes is equal.
    pub(crate) fn fits(&self, size: u32, is_stored: bool) -> bool {
        match self.place {
            Place::Buffer(_) if is_stored => u64::from(size) == self.len,
            _ => u64::from(size) >= self.len,
        }
    }

    /// Records the copy from an offset of a buffer.
    pub(super) fn record(
        &self,
        list: &ID3D12GraphicsCommandList,
        buffer: &ID3D12Resource,
        offset: u64,
    ) {
        match &self.place {
            Place::Buffer(_) if self.len == 0 => {}
            // SAFETY: resources that are held until the list has run; the range was checked.
            Place::Buffer(at) => unsafe {
                list.CopyBufferRegion(&self.resource, *at, buffer, offset, self.len);
            },
            Place::Texture(regions) => {
                for &(subresource, [x, y, z], footprint) in regions {
                    let mut to = location(&self.resource);
                    to.Anonymous.SubresourceIndex = subresource;
                    let mut from = location(buffer);
                    from.Type = D3D12_TEXTURE_COPY_TYPE_PLACED_FOOTPRINT;
                    from.Anonymous.PlacedFootprint = footprint;
                    // SAFETY: the member that was set.
                    unsafe { from.Anonymous.PlacedFootprint.Offset += offset };
                    // SAFETY: as above.
                    unsafe { list.CopyTextureRegion(&to, x, y, z, &from, None) };
                }
            }
        }
    }
}

/// Returns a subresource as a location, without a reference of its own.
fn location(resource: &ID3D12Resource) -> D3D12_TEXTURE_COPY_LOCATION {
    D3D12_TEXTURE_COPY_LOCATION {
        // SAFETY: the same pointer, which is not released.
        pResource: unsafe { std::mem::transmute_copy(resource) },
        Type: D3D12_TEXTURE_COPY_TYPE_SUBRESOURCE_INDEX,
        Anonymous: D3D12_TEXTURE_COPY_LOCATION_0::default(),
    }
}

/// What is known of a texture.
struct Texture<'a> {
    device: &'a ID3D12Device,
    description: D3D12_RESOURCE_DESC,
    planes: u8,
    subresources: u32,
}

impl Texture<'_> {
    fn new(device: &ID3D12Device, description: D3D12_RESOURCE_DESC) -> Texture<'_> {
        let mut info = D3D12_FEATURE_DATA_FORMAT_INFO {
            Format: description.Format,
            PlaneCount: 1,
        };
        let size = size_of_val(&info) as u32;
        // SAFETY: memory for question and answer. A device that does not know has one plane.
        let _ = unsafe {
            device.CheckFeatureSupport(D3D12_FEATURE_FORMAT_INFO, (&raw mut info).cast(), size)
        };
        let slices = match description.Dimension {
            D3D12_RESOURCE_DIMENSION_TEXTURE3D => 1,
            _ => description.DepthOrArraySize,
        };
        Texture {
            device,
            description,
            planes: info.PlaneCount,
            subresources: u32::from(description.MipLevels) * u32::from(slices),
        }
    }

    /// Returns the footprints of subresources, the rows of the first, the bytes of one of them, and
    /// the bytes of all subresources.
    fn footprints(&self, first: u32, count: u32) -> Result<Footprints, HRESULT> {
        let end = first.checked_add(count).ok_or(E_INVALIDARG)?;
        // Copies from a buffer to several samples do not exist. Not every implementation lays out
        // planes behind the first.
        let is_simple = self.description.SampleDesc.Count == 1 && self.planes == 1;
        if count == 0 || end > self.subresources || !is_simple {
            return Err(E_INVALIDARG);
        }
        let len = count as usize;
        let mut placed = vec![D3D12_PLACED_SUBRESOURCE_FOOTPRINT::default(); len];
        let (mut rows, mut row_lens, mut total) = (vec![0; len], vec![0; len], 0);
        // SAFETY: each array has room for `count`.
        unsafe {
            let (rows, row_lens) = (Some(rows.as_mut_ptr()), Some(row_lens.as_mut_ptr()));
            let (placed, total) = (Some(placed.as_mut_ptr()), Some(&raw mut total));
            let of = &self.description;
            let device = self.device;
            device.GetCopyableFootprints(of, first, count, 0, placed, rows, row_lens, total);
        }
        match total {
            u64::MAX => Err(E_INVALIDARG),
            _ => Ok((placed, rows[0], row_lens[0], total)),
        }
    }

    fn subresources(&self, first: u32, count: u32) -> Result<(Place, u64), HRESULT> {
        let (footprints, _, _, total) = self.footprints(first, count)?;
        let regions = footprints.into_iter().zip(first..);
        let regions = regions.map(|(footprint, subresource)| (subresource, [0; 3], footprint));
        Ok((Place::Texture(regions.collect()), total))
    }

    /// Returns whether D3D12 copies to whole subresources only (depth), or texels share bytes (68
    /// and 69, `NV12` to `NV11`, `P208` to `V408`).
    fn needs_whole(&self) -> bool {
        let D3D12_RESOURCE_DESC { Flags, Format, .. } = self.description;
        Flags.0 & D3D12_RESOURCE_FLAG_ALLOW_DEPTH_STENCIL.0 != 0
            || matches!(Format.0, 40 | 55 | 68 | 69 | 103..=110 | 130..=132)
    }

    /// The footprint of a box is that of a texture of its size.
    fn region(&self, subresource: u32, to: D3D12_BOX) -> Result<(Place, u64), HRESULT> {
        let (footprints, rows, row_len, _) = self.footprints(subresource, 1)?;
        let mut placed = footprints[0];
        let whole = placed.Footprint;
        // The width and height of a block of texels, to which the footprint is rounded.
        let block = (whole.Height / rows.max(1)).max(1);
        let side = |from: u32, to: u32, whole: u32, block: u32| {
            let end = to.checked_next_multiple_of(block).unwrap_or(u32::MAX);
            let is_aligned = from.is_multiple_of(block) && (to == end || end == whole);
            let is_inside = from < to && end <= whole;
            (is_aligned && is_inside)
                .then(|| end - from)
                .ok_or(E_INVALIDARG)
        };
        let width = side(to.left, to.right, whole.Width, block)?;
        let height = side(to.top, to.bottom, whole.Height, block)?;
        let depth = side(to.front, to.back, whole.Depth, 1)?;
        let is_whole = (width, height, depth) == (whole.Width, whole.Height, whole.Depth);
        if !is_whole && self.needs_whole() {
            return Err(E_INVALIDARG);
        }
        let of_block = row_len / u64::from(whole.Width / block).max(1);
        let row = of_block * u64::from(width / block);
        let pitch = row.next_multiple_of(PITCH_ALIGNMENT);
        let rows = u64::from(height / block) * u64::from(depth);
        placed.Footprint.Width = width;
        placed.Footprint.Height = height;
        placed.Footprint.Depth = depth;
        placed.Footprint.RowPitch = pitch as u32;
        let region = (subresource, [to.left, to.top, to.front], placed);
        Ok((Place::Texture(vec![region]), pitch * (rows - 1) + row))
    }
}

/// Footprints, rows, bytes of a row, bytes of all.
type Footprints = (Vec<D3D12_PLACED_SUBRESOURCE_FOOTPRINT>, u32, u64, u64);
