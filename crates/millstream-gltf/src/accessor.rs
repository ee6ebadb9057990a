//! Accessors of a loaded scene: typed elements straight in the loaded buffers.
//!
//! Where the layout allows it (no gaps, no sparse elements, aligned), [`Elements::as_slice`] is a
//! view without a copy. For any stored type (bytes and shorts of `KHR_mesh_quantization`,
//! normalized or not), [`Elements::to_f32`] gives floats, [`Elements::to_indices`] indices, and
//! [`Elements::packed`] bytes.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::error::{Error, Result, invalid};
use crate::model::{Accessor, Component, Shape};

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that an accessor's element may be.
pub trait Element:
    FromBytes + IntoBytes + Immutable + KnownLayout + Copy + sealed::Sealed + 'static
{
    /// The type of its numbers.
    const COMPONENT: Component;
    /// How many they are.
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
    accessor: &'a Accessor,
    /// From the first element on; `None`: all are zero.
    bytes: Option<&'a [u8]>,
    stride: usize,
    sparse: Option<SparseBytes<'a>>,
}

impl<'a> Elements<'a> {
    /// `bytes` must hold all elements at that stride, as the model's checks make sure.
    pub(crate) fn new(
        accessor: &'a Accessor,
        bytes: Option<&'a [u8]>,
        stride: usize,
        sparse: Option<SparseBytes<'a>>,
    ) -> Elements<'a> {
        Elements {
            accessor,
            bytes,
            stride,
            sparse,
        }
    }

    /// The number of elements.
    #[must_use]
    pub fn count(&self) -> usize {
        usize::try_from(self.accessor.count).expect("checked against a loaded buffer or a bound")
    }

    /// The accessor.
    #[must_use]
    pub fn accessor(&self) -> &'a Accessor {
        self.accessor
    }

    fn element_bytes(&self) -> usize {
        usize::try_from(self.accessor.element_bytes()).expect("64 at most")
    }

    fn is_of<T: Element>(&self) -> bool {
        self.accessor.component == T::COMPONENT && self.accessor.shape == T::SHAPE
    }

    /// The elements in place, without a copy. `None` if they are of another type, have gaps or
    /// sparse elements, or lie at an address that the type does not allow.
    #[must_use]
    pub fn as_slice<T: Element>(&self) -> Option<&'a [T]> {
        let tight = self.stride == size_of::<T>() && self.sparse.is_none();
        if !self.is_of::<T>() || !tight || cfg!(target_endian = "big") {
            return None;
        }
        <[T]>::ref_from_bytes(&self.bytes?[..self.count() * self.stride]).ok()
    }

    /// The elements as arrays of `N` floats. Integers become what they stand for: normalized ones
    /// fractions, others their value. Matrices have their numbers column by column.
    ///
    /// # Errors
    /// Elements of another number of numbers, or wrong sparse indices.
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

    /// The elements as indices.
    ///
    /// # Errors
    /// Elements that are not unsigned scalars, or wrong sparse indices.
    pub fn to_indices(&self) -> Result<Vec<u32>> {
        self.check_index_type()?;
        let mut out = Vec::with_capacity(self.count());
        self.each(|element| out.push(unsigned_number(element)))?;
        Ok(out)
    }

    /// The largest of elements that are indices.
    ///
    /// # Errors
    /// As [`Elements::to_indices`].
    pub(crate) fn largest_index(&self) -> Result<Option<u32>> {
        if let Some(indices) = self.as_slice::<u16>() {
            return Ok(indices.iter().copied().max().map(u32::from));
        }
        if let Some(indices) = self.as_slice::<u32>() {
            return Ok(indices.iter().copied().max());
        }
        self.check_index_type()?;
        let mut largest = None;
        let look = |element: &[u8]| largest = largest.max(Some(unsigned_number(element)));
        match self.bytes {
            Some(_) => self.each(look)?,
            // One zero stands for all that are not stored, of which there may be many millions.
            None => self.sparse_ones(look)?,
        }
        Ok(largest)
    }

    fn check_index_type(&self) -> Result<()> {
        match self.accessor.shape == Shape::Scalar && self.accessor.component.is_index() {
            true => Ok(()),
            false => Err(invalid("", "the elements are not unsigned scalars")),
        }
    }

    /// The elements without gaps, sparse ones in their places. Numbers are little-endian; columns
    /// of matrices begin at multiples of four bytes.
    ///
    /// # Errors
    /// Wrong sparse indices.
    pub fn packed(&self) -> Result<Vec<u8>> {
        let mut packed = Vec::with_capacity(self.count() * self.element_bytes());
        self.each(|element| packed.extend_from_slice(element))?;
        Ok(packed)
    }

    /// Calls `show` with a zero, if there are elements, and each sparse one.
    fn sparse_ones(&self, mut show: impl FnMut(&[u8])) -> Result<()> {
        let len = self.element_bytes();
        if self.count() > 0 {
            show(&[0; ELEMENT_BYTES_MAX][..len]);
        }
        let mut least = 0;
        for (index, value) in self.sparse.iter().flat_map(|it| it.elements(len)) {
            if !(least..self.count()).contains(&index) {
                return Err(wrong_sparse(index));
            }
            show(value);
            least = index + 1;
        }
        Ok(())
    }

    /// Calls `show` with the bytes of each element, sparse ones in their places; takes no memory
    /// for those that are not stored.
    fn each(&self, mut show: impl FnMut(&[u8])) -> Result<()> {
        let len = self.element_bytes();
        let mut sparse = self.sparse.iter().flat_map(|it| it.elements(len));
        let mut next = sparse.next();
        for index in 0..self.count() {
            let stored = match self.bytes {
                Some(bytes) => &bytes[index * self.stride..][..len],
                None => &[0; ELEMENT_BYTES_MAX][..len],
            };
            match next {
                Some((at, value)) if at == index => {
                    show(value);
                    next = sparse.next();
                }
                _ => show(stored),
            }
        }
        next.map_or(Ok(()), |(index, _)| Err(wrong_sparse(index)))
    }
}

