//! Checks that elements refer to existing elements, and to bytes inside their buffers.
//!
//! Elements are checked in the order of dependency, so that an element which refers to an invalid
//! one becomes invalid itself, with an error that names the root cause.

use std::fmt;

use super::{Accessor, BufferPlace, ImagePlace, Model, Sparse, View};
use crate::error::{Error, ErrorKind, Result, invalid};
use crate::limits;

/// Checks all references; `needs_draco` if the document requires Draco compression.
pub(super) fn references(model: &mut Model, needs_draco: bool) {
    check_each(&mut model.buffers, "buffers", |_, buffer| {
        not_zero(buffer.len)
    });
    let buffers = &model.buffers;
    check_each(&mut model.views, "bufferViews", |_, view| {
        check_view(view, buffers)
    });
    let views = &model.views;
    check_each(&mut model.accessors, "accessors", |_, accessor| {
        check_accessor(accessor, views)
    });
    check_each(&mut model.images, "images", |_, image| match image.place {
        ImagePlace::View(view) => follow(views, view, "bufferView", "bufferView").map(|_| ()),
        _ => Ok(()),
    });
    textures(model);
    let textures = &model.textures;
    check_each(&mut model.materials, "materials", |_, material| {
        for used in &material.textures {
            let found = follow(textures, used.texture, "index", "texture");
            found.map_err(|error| error.within(&used.slot))?;
        }
        Ok(())
    });
    meshes(model, needs_draco);
    let (meshes, count) = (&model.meshes, model.nodes.len());
    check_each(&mut model.nodes, "nodes", |_, node| {
        follow_some(meshes, node.mesh, "mesh", "mesh")?;
        check_nodes(&node.children, count, "children")
    });
    trees(model);
    check_each(&mut model.scenes, "scenes", |_, scene| {
        check_nodes(&scene.nodes, count, "nodes")
    });
}

