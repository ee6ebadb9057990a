//! Places in a file, as errors report them.

/// How far the parser has come.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Place {
    pub(crate) offset: u64,
    /// Line feeds before the offset.
    lines: u64,
    /// Where the line begins.
    line_offset: u64,
}

impl Place {
    /// The line and column, from 1 on.
    pub(crate) fn line_and_column(&self) -> (u64, u64) {
        (
            self.lines + 1,
            self.offset.saturating_sub(self.line_offset) + 1,
        )
    }

    /// Goes on over these bytes.
    pub(crate) fn advance(&mut self, bytes: &[u8], counts_lines: bool) {
        if counts_lines && let Some(last) = memchr::memrchr(b'\n', bytes) {
            self.lines += memchr::memchr_iter(b'\n', &bytes[..=last]).count() as u64;
            self.line_offset = self.offset + last as u64 + 1;
        }
        self.offset += bytes.len() as u64;
    }
}
