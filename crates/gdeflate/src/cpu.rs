//! What the processor can do.

/// Whether this machine has all of these features; without `std`, whether every machine that this
/// is compiled for has them.
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