/// Replaces elements by the errors that `check` finds, at places inside of the element.
fn check_each<T>(
    elements: &mut [Result<T>],
    array: impl fmt::Display,
    mut check: impl FnMut(usize, &mut T) -> Result<()>,
) {
    for (index, slot) in elements.iter_mut().enumerate() {
        if let Ok(element) = slot
            && let Err(error) = check(index, element)
        {
            *slot = Err(error.within(format_args!("{array}[{index}]")));
        }
    }
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

/// Like [`follow`], for an optional index.
fn follow_some<T>(
    elements: &[Result<T>],
    index: Option<usize>,
    place: &str,
    what: &str,
) -> Result<()> {
    index.map_or(Ok(()), |index| {
        follow(elements, index, place, what).map(|_| ())
    })
}

fn not_zero(len: u64) -> Result<()> {
    match len {
        0 => Err(invalid("byteLength", "must be 1 or more")),
        _ => Ok(()),
    }
}

fn check_view(view: &View, buffers: &[Result<super::Buffer>]) -> Result<()> {
    not_zero(view.len)?;
    if (view.stride).is_some_and(|stride| !(4..=252).contains(&stride) || stride % 4 != 0) {
        let cause = "must be a multiple of 4 from 4 to 252";
        return Err(invalid("byteStride", cause));
    }
    let buffer = follow(buffers, view.buffer, "buffer", "buffer")?;
    if !is_inside(view.offset, view.len, buffer.len) {
        let cause = format!(
            "{} bytes at offset {} exceed the {} bytes of buffer {}",
            view.len, view.offset, buffer.len, view.buffer
        );
        return Err(invalid("byteLength", cause));
    }
    // With an uncompressed copy of the bytes the extension is ignored.
    if buffer.place == BufferPlace::Nowhere {
        let cause = "EXT_meshopt_compression is not supported, and there is no uncompressed copy";
        let place = "extensions.EXT_meshopt_compression";
        return Err(Error::new(ErrorKind::Unsupported, place, cause));
    }
    Ok(())
}

fn check_accessor(accessor: &Accessor, views: &[Result<View>]) -> Result<()> {
    if !(1..=limits::ACCESSOR_COUNT_MAX).contains(&accessor.count) {
        let cause = format!("{} elements: must be 1 to 2^31", accessor.count);
        return Err(invalid("count", cause));
    }
    if let Some(index) = accessor.view {
        let view = follow(views, index, "bufferView", "bufferView")?;
        check_elements(accessor, view, index)?;
    } else if accessor.offset > 0 {
        return Err(invalid("byteOffset", "without a bufferView"));
    } else if accessor.count * accessor.element_bytes() > limits::ZEROS_BYTES_MAX {
        // There are no stored bytes, so only a limit bounds its size.
        let cause = "the elements are all zero, and more than the limit allows";
        return Err(Error::new(ErrorKind::Limit, "count", cause));
    }
    match &accessor.sparse {
        Some(sparse) => {
            check_sparse(sparse, accessor, views).map_err(|error| error.within("sparse"))
        }
        None => Ok(()),
    }
}

fn check_elements(accessor: &Accessor, view: &View, index: usize) -> Result<()> {
    let element = accessor.element_bytes();
    let stride = view.stride.unwrap_or(element);
    if stride < element {
        let cause = format!("elements of {element} bytes overlap at a stride of {stride}");
        return Err(invalid("bufferView", cause));
    }
    // The product does not wrap: at most 2³¹ elements of at most 252 bytes.
    let needed = (accessor.count - 1) * stride + accessor.last_bytes();
    fits(accessor.offset, needed, view, index, "count")?;
    let component = accessor.component.bytes();
    if !accessor.offset.is_multiple_of(component)
        || !(view.offset + accessor.offset).is_multiple_of(component)
    {
        let cause = format!("is not a multiple of the {component} bytes of a number");
        return Err(invalid("byteOffset", cause));
    }
    Ok(())
}

/// Whether a range ends within this many bytes.
fn is_inside(offset: u64, len: u64, within: u64) -> bool {
    offset.checked_add(len).is_some_and(|end| end <= within)
}

fn fits(offset: u64, needed: u64, view: &View, index: usize, place: &str) -> Result<()> {
    if !is_inside(offset, needed, view.len) {
        let cause = format!(
            "{needed} bytes at offset {offset} exceed the {} bytes of bufferView {index}",
            view.len
        );
        return Err(invalid(place, cause));
    }
    Ok(())
}

fn check_sparse(sparse: &Sparse, accessor: &Accessor, views: &[Result<View>]) -> Result<()> {
    if !(1..=accessor.count).contains(&sparse.count) {
        let (count, of) = (sparse.count, accessor.count);
        let cause = format!("{count} elements exceed the {of} of the accessor");
        return Err(invalid("count", cause));
    }
    let (indices, values) = (&sparse.indices, &sparse.values);
    if !indices.component.is_index() {
        return Err(invalid("indices.componentType", "indices must be unsigned"));
    }
    let index_bytes = sparse.count * indices.component.bytes();
    let value_bytes = (sparse.count - 1) * accessor.element_bytes() + accessor.last_bytes();
    for (place, index, offset, needed) in [
        (
            "indices.bufferView",
            indices.view,
            indices.offset,
            index_bytes,
        ),
        ("values.bufferView", values.view, values.offset, value_bytes),
    ] {
        let view = follow(views, index, place, "bufferView")?;
        fits(offset, needed, view, index, place)?;
    }
    Ok(())
}

/// Checks only that images exist: a texture whose image is invalid is itself valid.
fn textures(model: &mut Model) {
    let (images, samplers) = (model.images.len(), &model.samplers);
    check_each(&mut model.textures, "textures", |_, texture| {
        for &image in texture.image.iter().chain(&texture.passed_over) {
            if image >= images {
                let cause = format!("image {image} does not exist: there are {images}");
                return Err(invalid("source", cause));
            }
        }
        follow_some(samplers, texture.sampler, "sampler", "sampler")
    });
}

fn meshes(model: &mut Model, needs_draco: bool) {
    let (accessors, materials) = (&model.accessors, &model.materials);
    check_each(&mut model.meshes, "meshes", |mesh, about| {
        let array = format_args!("meshes[{mesh}].primitives");
        check_each(&mut about.primitives, array, |_, primitive| {
            // With an uncompressed copy of the elements the extension is ignored.
            let mut used = primitive.attributes.values().chain(&primitive.indices);
            let is_copied = |&index: &usize| match accessors.get(index) {
                Some(Ok(accessor)) => accessor.view.is_some() || accessor.sparse.is_some(),
                _ => true,
            };
            if primitive.extensions.0.draco.is_some() && (needs_draco || !used.all(is_copied)) {
                let cause = match needs_draco {
                    true => "Draco compression is not supported, and the document requires it",
                    false => "Draco compression is not supported, and there is no other copy",
                };
                let place = "extensions.KHR_draco_mesh_compression";
                return Err(Error::new(ErrorKind::Unsupported, place, cause));
            }
            if primitive.mode > 6 {
                let cause = format!("{} is not a mode", primitive.mode);
                return Err(invalid("mode", cause));
            }
            for (name, accessor) in &primitive.attributes {
                let found = follow(accessors, *accessor, name, "accessor");
                found.map_err(|error| error.within("attributes"))?;
            }
            follow_some(accessors, primitive.indices, "indices", "accessor")?;
            follow_some(materials, primitive.material, "material", "material")
        });
        Ok(())
    });
}

/// Checks that nodes form trees: every node has at most one parent, and there is no cycle. A walk
/// from a root over valid nodes ends within `limits::NODE_DEPTH_MAX` levels.
fn trees(model: &mut Model) {
    let nodes = &mut model.nodes;
    let mut parents: Vec<Option<usize>> = vec![None; nodes.len()];
    check_each(nodes, "nodes", |index, node| {
        for (at, &child) in node.children.iter().enumerate() {
            if let Some(other) = parents[child] {
                let cause = format!("node {child} is already a child of node {other}");
                return Err(invalid(format!("children[{at}]"), cause));
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
    check_each(nodes, "nodes", |index, _| match reached[index] {
        true => Ok(()),
        false => {
            let cause = "the node is its own descendant, or too deep in the tree";
            Err(invalid("children", cause))
        }
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
