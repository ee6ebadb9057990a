//! The same files without a package: by threads of the standard library, and by every rival.

use std::sync::Arc;

use crate::error::Result;
use crate::limits;
use crate::measure::{Contender, Work};
use crate::memory::Destination;
use crate::rows::Params;
use crate::startup::{Plan, Std};
use crate::workload::{Field, Session};

/// Adds everyone who loads loose files.
pub(super) fn contenders(session: &mut Session<'_>, field: &mut Field, plan: &Arc<Plan>) {
    let mut loose = Field::new(super::WORKLOAD, &field.case);
    loose.add(Std {
        plan: Arc::clone(plan),
        threads: limits::POOL_THREADS,
    });
    session.peers.startup(&mut loose, plan);
    for inner in loose.contenders {
        let plan = Arc::clone(plan);
        field.add(Checked { inner, plan });
    }
    field.skipped.append(&mut loose.skipped);
}

/// A contender whose bytes are checked where the plan has them; packages bring buffers of their
/// own, and check those themselves.
struct Checked {
    inner: Box<dyn Contender>,
    plan: Arc<Plan>,
}

impl Contender for Checked {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn params(&self) -> Params {
        self.inner.params()
    }

    fn prepare(&mut self) -> Result<()> {
        self.inner.prepare()
    }

    fn run(&mut self, destination: &mut Destination) -> Result<Work> {
        let mut work = self.inner.run(destination)?;
        // Outside of the time that counts: all of these take their own.
        debug_assert!(
            work.span.is_some(),
            "{} is timed with the check",
            self.name()
        );
        self.plan.check(destination)?;
        work.bytes = self.plan.wanted().map(|entry| entry.file.raw_len).sum();
        Ok(work)
    }
}
