//! Detection of CPU features.

/// Whether this machine has all of these features; without `std`, whether the compilation target
/// guarantees them.
macro_rules! cpu_has {
    ($($feature:tt),+) => {{
        #[cfg(feature = "std")]
        let has = $(std::arch::is_x86_feature_detected!($feature))&&+;
        #[cfg(not(feature = "std"))]
        let has = cfg!(all($(target_feature = $feature),+));
        has
    }};
}
pub(crate) use cpu_has;
