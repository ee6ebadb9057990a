//! The first batch: the JSON or the GLB's head, and what a package's record promises.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use millstream::{Buffer, Failed, Ticket};

use super::item::landed_buffer;
use super::{Event, EventKind, Load, Stage};
use crate::error::{Error, ErrorKind, Result};
use crate::glb;
use crate::limits;
use crate::model::{BufferPlace, Model};
use crate::plan::{self, Fetch, Key, Origin, Plan, Purpose, SameBytes, SceneFile};
use crate::scene::{Bytes, Scene, State};

/// The first bytes of the scene's file, on their way.
pub(super) struct Head {
    ticket: Ticket,
}

impl Load<'_> {
    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.name).into_owned()
    }

    /// Makes the first batch.
    pub(super) fn start(&mut self) -> Result<()> {
        let len = self.located.raw_bytes();
        let is_glb =
            self.name.len() >= 4 && self.name[self.name.len() - 4..].eq_ignore_ascii_case(b".glb");
        let promised = self.promised();
        let head_bytes = match (&promised, is_glb) {
            (Some((_, Some(head_bytes))), _) => (*head_bytes).min(len),
            (_, true) => len.min(limits::GLB_HEAD_BYTES),
            (_, false) => len,
        };
        if head_bytes > limits::JSON_BYTES_MAX {
            let cause = format!("{head_bytes} bytes of JSON are beyond the limit");
            return Err(Error::new(ErrorKind::Limit, "", cause).in_file(&self.shown()));
        }
        self.request_head(head_bytes)?;
        let fetches = promised.map(|(fetches, _)| fetches).unwrap_or_default();
        for fetch in fetches {
            let geometry = matches!(fetch.purpose, Purpose::Buffer { .. });
            // A promise that cannot be kept is no error: the JSON decides.
            let _ = self.add(fetch.origin, None, geometry, fetch.place);
        }
        self.progress.files += 1;
        self.progress.batches += 1;
        self.issue();
        Ok(())
    }

    /// What the record of the scene in its package says: what to fetch, and how many bytes of the
    /// scene's own file tell everything about it.
    fn promised(&self) -> Option<(Vec<Fetch>, Option<u64>)> {
        #[cfg(feature = "pak")]
        if !self.plain {
            let record = self.source.metadata(&self.located).ok()??;
            return crate::record::promised(&self.name, record, self.loader.options.load_images);
        }
        None
    }

    fn request_head(&mut self, head_bytes: u64) -> Result<()> {
        let shown = self.shown();
        let request = self.source.request_range(&self.located, 0, head_bytes);
        let request = request.map_err(|error| Error::of_request("", &shown, &error))?;
        let request = request
            .priority(self.loader.options.geometry)
            .group(&self.group)
            .name(&shown[..]);
        let enqueued = self.loader.queue.enqueue(request);
        let ticket = enqueued.map_err(|rejected| Error::of_request("", &shown, &rejected.error))?;
        self.progress.requests += 1;
        self.progress.wanted += 1;
        self.stage = Stage::Head(Head { ticket });
        Ok(())
    }

    /// Looks after the head; ready once the stage is another.
    pub(super) fn poll_head(&mut self, waker: &Waker) -> Poll<()> {
        loop {
            let Stage::Head(head) = &mut self.stage else {
                return Poll::Ready(());
            };
            let mut context = Context::from_waker(waker);
            let Poll::Ready(outcome) = Pin::new(&mut head.ticket).poll(&mut context) else {
                return Poll::Pending;
            };
            self.stage = Stage::Done;
            if let Err(error) = self.head_landed(outcome.map(landed_buffer)) {
                self.progress.failed += 1;
                self.loader.queue.cancel_group(&self.group);
                self.scene = Some(Err(error.in_file(&self.shown())));
            }
        }
    }

    fn head_landed(&mut self, outcome: Result<Buffer, Failed>) -> Result<()> {
        self.progress.ended += 1;
        let shown = self.shown();
        let head = outcome.map_err(|failed| Error::of_request("", &shown, &failed.error))?;
        let head = Arc::new(head);
        let mut binary = None;
        let mut json = 0..head.len();
        let file_bytes = self.located.raw_bytes();
        if !glb::is_glb(&head) {
            if file_bytes > head.len() as u64 {
                return self.request_longer_head(file_bytes);
            }
        } else {
            let layout = glb::parse(&head, file_bytes)?;
            if layout.head_bytes > head.len() as u64 {
                return self.request_longer_head(layout.head_bytes);
            }
            let index = |at: u64| usize::try_from(at).expect("inside the head");
            json = index(layout.json.start)..index(layout.json.end);
            binary = layout.binary;
        }
        self.progress.raw_bytes += head.len() as u64;
        self.events.push(Event {
            place: String::new(),
            what: EventKind::Json,
            file: shown,
            bytes: head.len() as u64,
            at: self.started.elapsed(),
            failed: false,
        });
        let model = Model::parse(&head[json.clone()])?;
        self.begin_body(model, head, json, binary);
        Ok(())
    }

    /// The JSON is longer than the guess, or than a record says: it is a batch of its own.
    fn request_longer_head(&mut self, head_bytes: u64) -> Result<()> {
        if head_bytes > limits::JSON_BYTES_MAX {
            let cause = format!("{head_bytes} bytes of JSON are beyond the limit");
            return Err(Error::new(ErrorKind::Limit, "", cause));
        }
        if self.cancelled {
            return Err(Error::new(ErrorKind::Cancelled, "", "was cancelled"));
        }
        self.progress.batches += 1;
        self.request_head(head_bytes)?;
        self.loader.queue.submit();
        Ok(())
    }

    /// Makes the second batch, as far as the first did not.
    fn begin_body(
        &mut self,
        model: Model,
        head: Arc<Buffer>,
        json: std::ops::Range<usize>,
        binary: Option<std::ops::Range<u64>>,
    ) {
        let file = SceneFile {
            name: &self.name,
            binary,
        };
        let plan = plan::plan(&model, &file, self.loader.options.load_images);
        let buffer_state = |buffer: &Result<crate::model::Buffer>| match buffer {
            Err(_) => State::Unwanted,
            Ok(buffer) if buffer.place == BufferPlace::Nowhere => State::Unwanted,
            Ok(_) => State::Ready(Default::default()),
        };
        let buffers = model.buffers.iter().map(buffer_state).collect();
        let images = model.images.iter().map(|_| State::Unwanted).collect();
        self.scene = Some(Ok(Scene {
            model,
            json: Bytes::Part(SameBytes::Head(Arc::clone(&head)), json),
            buffers,
            images,
        }));
        self.stage = Stage::Body;
        self.take_up(plan, &head);
        self.issue();
    }

    /// Finds for each fetch of the plan the item that was promised, or makes one.
    fn take_up(&mut self, plan: Plan, head: &Arc<Buffer>) {
        for (buffer, error) in plan.failed_buffers {
            self.set_buffer(buffer, State::Failed(error));
        }
        for (image, error) in plan.failed_images {
            self.set_image(image, State::Failed(error));
        }
        let promised: HashMap<Key, usize> = (0..self.items.len())
            .filter(|&index| !self.items[index].is_second_half(index))
            .map(|index| (self.items[index].origin.key(), index))
            .collect();
        let before = self.items.len();
        let mut reads = false;
        for mut fetch in plan.fetches {
            self.expect(&fetch.purpose);
            if self.take_promised(&fetch, &promised) {
                continue;
            }
            serve_from_head(&mut fetch.origin, &self.name, head);
            // Decoding an image that is in memory depends on no device.
            reads |= !matches!(fetch.origin, Origin::Memory { .. });
            let geometry = matches!(fetch.purpose, Purpose::Buffer { .. });
            let purpose = fetch.purpose.clone();
            if let Err(error) = self.add(fetch.origin, Some(purpose), geometry, fetch.place) {
                self.fail_purpose(&fetch.purpose, error);
            }
        }
        if reads {
            self.progress.batches += 1;
        }
        for index in 0..before {
            if self.items[index].purpose.is_none() {
                self.drop_item(index);
            }
        }
    }
}

/// Bytes that lie in the head, which is in memory already, are taken from there.
fn serve_from_head(origin: &mut Origin, scene: &[u8], head: &Arc<Buffer>) {
    let Origin::Entry { name, range } = &origin else {
        return;
    };
    if **name != *scene || range.end > head.len() as u64 {
        return;
    }
    let index = |at: u64| usize::try_from(at).expect("inside the head");
    *origin = Origin::Memory {
        range: index(range.start)..index(range.end),
        bytes: SameBytes::Head(Arc::clone(head)),
    };
}
