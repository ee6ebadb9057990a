//! Checks that the indices of primitives are less than their number of vertices.
//!
//! Indices are in buffers, so the JSON's checks do not cover them, and a GPU that is given one
//! beyond the vertices reads other memory or hangs. They are checked when all buffers have landed:
//! one pass over memory that was just written, while images are still decoded. An accessor of
//! indices is read once, however many primitives use it.

use crate::error::{Error, ErrorKind, Result, invalid};
use crate::limits;
use crate::model::{Model, Primitive};
use crate::scene::Scene;

impl Scene {
    /// Makes primitives whose indices exceed their vertices invalid. Those whose bytes are missing
    /// (their buffers have the error) or on a device are skipped.
    pub(crate) fn check_indices(&mut self) {
        let mut largest = Largest {
            known: vec![None; self.model.accessors.len()],
            left: limits::INDICES_MAX,
        };
        let mut wrong = Vec::new();
        for (mesh, about) in self.model.meshes.iter().enumerate() {
            let primitives = about.as_ref().map_or(&[][..], |mesh| &mesh.primitives);
            for (at, primitive) in primitives.iter().enumerate() {
                let Ok(primitive) = primitive else { continue };
                if let Err(error) = largest.check(self, primitive) {
                    let place = format!("meshes[{mesh}].primitives[{at}].indices");
                    wrong.push((mesh, at, error.within(place)));
                }
            }
        }
        for (mesh, at, error) in wrong {
            if let Ok(mesh) = &mut self.model.meshes[mesh] {
                mesh.primitives[at] = Err(error);
            }
        }
    }
}

/// The largest index of each accessor that was read; the inner `None`: it has no elements.
struct Largest {
    known: Vec<Option<Option<u32>>>,
    /// How many indices may still be read.
    left: u64,
}

impl Largest {
    fn check(&mut self, scene: &Scene, primitive: &Primitive) -> Result<()> {
        let vertices = vertex_count(&scene.model, primitive);
        let (Some(accessor), Some(vertices)) = (primitive.indices, vertices) else {
            return Ok(());
        };
        match self.of(scene, accessor)? {
            Some(largest) if u64::from(largest) >= vertices => {
                let cause = format!(
                    "accessor {accessor} has the index {largest}, but there are {vertices} vertices"
                );
                Err(invalid("", cause))
            }
            _ => Ok(()),
        }
    }

    fn of(&mut self, scene: &Scene, accessor: usize) -> Result<Option<u32>> {
        if let Some(Some(known)) = self.known.get(accessor) {
            return Ok(*known);
        }
        let Ok(elements) = scene.accessor(accessor) else {
            return Ok(None);
        };
        // Many accessors may share the same bytes, so the sum over accessors is bounded.
        let left = self.left.checked_sub(elements.count() as u64);
        let cause = "the scene has more indices than the limit allows";
        self.left = left.ok_or_else(|| Error::new(ErrorKind::Limit, "", cause))?;
        let largest = elements.largest_index()?;
        self.known[accessor] = Some(largest);
        Ok(largest)
    }
}

/// Returns the number of vertices: that of the shortest attribute.
fn vertex_count(model: &Model, primitive: &Primitive) -> Option<u64> {
    let accessors = primitive.attributes.values();
    let accessors = accessors.filter_map(|&accessor| model.accessors.get(accessor)?.as_ref().ok());
    accessors.map(|accessor| accessor.count).min()
}
