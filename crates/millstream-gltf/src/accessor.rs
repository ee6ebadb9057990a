//! Accessors of a loaded scene: typed elements, read in place from the loaded buffers.
//!
//! Where the layout allows it (no gaps, no sparse elements, aligned), [`Elements::as_slice`] is a
//! view without a copy. For any stored type (including the bytes and shorts of
//! `KHR_mesh_quantization`, normalized or not), [`Elements::to_f32`] returns floats,
//! [`Elements::to_indices`] indices, and [`Elements::packed`] bytes.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::error::{Result, invalid};
use crate::model::{Accessor, Component, Shape};

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that elements of an accessor may have.
pub trait Element:
    FromBytes + IntoBytes + Immutable + KnownLayout + Copy + sealed::Sealed + 'static
{
    /// The component type.
    const COMPONENT: Component;
    /// The element type, which gives the number of components.
    const SHAPE: Shape;
}

macro_rules! element {
    ($type:ty, $component:ident) => {
        element!(one $type, $component, Scalar);
        element!(one [$type; 2], $component, Vec2);
        element!(one [$type; 3], $component, Vec3);
        element!(one [$type; 4], $component, Vec4);
    };
    (one $type:ty, $component:ident, $shape:ident) => {
        impl sealed::Sealed for $type {}
        impl Element for $type {
            const COMPONENT: Component = Component::$component;
            const SHAPE: Shape = Shape::$shape;
        }
    };
}

element!(i8, I8);
element!(u8, U8);
element!(i16, I16);
element!(u16, U16);
element!(u32, U32);
element!(f32, F32);
element!(one [[f32; 3]; 3], F32, Mat3);
element!(one [[f32; 4]; 4], F32, Mat4);
element!(one [[f32; 2]; 2], F32, Mat2);

/// The sparse elements of an accessor, as they are stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SparseBytes<'a> {
    pub(crate) indices: &'a [u8],
    pub(crate) component: Component,
    pub(crate) values: &'a [u8],
}

/// The elements of an accessor, with their bytes loaded.
#[derive(Debug, Clone, Copy)]
pub struct Elements<'a> {
    pub(crate) accessor: &'a Accessor,
    /// All elements at `stride`, as the model's checks ensure, but for the padding of the last
    /// one; `None` if all are zero.
    pub(crate) bytes: Option<&'a [u8]>,
    pub(crate) stride: usize,
    pub(crate) sparse: Option<SparseBytes<'a>>,
}

impl<'a> Elements<'a> {
    /// Returns the number of elements.
    #[must_use]
    pub fn count(&self) -> usize {
        usize::try_from(self.accessor.count).expect("checked against a loaded buffer or a bound")
    }

