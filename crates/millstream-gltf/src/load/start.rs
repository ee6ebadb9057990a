//! Begins both batches: the JSON or GLB head, with what a package's record predicts; and the rest.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use millstream::{Buffer, Outcome};

use super::{Event, EventKind, Load, Stage};
use crate::error::{Error, ErrorKind, Result};
use crate::glb;
use crate::limits;
use crate::model::{BufferPlace, Model, without_mark};
use crate::plan::{self, Fetch, Key, Origin, Plan, SameBytes, SceneFile};
use crate::scene::{Bytes, Scene, State};

impl Load {
    pub(super) fn shown(&self) -> String {
        String::from_utf8_lossy(&self.name).into_owned()
    }

    /// Submits the first batch.
    pub(super) fn start(&mut self) -> Result<()> {
        let len = self.located.raw_bytes();
        let promised = self.promised();
        let head_bytes = match &promised {
            Some((_, Some(head_bytes))) => *head_bytes,
            _ if self.name.to_ascii_lowercase().ends_with(b".glb") => limits::GLB_HEAD_BYTES,
            _ => len,
        };
        self.request_head(head_bytes.min(len))?;
        let fetches = promised.map(|(fetches, _)| fetches).unwrap_or_default();
        for fetch in fetches {
            // A wrong prediction is not an error: the JSON decides.
            let _ = self.add(fetch, true);
        }
        self.progress.files += 1;
        self.progress.batches += 1;
        self.sort_waiting();
        self.issue();
        Ok(())
    }

    /// Returns what the scene's record in its package predicts: the fetches, and the length of the
    /// head of the scene's own file.
    fn promised(&self) -> Option<(Vec<Fetch>, Option<u64>)> {
        #[cfg(feature = "pak")]
        if !self.plain {
            let record = self.source.metadata(&self.located).ok()??;
            return crate::record::promised(&self.name, record);
        }
        None
    }

    /// Requests the beginning of the scene's own file. Callers add the file's name to errors.
    fn request_head(&mut self, head_bytes: u64) -> Result<()> {
        if head_bytes > limits::JSON_BYTES_MAX {
            let most = limits::JSON_BYTES_MAX;
            let cause = format!("{head_bytes} bytes of JSON exceed the limit of {most}");
            return Err(Error::new(ErrorKind::Limit, "", cause));
        }
        self.charge_json(head_bytes)?;
        let wrong = |error| Error::of_request("", "", &error);
        let request = self.source.request_range(&self.located, 0, head_bytes);
        let request = request.map_err(wrong)?;
        let request = request
            .priority(self.loader.options.geometry)
            .group(&self.group)
            .name(self.shown());
        self.stage = Stage::Head(self.batch.add(request).map_err(wrong)?);
        self.progress.requests += 1;
        Ok(())
    }

    /// Charges the budget for the JSON, unless the application has set the limit.
    fn charge_json(&self, bytes: u64) -> Result<()> {
        match !self.budget.grows() || self.budget.take(bytes) {
            true => Ok(()),
            false => Err(self.budget.no_room("", "", bytes)),
        }
    }

    /// Polls the head; ready once the load has left its stage.
    pub(super) fn poll_head(&mut self, waker: &Waker) -> Poll<()> {
        loop {
            let Stage::Head(ticket) = &mut self.stage else {
                return Poll::Ready(());
            };
            let mut context = Context::from_waker(waker);
            let Poll::Ready(outcome) = ticket.poll_outcome(&mut context) else {
                return Poll::Pending;
            };
            self.stage = Stage::Done;
            if let Err(error) = self.head_landed(outcome) {
                self.loader.queue.cancel_group(&self.group);
                self.scene = Some(Err(error.in_file(&self.shown())));
            }
        }
    }

    fn head_landed(&mut self, outcome: Outcome<Buffer>) -> Result<()> {
        let head = outcome.into_result();
        let head = head.map_err(|error| Error::of_request("", "", &error))?;
        let head = Arc::new(head);
        let mut binary = None;
        let mut json = head.len() - without_mark(&head).len()..head.len();
        let file_bytes = self.located.raw_bytes();
        if !glb::is_glb(&head) {
            if file_bytes > head.len() as u64 {
                return self.request_longer_head(head.len() as u64, file_bytes);
            }
        } else {
            let layout = glb::parse(&head, file_bytes)?;
            if layout.head_bytes > head.len() as u64 {
                return self.request_longer_head(head.len() as u64, layout.head_bytes);
            }
            let index = |at: u64| usize::try_from(at).expect("inside the head");
            json = index(layout.json.start)..index(layout.json.end);
            json.start = json.end - without_mark(&head[json.clone()]).len();
            binary = layout.binary;
        }
        self.charge_json(limits::model_memory(&head[json.clone()]))?;
        self.progress.raw_bytes += head.len() as u64;
        self.events.push(Event {
            place: String::new(),
            what: EventKind::Json,
            file: self.shown(),
            bytes: head.len() as u64,
            at: self.started.elapsed(),
            failed: false,
        });
        let model = Model::parse(&head[json.clone()])?;
        self.begin_body(model, head, json, binary);
        Ok(())
    }

