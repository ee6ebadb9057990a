//! Checks that elements refer to elements that exist, and to bytes inside their buffers.
//!
//! Elements are checked in the order of dependency, so that an element which refers to an invalid
//! one becomes invalid itself, with an error that names the root cause.

use super::{Accessor, BufferPlace, Component, ImagePlace, Model, Sparse, View};
use crate::error::{Error, ErrorKind, Result, invalid};
use crate::limits;

pub(super) fn references(model: &mut Model) {
    check_each(&mut model.buffers, "buffers", |_, buffer, place| {
        not_zero(buffer.len, place)
    });
    views(model);
    accessors(model);
    images(model);
    textures(model);
    materials(model);
    meshes(model);
    nodes(model);
    trees(model);
    scenes(model);
}

/// Returns the element `index` of an array; an error at `place` if it is missing or invalid.
fn follow<'a, T>(
    elements: &'a [Result<T>],
    index: usize,
    place: &str,
    what: &str,
) -> Result<&'a T> {
    match elements.get(index) {
        None => {
            let cause = format!(
                "{what} {index} does not exist: there are {}",
                elements.len()
            );
            Err(invalid(place, cause))
        }
        Some(Ok(element)) => Ok(element),
        Some(Err(error)) => {
            let cause = format!("{what} {index} cannot be used: {error}");
            Err(Error::new(error.kind(), place, cause))
        }
    }
}

/// As [`follow`], of an index that `name` may hold.
fn exists<T>(
    elements: &[Result<T>],
    index: Option<usize>,
    place: &str,
    name: &str,
    what: &str,
) -> Result<()> {
    match index {
        Some(index) => follow(elements, index, &format!("{place}.{name}"), what).map(|_| ()),
        None => Ok(()),
    }
}

/// Replaces elements by the errors that `check` finds.
fn check_each<T>(
    elements: &mut [Result<T>],
    array: &str,
    mut check: impl FnMut(usize, &mut T, &str) -> Result<()>,
) {
    for (index, slot) in elements.iter_mut().enumerate() {
        if let Ok(element) = slot
            && let Err(error) = check(index, element, &format!("{array}[{index}]"))
        {
            *slot = Err(error);
        }
    }
}

fn not_zero(len: u64, place: &str) -> Result<()> {
    match len {
        0 => Err(invalid(format!("{place}.byteLength"), "must be 1 or more")),
        _ => Ok(()),
    }
}

fn views(model: &mut Model) {
    let buffers = &model.buffers;
    check_each(&mut model.views, "bufferViews", |_, view, place| {
        not_zero(view.len, place)?;
        if (view.stride).is_some_and(|stride| !(4..=252).contains(&stride) || stride % 4 != 0) {
            let cause = "must be a multiple of 4 from 4 to 252";
            return Err(invalid(format!("{place}.byteStride"), cause));
        }
        let buffer = follow(buffers, view.buffer, &format!("{place}.buffer"), "buffer")?;
        let end = view.offset.checked_add(view.len);
        if end.is_none_or(|end| end > buffer.len) {
            let cause = format!(
                "bytes {} to {} exceed the {} bytes of buffer {}",
                view.offset,
                view.offset.saturating_add(view.len),
                buffer.len,
                view.buffer
            );
            return Err(invalid(format!("{place}.byteLength"), cause));
        }
        // With an uncompressed copy of the bytes the extension is ignored.
        if buffer.place == BufferPlace::Nowhere {
            let place = format!("{place}.extensions.EXT_meshopt_compression");
            let cause = "meshopt compression is not supported, and there is no uncompressed copy";
            return Err(Error::new(ErrorKind::Unsupported, place, cause));
        }
        Ok(())
    });
}

fn accessors(model: &mut Model) {
    let views = &model.views;
    check_each(&mut model.accessors, "accessors", |_, accessor, place| {
        if !(1..=limits::ACCESSOR_COUNT_MAX).contains(&accessor.count) {
            let cause = format!("{} elements: must be 1 to 2^31", accessor.count);
            return Err(invalid(format!("{place}.count"), cause));
        }
        if let Some(index) = accessor.view {
            let view = follow(views, index, &format!("{place}.bufferView"), "bufferView")?;
            check_elements(accessor, view, index, place)?;
        } else {
            check_zeros(accessor, place)?;
        }
        match &accessor.sparse {
            Some(sparse) => check_sparse(sparse, accessor, views, &format!("{place}.sparse")),
            None => Ok(()),
        }
    });
}