    /// Returns the accessor.
    #[must_use]
    pub fn accessor(&self) -> &'a Accessor {
        self.accessor
    }

    fn element_bytes(&self) -> usize {
        usize::try_from(self.accessor.element_bytes()).expect("64 at most")
    }

    /// Returns the elements in place, without a copy. `None` if they have another type, gaps or
    /// sparse elements, are not stored or misaligned; and on big-endian machines.
    #[must_use]
    pub fn as_slice<T: Element>(&self) -> Option<&'a [T]> {
        let is_of = self.accessor.component == T::COMPONENT && self.accessor.shape == T::SHAPE;
        let tight = self.stride == size_of::<T>() && self.sparse.is_none();
        if !is_of || !tight || cfg!(target_endian = "big") {
            return None;
        }
        <[T]>::ref_from_bytes(&self.bytes?[..self.count() * self.stride]).ok()
    }

    /// Returns the elements as arrays of `N` floats: normalized integers become fractions, others
    /// their value. Matrices are in column-major order.
    ///
    /// # Errors
    /// Elements that do not have `N` components, or wrong sparse indices.
    pub fn to_f32<const N: usize>(&self) -> Result<Vec<[f32; N]>> {
        let shape = self.accessor.shape;
        if shape.numbers() != N {
            let cause = format!("elements have {} numbers, not {N}", shape.numbers());
            return Err(invalid("", cause));
        }
        let (component, normalized) = (self.accessor.component, self.accessor.normalized);
        let bytes = usize::try_from(component.bytes()).expect("4 at most");
        let (rows, columns) = (shape.rows(), shape.columns());
        let column_bytes = self.element_bytes() / columns;
        let mut out = Vec::with_capacity(self.count());
        self.each(|element| {
            out.push(std::array::from_fn(|at| {
                let start = at / rows * column_bytes + at % rows * bytes;
                number(&element[start..start + bytes], component, normalized)
            }));
        })?;
        Ok(out)
    }

    /// Returns the elements as indices.
    ///
    /// # Errors
    /// Elements that are not unsigned scalars, or wrong sparse indices.
    pub fn to_indices(&self) -> Result<Vec<u32>> {
        self.check_index_type()?;
        let mut out = Vec::with_capacity(self.count());
        self.each(|element| out.push(unsigned_number(element)))?;
        Ok(out)
    }

    /// Returns the largest of elements that are indices; fails as [`Elements::to_indices`].
    pub(crate) fn largest_index(&self) -> Result<Option<u32>> {
        if let Some(indices) = self.as_slice::<u16>() {
            return Ok(indices.iter().copied().max().map(u32::from));
        }
        if let Some(indices) = self.as_slice::<u32>() {
            return Ok(indices.iter().copied().max());
        }
        self.check_index_type()?;
        let mut largest = None;
        let mut look = |element: &[u8]| largest = largest.max(Some(unsigned_number(element)));
        match self.bytes {
            Some(_) => self.each(look)?,
            // One zero stands for all elements that are not stored, of which there may be millions.
            None => {
                self.check_sparse()?;
                look(&[0]);
                self.sparse_elements().for_each(|(_, value)| look(value));
            }
        }
        Ok(largest)
    }

    fn check_index_type(&self) -> Result<()> {
        match self.accessor.shape == Shape::Scalar && self.accessor.component.is_index() {
            true => Ok(()),
            false => Err(invalid("", "the elements are not unsigned scalars")),
        }
    }

    /// Returns the elements without gaps, with sparse ones in their places. Numbers are
    /// little-endian; columns of matrices begin at multiples of four bytes.
    ///
    /// # Errors
    /// Wrong sparse indices.
    pub fn packed(&self) -> Result<Vec<u8>> {
        let mut packed = Vec::with_capacity(self.count() * self.element_bytes());
        self.each(|element| packed.extend_from_slice(element))?;
        Ok(packed)
    }

    /// Returns the index and bytes of each sparse element.
    fn sparse_elements(&self) -> impl Iterator<Item = (usize, &'a [u8])> + use<'a> {
        let element_bytes = self.element_bytes();
        self.sparse.into_iter().flat_map(move |sparse| {
            let index_bytes = usize::try_from(sparse.component.bytes()).expect("4 at most");
            let indices = sparse.indices.chunks_exact(index_bytes);
            let indices = indices.map(|index| unsigned_number(index) as usize);
            indices.zip(sparse.values.chunks(element_bytes))
        })
    }

    /// Checks that sparse indices ascend and are less than the number of elements.
    fn check_sparse(&self) -> Result<()> {
        let mut least = 0;
        for (index, _) in self.sparse_elements() {
            if !(least..self.count()).contains(&index) {
                let cause = format!("sparse index {index} exceeds the accessor or is out of order");
                return Err(invalid("", cause));
            }
            least = index + 1;
        }
        Ok(())
    }

    /// Calls `show` with the bytes of each element, sparse ones in their places; allocates no
    /// memory for those that are not stored.
    fn each(&self, mut show: impl FnMut(&[u8])) -> Result<()> {
        self.check_sparse()?;
        let len = self.element_bytes();
        let mut sparse = self.sparse_elements().peekable();
        for index in 0..self.count() {
            let replaced = sparse.next_if(|(at, _)| *at == index);
            let stored = self
                .bytes
                .map_or(&[][..], |bytes| &bytes[index * self.stride..]);
            let stored = replaced.map_or(stored, |(_, value)| value);
            match stored.get(..len) {
                Some(element) => show(element),
                // The last column of the last element may lack its padding.
                None => {
                    let mut element = [0; ELEMENT_BYTES_MAX];
                    element[..stored.len()].copy_from_slice(stored);
                    show(&element[..len]);
                }
            }
        }
        Ok(())
    }
}

/// The largest element: a matrix of 4 × 4 floats.
const ELEMENT_BYTES_MAX: usize = 64;

fn unsigned_number(bytes: &[u8]) -> u32 {
    let mut word = [0; 4];
    word[..bytes.len()].copy_from_slice(bytes);
    u32::from_le_bytes(word)
}

/// Converts a number to a float. Normalized integers: section 3.11 of the specification.
fn number(bytes: &[u8], component: Component, normalized: bool) -> f32 {
    let unsigned = unsigned_number(bytes);
    let (value, most) = match component {
        Component::I8 => (f32::from(unsigned as u8 as i8), 127.0),
        Component::U8 => (f32::from(unsigned as u8), 255.0),
        Component::I16 => (f32::from(unsigned as u16 as i16), 32767.0),
        Component::U16 => (f32::from(unsigned as u16), 65535.0),
        Component::U32 => (unsigned as f32, u32::MAX as f32),
        Component::F32 => return f32::from_bits(unsigned),
    };
    if normalized {
        (value / most).max(-1.0)
    } else {
        value
    }
}