    /// Requests the whole JSON, which is longer than the `came` bytes read, in a batch of its own.
    fn request_longer_head(&mut self, came: u64, head_bytes: u64) -> Result<()> {
        if self.canceled {
            return Err(Error::new(ErrorKind::Canceled, "", "was canceled"));
        }
        self.progress.batches += 1;
        if self.budget.grows() {
            self.budget.give_back(came);
        }
        self.request_head(head_bytes)?;
        self.batch.submit();
        Ok(())
    }

    /// Submits the second batch: what the first one lacks.
    fn begin_body(
        &mut self,
        model: Model,
        head: Arc<Buffer>,
        json: Range<usize>,
        binary: Option<Range<u64>>,
    ) {
        let name = &self.name;
        let file = SceneFile { name, binary };
        let plan = plan::plan(&model, &file);
        self.binary = file.binary;
        let buffer_state = |buffer: &Result<crate::model::Buffer>| match buffer {
            Err(_) => State::Unwanted,
            Ok(buffer) if buffer.place == BufferPlace::Nowhere => State::Unwanted,
            Ok(_) => State::Ready(Default::default()),
        };
        let buffers = model.buffers.iter().map(buffer_state).collect();
        let images = model.images.iter().map(|_| State::Unwanted).collect();
        let scene = Scene {
            model,
            json: Bytes::Part(SameBytes::Head(Arc::clone(&head)), json),
            buffers,
            images,
        };
        self.note_alternatives(&scene);
        self.scene = Some(Ok(scene));
        self.stage = Stage::Body;
        self.take_up(plan, &head);
        self.sort_waiting();
        self.issue();
    }

    /// Finds the predicted item of each fetch of the plan, or adds one.
    fn take_up(&mut self, plan: Plan, head: &Arc<Buffer>) {
        for fetch in &plan.fetches {
            self.expect(&fetch.purpose);
        }
        for (purpose, error) in plan.failed {
            self.mark(&purpose, Some(error));
        }
        let promised: HashMap<Key, usize> = (0..self.items.len())
            .filter(|&index| !self.items[index].is_large())
            .map(|index| (self.items[index].origin.key(), index))
            .collect();
        let before = self.items.len();
        let mut reads = false;
        for mut fetch in plan.fetches {
            let index = find_promised(&fetch.origin, &promised);
            if index.is_some_and(|index| self.take_promised(&fetch, index)) {
                continue;
            }
            serve_from_head(&mut fetch.origin, &self.name, head);
            // Bytes in memory need no read.
            reads |= !matches!(fetch.origin, Origin::Memory { .. });
            let purpose = fetch.purpose.clone();
            if let Err(error) = self.add(fetch, false) {
                self.mark(&purpose, Some(error));
            }
        }
        if reads {
            self.progress.batches += 1;
        }
        for index in 0..before {
            if self.items[index].promised {
                self.drop_item(index);
            }
        }
    }
}

/// Returns the predicted item that has the bytes of an origin: the same range, or the whole entry
/// for a range at its beginning.
fn find_promised(wanted: &Origin, promised: &HashMap<Key, usize>) -> Option<usize> {
    let whole = || match wanted.key() {
        (name, Some(Range { start: 0, .. })) => promised.get(&(name, None)),
        _ => None,
    };
    promised.get(&wanted.key()).or_else(whole).copied()
}

/// Changes the origin of bytes inside the head, which is in memory, to that memory.
fn serve_from_head(origin: &mut Origin, scene: &[u8], head: &Arc<Buffer>) {
    if let Origin::Entry {
        name,
        range: Some(range),
    } = &*origin
        && **name == *scene
        && range.end <= head.len() as u64
    {
        let index = |at: u64| usize::try_from(at).expect("inside the head");
        *origin = Origin::Memory {
            range: index(range.start)..index(range.end),
            bytes: SameBytes::Head(Arc::clone(head)),
        };
    }
}
