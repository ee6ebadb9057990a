//! Features of io_uring: those that a ring uses, and those that tests hide. Defined on every
//! system, so that programs need no `cfg`.

/// Features to leave unused although the kernel has them, so that tests run the code for old
/// kernels. `true` hides the feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FeatureMask {
    /// A timeout argument of the enter call (5.11). Without: a timeout operation in the ring.
    pub ext_arg: bool,
    /// Task work does not interrupt the owner (5.19).
    pub coop_taskrun: bool,
    /// A single thread uses the ring (6.0).
    pub single_issuer: bool,
    /// Task work is deferred to the owner's next call (6.1).
    pub defer_taskrun: bool,
    /// A sparse table of registered memory, filled later (5.13).
    pub registration: bool,
    /// A completion queue with room for everything in flight. Without: the smallest, which
    /// overflows.
    pub large_completion_queue: bool,
}

impl FeatureMask {
    /// Hides what Linux 5.10, the oldest supported kernel, lacks.
    #[must_use]
    pub fn linux_5_10() -> FeatureMask {
        FeatureMask {
            ext_arg: true,
            coop_taskrun: true,
            single_issuer: true,
            defer_taskrun: true,
            registration: true,
            large_completion_queue: false,
        }
    }
}

/// The features that a ring uses; see [`ring_features`](crate::backend::ring_features).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UringFeatures {
    /// `IORING_SETUP_SINGLE_ISSUER`.
    pub single_issuer: bool,
    /// `IORING_SETUP_DEFER_TASKRUN`.
    pub defer_taskrun: bool,
    /// `IORING_SETUP_COOP_TASKRUN`.
    pub coop_taskrun: bool,
    /// `IORING_SETUP_TASKRUN_FLAG`.
    pub task_run_flag: bool,
    /// `IORING_FEAT_EXT_ARG`.
    pub ext_arg: bool,
    /// `IORING_FEAT_RSRC_TAGS`.
    pub resource_tags: bool,
    /// Entries of the submission queue.
    pub submission_entries: u32,
    /// Entries of the completion queue.
    pub completion_entries: u32,
    /// Number of bytes of memory registered.
    pub registered_bytes: usize,
    /// Why registering the last region offered failed or was cut short; else empty.
    pub registered_why_not: &'static str,
}