/// An accessor without a view has no stored bytes, so only a limit bounds its size.
fn check_zeros(accessor: &Accessor, place: &str) -> Result<()> {
    if accessor.offset > 0 {
        let place = format!("{place}.byteOffset");
        return Err(invalid(place, "without a bufferView"));
    }
    if accessor.count * accessor.element_bytes() > limits::ZEROS_BYTES_MAX {
        let cause = "the elements are all zero, and more than the limit allows";
        let place = format!("{place}.count");
        return Err(Error::new(ErrorKind::Limit, place, cause));
    }
    Ok(())
}

fn check_elements(accessor: &Accessor, view: &View, index: usize, place: &str) -> Result<()> {
    let element = accessor.element_bytes();
    let stride = view.stride.unwrap_or(element);
    if stride < element {
        let cause = format!("elements of {element} bytes overlap at a stride of {stride}");
        return Err(invalid(format!("{place}.bufferView"), cause));
    }
    // Both factors are small: 2³¹ elements of at most 252 bytes.
    let needed = (accessor.count - 1) * stride + element;
    fits(
        accessor.offset,
        needed,
        view,
        index,
        &format!("{place}.count"),
    )?;
    let component = accessor.component.bytes();
    if !accessor.offset.is_multiple_of(component)
        || !(view.offset + accessor.offset).is_multiple_of(component)
    {
        let cause = format!("is not a multiple of the {component} bytes of a number");
        return Err(invalid(format!("{place}.byteOffset"), cause));
    }
    Ok(())
}

fn fits(offset: u64, needed: u64, view: &View, index: usize, place: &str) -> Result<()> {
    if offset.checked_add(needed).is_none_or(|end| end > view.len) {
        let cause = format!(
            "{needed} bytes at offset {offset} exceed the {} bytes of bufferView {index}",
            view.len
        );
        return Err(invalid(place, cause));
    }
    Ok(())
}

fn check_sparse(
    sparse: &Sparse,
    accessor: &Accessor,
    views: &[Result<View>],
    place: &str,
) -> Result<()> {
    if !(1..=accessor.count).contains(&sparse.count) {
        let (count, of) = (sparse.count, accessor.count);
        let cause = format!("{count} elements exceed the {of} of the accessor");
        return Err(invalid(format!("{place}.count"), cause));
    }
    let (indices, values) = (&sparse.indices, &sparse.values);
    let unsigned = [Component::U8, Component::U16, Component::U32];
    if !unsigned.contains(&indices.component) {
        let place = format!("{place}.indices.componentType");
        return Err(invalid(place, "indices must be unsigned"));
    }
    for (name, index, offset, bytes) in [
        (
            "indices",
            indices.view,
            indices.offset,
            indices.component.bytes(),
        ),
        (
            "values",
            values.view,
            values.offset,
            accessor.element_bytes(),
        ),
    ] {
        let place = format!("{place}.{name}.bufferView");
        let view = follow(views, index, &place, "bufferView")?;
        fits(offset, sparse.count * bytes, view, index, &place)?;
    }
    Ok(())
}

fn images(model: &mut Model) {
    let views = &model.views;
    check_each(&mut model.images, "images", |_, image, place| {
        let view = match image.place {
            ImagePlace::View(view) => Some(view),
            _ => None,
        };
        exists(views, view, place, "bufferView", "bufferView")
    });
}

/// Checks only that images exist: a texture whose image is invalid is itself valid.
fn textures(model: &mut Model) {
    let (images, samplers) = (model.images.len(), &model.samplers);
    check_each(&mut model.textures, "textures", |_, texture, place| {
        for &image in texture.image.iter().chain(&texture.passed_over) {
            if image >= images {
                let cause = format!("image {image} does not exist: there are {images}");
                return Err(invalid(format!("{place}.source"), cause));
            }
        }
        exists(samplers, texture.sampler, place, "sampler", "sampler")
    });
}

