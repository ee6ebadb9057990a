//! Alternatives of images: a texture whose image fails shows another image that it names.

use super::Load;
use crate::plan::{Purpose, SceneFile};
use crate::scene::{Scene, State};

impl Load {
    /// Notes which textures name more than one image.
    pub(super) fn note_alternatives(&mut self, scene: &Scene) {
        for (at, texture) in scene.model.textures.iter().enumerate() {
            if let Ok(texture) = texture
                && let Some(image) = texture.image
                && !texture.passed_over.is_empty()
            {
                self.alternatives.entry(image).or_default().push(at);
            }
        }
    }

    /// Makes the textures of images that have failed show others, and fetches these. A texture
    /// names at most four images, which bounds the recursion.
    pub(super) fn fall_back(&mut self, failed: &[usize]) {
        let Some(Ok(scene)) = &mut self.scene else {
            return;
        };
        let mut wanted = Vec::new();
        for &image in failed {
            for at in self.alternatives.remove(&image).unwrap_or_default() {
                let Ok(texture) = &mut scene.model.textures[at] else {
                    continue;
                };
                let (images, states) = (&scene.model.images, &scene.images);
                let is_usable =
                    |&other: &usize| images[other].is_ok() && states[other].error().is_none();
                let Some(nth) = texture.passed_over.iter().position(is_usable) else {
                    continue;
                };
                let other = std::mem::replace(&mut texture.passed_over[nth], image);
                texture.image = Some(other);
                self.alternatives.entry(other).or_default().push(at);
                if matches!(scene.images[other], State::Unwanted) {
                    scene.images[other] = State::Waiting;
                    wanted.push(other);
                }
            }
        }
        for image in wanted {
            self.fetch_image(image);
        }
    }

    /// Adds an image that was not wanted before; `issue` must follow.
    fn fetch_image(&mut self, image: usize) {
        let Some(Ok(scene)) = &self.scene else {
            return;
        };
        let file = SceneFile {
            name: &self.name,
            binary: self.binary.clone(),
        };
        let fetch = file.fetch_image(&scene.model, image);
        let added = fetch.and_then(|fetch| self.add(fetch, false));
        if let Err(error) = added {
            self.mark(&Purpose::Images(vec![image]), Some(error));
        }
    }
}
