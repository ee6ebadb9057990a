//! What every workload uses.

pub(crate) use crate::case::{Case, Figures, Method, Samples, Work, fresh};
pub(crate) use crate::cases::{Bytes, Instance};
pub(crate) use crate::clock::{Moment, Span, span_of};
pub(crate) use crate::corpus::{BLOCK_BYTES, Corpus, CorpusFile, Form, word_sum};
pub(crate) use crate::error::{Context, Error, Result, ensure};
pub(crate) use crate::files::*;
pub(crate) use crate::limits::*;
pub(crate) use crate::memory::Destination;
pub(crate) use crate::metric::Metric;
pub(crate) use crate::session::Session;
