//! The rivals of the crate `millstream-peers` as contenders: those behind the feature `peers`.
//!
//! Each runs on a thread of its own, for two reasons: some of them belong to the thread that
//! started them, and one that hangs must not hang the benchmark. Who takes longer than
//! [`limits::PEER_TIME_MAX`](crate::limits::PEER_TIME_MAX) is out, and the memory that it was lent
//! is given up with it.
//!
//! A rival whose reads in flight are threads does not get better with ever more of them: how many
//! serve it best is found by a short sweep ahead of the first case of a kind, and no case gives it
//! more. Rivals on a ring get the depth of the case. In `read` and `startup`, which name no depth,
//! the sweep finds depth and block for everyone.
//!
//! Without the feature there is none of this, and no case has any of them.

#[cfg(feature = "peers")]
mod contenders;
#[cfg(feature = "peers")]
mod realtime;
#[cfg(feature = "peers")]
mod remote;
#[cfg(feature = "peers")]
mod sweep;

/// Why a rival is left out of reads at random places.
#[cfg(feature = "peers")]
const NO_SEEKS: &str = "its files read ahead after every seek; it reads whole files elsewhere";

#[cfg(feature = "peers")]
pub(crate) use contenders::Peers;
#[cfg(not(feature = "peers"))]
pub(crate) use without::Peers;

/// The same for builds without rivals: nobody is added to any case.
#[cfg(not(feature = "peers"))]
mod without {
    use std::path::Path;
    use std::sync::Arc;

    use crate::corpus::CorpusFile;
    use crate::requests::realtime::RealtimeSystem;
    use crate::requests::{Cell, Mode};
    use crate::ring::ReadJob;
    use crate::rows::Row;
    use crate::startup::Plan;
    use crate::workload::Field;

    #[derive(Debug, Default)]
    pub(crate) struct Peers {}

    impl Peers {
        pub(crate) fn cell(&mut self, _: &mut Field, _: &CorpusFile, _: Cell, _: &[ReadJob]) {}

        pub(crate) fn held(&mut self, _: &mut Field, _: &CorpusFile, _: Mode, _: &[ReadJob]) {}

        pub(crate) fn startup(&mut self, _: &mut Field, _: &Arc<Plan>) {}

        pub(crate) fn read(&mut self, _: &mut Field, _: &CorpusFile) {}

        pub(crate) fn realtime(
            &mut self,
            _: &mut Vec<Arc<dyn RealtimeSystem>>,
            _: &CorpusFile,
            _: &[ReadJob],
        ) -> Vec<Row> {
            Vec::new()
        }

        pub(crate) fn fio(&self, _: &mut Field, _: &Path, _: Cell, _: u64, _: bool) {}
    }
}