fn materials(model: &mut Model) {
    let textures = &model.textures;
    check_each(&mut model.materials, "materials", |_, material, place| {
        for used in &material.textures {
            let place = format!("{place}.{}.index", used.slot);
            follow(textures, used.texture, &place, "texture")?;
        }
        Ok(())
    });
}

fn meshes(model: &mut Model) {
    let (accessors, materials) = (&model.accessors, &model.materials);
    check_each(&mut model.meshes, "meshes", |_, mesh, place| {
        let place = format!("{place}.primitives");
        check_each(&mut mesh.primitives, &place, |_, primitive, place| {
            if primitive.extensions.draco.is_some() {
                let place = format!("{place}.extensions.KHR_draco_mesh_compression");
                let cause = "Draco compression is not supported";
                return Err(Error::new(ErrorKind::Unsupported, place, cause));
            }
            if primitive.mode > 6 {
                let cause = format!("{} is not a mode", primitive.mode);
                return Err(invalid(format!("{place}.mode"), cause));
            }
            for (name, accessor) in &primitive.attributes {
                let place = format!("{place}.attributes.{name}");
                follow(accessors, *accessor, &place, "accessor")?;
            }
            exists(accessors, primitive.indices, place, "indices", "accessor")?;
            exists(materials, primitive.material, place, "material", "material")
        });
        Ok(())
    });
}

fn nodes(model: &mut Model) {
    let (meshes, count) = (&model.meshes, model.nodes.len());
    check_each(&mut model.nodes, "nodes", |_, node, place| {
        exists(meshes, node.mesh, place, "mesh", "mesh")?;
        check_nodes(&node.children, count, &format!("{place}.children"))
    });
}

/// Checks that nodes form trees: every node has at most one parent, and there is no cycle. A walk
/// from a root over valid nodes ends within `limits::NODE_DEPTH_MAX` levels.
fn trees(model: &mut Model) {
    let nodes = &mut model.nodes;
    let mut parents: Vec<Option<usize>> = vec![None; nodes.len()];
    check_each(nodes, "nodes", |index, node, place| {
        for (at, &child) in node.children.iter().enumerate() {
            if let Some(other) = parents[child] {
                let cause = format!("node {child} is already a child of node {other}");
                return Err(invalid(format!("{place}.children[{at}]"), cause));
            }
            parents[child] = Some(index);
        }
        Ok(())
    });
    // From the roots down: a node in a cycle, or below one, is not reached. With one parent each,
    // none is reached twice.
    let is_root = |&node: &usize| parents[node].is_none_or(|parent| nodes[parent].is_err());
    let roots = (0..nodes.len()).filter(is_root);
    let mut open: Vec<(usize, usize)> = roots.map(|root| (root, 1)).collect();
    let mut reached = vec![false; nodes.len()];
    while let Some((index, depth)) = open.pop() {
        reached[index] = true;
        if let (Ok(node), true) = (&nodes[index], depth < limits::NODE_DEPTH_MAX) {
            open.extend(node.children.iter().map(|&child| (child, depth + 1)));
        }
    }
    check_each(nodes, "nodes", |index, _, place| {
        if !reached[index] {
            let cause = "the node is its own descendant, or too deep in the tree";
            return Err(invalid(format!("{place}.children"), cause));
        }
        Ok(())
    });
}

fn scenes(model: &mut Model) {
    let count = model.nodes.len();
    check_each(&mut model.scenes, "scenes", |_, scene, place| {
        check_nodes(&scene.nodes, count, &format!("{place}.nodes"))
    });
}

/// Checks that nodes exist, valid or not.
fn check_nodes(nodes: &[usize], count: usize, place: &str) -> Result<()> {
    match nodes.iter().position(|&node| node >= count) {
        None => Ok(()),
        Some(at) => {
            let cause = format!("node {} does not exist: there are {count}", nodes[at]);
            Err(invalid(format!("{place}[{at}]"), cause))
        }
    }
}