fn wrong_sparse(index: usize) -> Error {
    let cause = format!("sparse index {index} exceeds the accessor or is out of order");
    invalid("", cause)
}

/// A matrix of 4 x 4 floats.
const ELEMENT_BYTES_MAX: usize = 64;

impl<'a> SparseBytes<'a> {
    /// Index and bytes of each, of `len` bytes.
    fn elements(&self, len: usize) -> impl Iterator<Item = (usize, &'a [u8])> + use<'a> {
        let index_bytes = usize::try_from(self.component.bytes()).expect("4 at most");
        let indices = self.indices.chunks_exact(index_bytes);
        let indices = indices.map(|index| unsigned_number(index) as usize);
        indices.zip(self.values.chunks_exact(len))
    }
}

fn unsigned_number(bytes: &[u8]) -> u32 {
    let mut word = [0; 4];
    word[..bytes.len()].copy_from_slice(bytes);
    u32::from_le_bytes(word)
}

/// A number as a float. Normalized integers by the equations of the specification, section 3.11.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;

    fn accessor(json: &str) -> Accessor {
        let json = format!(
            r#"{{"asset":{{"version":"2.0"}},"buffers":[{{"byteLength":4096}}],
            "bufferViews":[{{"buffer":0,"byteLength":4096}}],
            "accessors":[{{"bufferView":0,{json}}}]}}"#
        );
        let mut model = Model::parse(json.as_bytes()).expect("right");
        model.accessors.remove(0).expect("right")
    }

    #[test]
    fn tight_elements_are_seen_in_place() {
        let accessor = accessor(r#""count":2,"componentType":5126,"type":"VEC3""#);
        let values: Vec<[f32; 3]> = vec![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]];
        let elements = Elements::new(&accessor, Some(values.as_bytes()), 12, None);
        let slice = elements.as_slice::<[f32; 3]>().expect("tight");
        assert_eq!((slice, slice.as_ptr()), (&values[..], values.as_ptr()));
        assert!(elements.as_slice::<[f32; 4]>().is_none() && elements.to_f32::<2>().is_err());
    }

    #[test]
    fn quantised_strided_and_padded_numbers_become_floats() {
        let quantised =
            accessor(r#""count":2,"componentType":5120,"type":"VEC2","normalized":true"#);
        let bytes = [127, 0x80, 9, 9, 0, 0xff];
        let elements = Elements::new(&quantised, Some(&bytes), 4, None);
        let floats = elements.to_f32::<2>().expect("right");
        assert_eq!(floats, [[1.0, -1.0], [0.0, -1.0 / 127.0]]);
        assert!(elements.as_slice::<[i8; 2]>().is_none(), "there are gaps");
        // Columns begin at multiples of four bytes.
        let matrix = accessor(r#""count":2,"componentType":5121,"type":"MAT3""#);
        let bytes: Vec<u8> = (0..24).collect();
        let floats = Elements::new(&matrix, Some(&bytes), 12, None).to_f32::<9>();
        let expected = [0.0, 1.0, 2.0, 4.0, 5.0, 6.0, 8.0, 9.0, 10.0];
        assert_eq!(floats.expect("right")[0], expected);
    }

    #[test]
    fn sparse_elements_replace_and_wrong_indices_are_errors() {
        let accessor = accessor(r#""componentType":5123,"type":"SCALAR","count":4"#);
        let sparse = |indices| SparseBytes {
            indices,
            component: Component::U8,
            values: &[7, 0, 8, 1],
        };
        let elements = |indices| Elements::new(&accessor, None, 2, Some(sparse(indices)));
        let sound = elements(&[1, 3]);
        assert_eq!(sound.to_indices().expect("right"), [0, 7, 0, 264]);
        assert_eq!(sound.largest_index().expect("right"), Some(264));
        assert!(sound.as_slice::<u16>().is_none());
        for wrong in [&[1, 4], &[3, 1], &[1, 1]] {
            assert!(elements(wrong).to_indices().is_err(), "{wrong:?}");
        }
    }
}
