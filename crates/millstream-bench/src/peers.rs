//! The rivals of the crate `millstream-peers` as contenders: those behind the feature `peers`.
//!
//! Each runs on a thread of its own, for two reasons: some of them belong to the thread that
//! started them, and one that hangs must not hang the benchmark. A rival that takes longer than
//! [`limits::PEER_TIME_MAX`](crate::limits::PEER_TIME_MAX) is out, and the memory that it was lent
//! is given up with it.
//!
//! A rival whose reads in flight are threads does not get better with ever more of them: how many
//! serve it best is found by a short sweep ahead of the first case of a kind, and no case gives it
//! more. Rivals on a ring get the depth of the case. In `read` and `startup`, which name no depth,
//! the sweep finds depth and block for everyone.
//!
//! Without the feature the crate has no rivals, and no case has any of them.

mod contenders;
mod realtime;
mod remote;
mod sweep;

pub(crate) use contenders::Peers;
