//! The bare ring on small files: the caller opens, the ring reads, both at once.

use std::sync::Arc;

use super::Plan;
use crate::clock::Moment;
use crate::error::Result;
use crate::measure::{Contender, Work};
use crate::memory::Destination;
use crate::read::open_buffered;
use crate::requests::held;
use crate::ring::{BareRing, ReadJob};
use crate::rows::Params;

/// Reads in flight: from here on more gain nothing on files of this size.
const DEPTH: usize = 64;

/// The ring.
pub(super) struct RingFiles {
    plan: Arc<Plan>,
    ring: BareRing,
}

impl RingFiles {
    pub(super) fn new(plan: &Arc<Plan>) -> Result<RingFiles> {
        Ok(RingFiles {
            plan: plan.clone(),
            ring: BareRing::new(DEPTH)?,
        })
    }
}

impl Contender for RingFiles {
    fn name(&self) -> String {
        "ring".into()
    }

    fn params(&self) -> Params {
        Params::from([
            ("depth".into(), DEPTH.into()),
            ("flags".into(), self.ring.flags().into()),
        ])
    }

    fn run(&mut self, destination: &mut Destination) -> Result<Work> {
        let start = Moment::now();
        let mut wanted = self.plan.wanted();
        self.ring.read_opening(destination, DEPTH, &mut || {
            let Some(entry) = wanted.next() else {
                return Ok(None);
            };
            let len = entry.place.len() as u32;
            let job = ReadJob {
                file: 0,
                offset: 0,
                place: entry.place.start,
                len,
                need: len,
            };
            Ok(Some((open_buffered(&entry.file.path)?, job)))
        })?;
        let span = start.elapsed();
        Ok(Work {
            requests: self.plan.entries.len() as u64,
            span: Some(span),
            extra: vec![(held::TOTAL, span.wall * 1e3)],
            ..Work::default()
        })
    }
}
